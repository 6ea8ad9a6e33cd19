"""Clients whose connections are cut again and again keep nothing of the old ones."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import pytest

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PullContext,
    PushConsumer,
    QueueRef,
    ScheduledPull,
)
from flintmq.client.engine.loop_thread import Lease
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import FlintError
from support.client.outages import QUICK, patiently
from support.client.push_support import Ear
from support.client.support import client_threads, create_topic, nothing_left, sockets

ROUNDS = 50
HEAVY_ROUNDS = 1_000

SLACK = 20
"""Objects of one class that may come and go: calls under way, events of the last round."""

MEMORY_BYTES = 512 * 1024
"""What the second half of the rounds may add in all, the broker's tables included."""

BY_TIME = ("Event", "Counts")
"""What is kept of the last hour, or the last thousand of: it fills in any case."""

OURS = ("flintmq.client", "flintmq.core", "flintmq.net", "flintmq.protocol", "asyncio")


class Count(NamedTuple):
    """What clients have.  A broker that runs for long enough gets threads that sync its files."""

    tasks: int
    threads: int
    sockets: int
    objects: Counter[str]


def cut(servers: EmbeddedBroker) -> int:
    """Close every connection at the broker's side; how many there were."""

    def close(inside: Any) -> int:
        channels = list(next(iter(inside.brokers.values()))._channels.values())
        for channel in channels:
            channel.abort("cut by a test")
        return len(channels)

    return servers.call(close)


class Crowd:
    """One client of each kind, and a word that each has to hear."""

    def __init__(self, servers: EmbeddedBroker, stack: ExitStack) -> None:
        self._settings: dict[str, Any] = {"namesrv": servers.namesrv, **QUICK}
        create_topic(servers, "cut", 2)
        self._lease = Lease("the count")
        stack.callback(self._lease.give_back)
        self.producer = stack.enter_context(Producer("senders", **self._settings))
        self.ears = [self._push(stack, ordered) for ordered in (False, True)]
        self.polled: set[bytes] = set()
        self.pulled: set[bytes] = set()
        self._lite = stack.enter_context(
            LitePullConsumer(
                "lite",
                start_from=ConsumeFromWhere.FIRST_OFFSET,
                pull_error_delay_ms=20,
                **self._settings,
            )
        )
        self._lite.subscribe("cut")
        # a pool may have all its threads at any time: with two of them none can be added
        schedule = stack.enter_context(ScheduledPull("scheduled", threads=2, **self._settings))
        schedule.register("cut", self._pull)

    def _push(self, stack: ExitStack, ordered: bool) -> Ear:
        ear = Ear()
        consumer = PushConsumer(
            f"push-{ordered}",
            ear,
            start_from="first",
            ordered=ordered,
            pull_error_delay_ms=20,
            threads_max=2,
            **self._settings,
        )
        stack.enter_context(consumer.subscribe("cut"))
        return ear

    def _pull(self, queue: QueueRef, context: PullContext[PullConsumer]) -> None:
        context.next_delay_ms = 10
        try:
            result = context.consumer.pull(queue, context.consumer.committed(queue) or 0)
        except FlintError:
            return  # a function that raises rests for a second
        self.pulled.update(message.body for message in result.messages)
        context.consumer.update_offset(queue, result.next_offset)

    def say(self, word: bytes) -> None:
        """Send a word and wait until everybody has heard it."""
        patiently(lambda: self._sent(word))
        patiently(lambda: self._has_heard(word))

    def _sent(self, word: bytes) -> bool:
        try:
            self.producer.send(Message("cut", word))
        except FlintError:
            return False
        return True

    def _has_heard(self, word: bytes) -> bool:
        self.polled.update(message.body for message in self._lite.poll(5))
        heard = all(ear.batches and word in ear.bodies[-8:] for ear in self.ears)
        return heard and word in self.polled and word in self.pulled

    def forget(self) -> None:
        """Keep no words: they are not what is counted."""
        for ear in self.ears:
            ear.batches.clear()
        self.polled.clear()
        self.pulled.clear()

    def count(self) -> Count:
        self.forget()
        gc.collect()
        objects = Counter(
            f"{kind.__module__}.{kind.__qualname__}"
            for kind in map(type, gc.get_objects())
            if str(kind.__module__).startswith(OURS) and kind.__name__ not in BY_TIME
        )
        return Count(self._lease.run(_tasks()), len(client_threads()), sockets(), objects)


async def _tasks() -> int:
    return len(asyncio.all_tasks())


@contextmanager
def crowd(servers: EmbeddedBroker) -> Iterator[Crowd]:
    with nothing_left(), ExitStack() as stack:
        yield Crowd(servers, stack)


def grown(before: Count, after: Count) -> list[str]:
    """What there is more of, beyond what comes and goes."""
    found = [
        f"{name}: {count} after {before.objects[name]}"
        for name, count in after.objects.items()
        if count > before.objects[name] + SLACK
    ]
    if after.tasks > before.tasks + SLACK:
        found.append(f"{after.tasks} tasks after {before.tasks}")
    if after.threads > before.threads + 2:  # the pool of a schedule grows to its limit
        found.append(f"{after.threads} threads after {before.threads}")
    if after.sockets > before.sockets + 2:  # a line that was cut is closed at its next use
        found.append(f"{after.sockets} sockets after {before.sockets}")
    return found


def no_more_than(before: Count, people: Crowd) -> None:
    """Nothing may have grown; what is just ending may take its time."""
    found = ["not counted yet"]

    def is_over() -> bool:
        found[:] = grown(before, people.count())
        return not found

    with suppress(AssertionError):
        patiently(is_over)
    assert not found


def rounds(servers: EmbeddedBroker, people: Crowd, numbers: range) -> int:
    connections = 0
    for number in numbers:
        people.forget()
        connections += cut(servers)
        people.say(b"%d" % number)
    return connections


def test_fifty_cuts_leave_nothing(own_broker: EmbeddedBroker) -> None:
    with crowd(own_broker) as people:
        rounds(own_broker, people, range(20))
        before = people.count()
        connections = rounds(own_broker, people, range(20, 20 + ROUNDS))
        no_more_than(before, people)

    assert connections >= ROUNDS * 5  # every client came back every time


@pytest.mark.heavy
@pytest.mark.timeout(0)
def test_a_thousand_cuts_leave_nothing_and_cost_no_memory(
    own_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    half = HEAVY_ROUNDS // 2
    caplog.set_level(logging.CRITICAL, "flintmq")  # what is captured would count
    tracemalloc.start()
    try:
        with crowd(own_broker) as people:
            rounds(own_broker, people, range(20))
            before = people.count()
            rounds(own_broker, people, range(20, half))  # what is bounded is full then
            people.count()
            low, _ = tracemalloc.get_traced_memory()
            rounds(own_broker, people, range(half, 2 * half))
            after = people.count()
            high, _ = tracemalloc.get_traced_memory()
            no_more_than(before, people)
    finally:
        tracemalloc.stop()
    print(f"{before._replace(objects=Counter())} then {after._replace(objects=Counter())}")
    print(f"{high - low} bytes more after {half} cuts")
    assert high - low < MEMORY_BYTES
