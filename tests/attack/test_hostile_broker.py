"""Our clients against a broker that means no good: errors of ours, in the time that was given.

Findings 24 (routes of 60,000 brokers or 65,536 queues, floods of unasked answers) and 25 (no pause
when a pull comes back empty at once).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from flintmq import Message, Producer, PullConsumer, PushConsumer
from flintmq.errors import FlintError
from support.attack import hostile
from support.attack.victim import until

KINDS = ("brokers", "queues", "addresses", "unasked", "garbage", "headers", "silence", "records")
TIMEOUT_MS = 3_000
STOP_S = 5.0
GRACE_S = 12.0
"""On top of a timeout: tries of a send are more than one, and the machine may be busy."""

PULLS_PER_SECOND = 400


class Enemy:
    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, hostile.__file__, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.address = self._line()
        except BaseException:
            self.close()
            raise

    def pulls(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write("pulls\n")
        self._process.stdin.flush()
        return int(self._line())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line
        return line


@contextmanager
def enemy(kind: str) -> Iterator[Enemy]:
    made = Enemy(kind)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def within(limit_s: float, what: str) -> Iterator[None]:
    """The time that was given, and no more; a retry tells noise from a hang."""
    start = time.monotonic()
    yield
    took_s = time.monotonic() - start
    assert took_s <= limit_s, f"{what} took {took_s:.1f} s"


def quietly(act: Callable[[], object]) -> None:
    """Whatever comes of it, it is a value or an error of ours."""
    with suppress(FlintError):
        act()


@pytest.mark.parametrize("kind", KINDS)
def test_a_producer_keeps_its_time_and_stops(kind: str) -> None:
    with enemy(kind) as broker:
        producer = Producer("p", namesrv=broker.address, call_timeout_ms=TIMEOUT_MS)
        with within(TIMEOUT_MS / 1000 + GRACE_S, "start and send"):
            producer.start()
            quietly(lambda: producer.send(Message("T", b"x"), timeout_ms=TIMEOUT_MS))
        with within(STOP_S + GRACE_S, "stop"):
            producer.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_keeps_its_time_and_stops(kind: str) -> None:
    with enemy(kind) as broker:
        consumer = PullConsumer(
            "g", namesrv=broker.address, call_timeout_ms=TIMEOUT_MS, pull_timeout_ms=TIMEOUT_MS
        )
        with within(3 * TIMEOUT_MS / 1000 + GRACE_S, "start and pull"):
            consumer.start()
            quietly(lambda: consumer.pull(consumer.queues("T")[0], 0))
        with within(STOP_S + GRACE_S, "stop"):
            consumer.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_push_consumer_starts_or_says_why_and_stops(kind: str) -> None:
    with enemy(kind) as broker:
        consumer = PushConsumer(
            "g", lambda _: None, namesrv=broker.address, call_timeout_ms=TIMEOUT_MS
        )
        consumer.subscribe("T")
        with within(4 * TIMEOUT_MS / 1000 + GRACE_S, "start"):
            quietly(consumer.start)
        until(lambda: False, 1)  # a second of whatever it does
        with within(STOP_S + GRACE_S, "stop"):
            quietly(lambda: consumer.stop(STOP_S))


@pytest.mark.parametrize("kind", ["nothing", "empty"])
def test_answers_without_messages_are_not_asked_for_at_full_speed(kind: str) -> None:
    with enemy(kind) as broker:
        consumer = PushConsumer(
            "g", lambda _: None, namesrv=broker.address, call_timeout_ms=TIMEOUT_MS
        )
        consumer.subscribe("T")
        consumer.start()
        try:
            assert until(lambda: broker.pulls() > 0, 30), "it never pulls"
            first, start = broker.pulls(), time.monotonic()
            until(lambda: False, 3)
            rate = (broker.pulls() - first) / (time.monotonic() - start)
        finally:
            consumer.stop(STOP_S)
    assert rate < PULLS_PER_SECOND, f"{rate:.0f} pulls a second"
