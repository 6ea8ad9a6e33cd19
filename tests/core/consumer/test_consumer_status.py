"""The status says for each queue what it waits for, and why."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.errors import Unreachable
from support.core.consuming import Consuming


def test_the_status_says_what_each_queue_waits_for() -> None:
    consuming = Consuming().working(7)
    (batch,) = consuming.found(7)
    assert consuming.machine.started(batch, 3)

    status = consuming.machine.status()

    assert (status.group, status.client_id, status.phase) == ("billing", "me", "running")
    assert status.troubles == {"%RETRY%billing": "the topic has no route"}
    queue = consuming.queue()
    assert (queue.stage, queue.reason, queue.text) == ("working", "pull", "pulls from 8 since 0")
    assert (queue.settled_to, queue.next_offset, queue.cached_count) == (7, 8, 1)
    (running,) = queue.running
    assert (running.first_offset, running.count, running.started_ms) == (7, 1, 3)
    assert running.message_id == batch.messages[0].message_id


def test_the_status_of_a_failed_pull_gives_the_reason_and_the_time() -> None:
    consuming = Consuming().working(7)
    consuming.do(consuming.machine.pull_failed(consuming.pull_of(), Unreachable("b", "x"), 0))

    queue = consuming.queue()

    assert (queue.reason, queue.text, queue.until_ms) == ("failed", "b: x", 3_000)


def test_the_status_of_a_closing_queue_says_what_it_waits_for() -> None:
    consuming = Consuming(ordered=True).working(0)
    (batch,) = consuming.found(0)
    assert consuming.machine.started(batch, 1)
    consuming.do(consuming.machine.stop(5))
    assert consuming.queue().text == "waits for 1 listeners before it is given up"

    consuming.do(consuming.machine.consumed(batch, None, 6))

    assert consuming.queue().text == "commits 1 before it is given up"


@pytest.mark.parametrize(
    ("settings", "offsets", "reason"),
    [({"span_max": 5}, (0, 9), "span"), ({"queue_mib_max": 1}, (0,), "size")],
)
def test_the_status_names_the_limit_that_is_met(
    settings: dict[str, Any], offsets: tuple[int, ...], reason: str
) -> None:
    consuming = Consuming(**settings).working(0)
    consuming.found(*offsets, body=bytes(1_100_000) if reason == "size" else b"x")

    assert consuming.queue().reason == reason
    assert "the limit is" in consuming.queue().text
