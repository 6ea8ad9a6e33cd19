"""Where a new group starts, in a topic whose messages are all young."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from flintmq import LitePullConsumer, PullConsumer, PushConsumer
from flintmq.embedded.broker import EmbeddedBroker
from support.client.push_support import Ear, filled, numbered, send
from support.client.support import wait_for

OLD, LATER = numbered(8), numbered(4, 100)


def consumed(broker: EmbeddedBroker, kind: str, name: str, start_from: object) -> list[bytes]:
    """What a new group gets: some messages are there before it, some come once it is at work."""
    if kind == "push":
        ear = Ear()
        push = PushConsumer(name, ear, namesrv=broker.namesrv, start_from=start_from)  # type: ignore[arg-type]
        with push.subscribe(name):
            wait_for(lambda: _knows_its_start(push, name))
            send(broker, name, LATER)
            wait_for(lambda: set(LATER) <= set(ear.bodies))
        return sorted(ear.bodies)
    found: list[bytes] = []
    with LitePullConsumer(name, namesrv=broker.namesrv, start_from=start_from) as lite:  # type: ignore[arg-type]
        lite.subscribe(name)
        wait_for(lambda: len([q for q in lite.status().queues if q.next_offset is not None]) == 2)
        send(broker, name, LATER)
        while not set(LATER) <= set(found):
            found += [message.body for message in lite.poll(timeout_ms=60_000)]
    return sorted(found)


def _knows_its_start(consumer: PushConsumer, topic: str) -> bool:
    """The start of both queues is known, so it is committed when the queues are given up."""
    queues = consumer.status().queues
    offsets = [each.next_offset for each in queues if each.queue.topic == topic]
    return len(offsets) == 2 and None not in offsets


@pytest.mark.parametrize("kind", ["push", "lite"])
@pytest.mark.parametrize(
    ("start_from", "expected"),
    [
        ("last", OLD + LATER),  # RocketMQ's rule for young queues
        ("first", OLD + LATER),
        ("earliest", OLD + LATER),
        ("end", LATER),
        ("latest", LATER),
        (1, OLD[2:] + LATER),
        (datetime(2100, 1, 1, tzinfo=UTC), LATER),
        (datetime(2000, 1, 1, tzinfo=UTC), OLD + LATER),
        ("2000-01-01", OLD + LATER),
    ],
)
def test_a_new_group_starts_where_it_says(
    broker: EmbeddedBroker, kind: str, start_from: object, expected: list[bytes]
) -> None:
    name = f"start-{kind}-{type(start_from).__name__}-{str(start_from)[:10]}"
    filled(broker, name, OLD, queues=2)

    assert consumed(broker, kind, name, start_from) == expected


def test_a_group_that_started_at_the_end_loses_nothing_when_it_starts_again(
    broker: EmbeddedBroker,
) -> None:
    filled(broker, "end-again", OLD, queues=2)
    first, second = Ear(), Ear()
    consumer = PushConsumer("end-twice", first, namesrv=broker.namesrv, start_from="end")
    with consumer.subscribe("end-again"):
        wait_for(lambda: _knows_its_start(consumer, "end-again"))
    send(broker, "end-again", LATER)
    again = PushConsumer("end-twice", second, namesrv=broker.namesrv, start_from="end")
    with again.subscribe("end-again"):
        second.wait_for(len(LATER))

    assert first.bodies == []
    assert sorted(second.bodies) == LATER


@pytest.mark.parametrize(
    ("start_from", "expected"), [("last", 0), ("first", 0), ("end", 4), (3, 3), ("2000-01-01", 0)]
)
def test_a_program_that_pulls_by_itself_asks_where_to_start(
    broker: EmbeddedBroker, start_from: str | int, expected: int
) -> None:
    name = f"start-pull-{start_from}"
    filled(broker, name, OLD, queues=2)
    with PullConsumer(name, namesrv=broker.namesrv) as consumer:
        queue, _ = consumer.queues(name)
        assert consumer.start_offset(queue, start_from) == expected
        consumer.commit(queue, 2)
        assert consumer.start_offset(queue, start_from) == 2
        consumer.commit(queue, 0)
        assert consumer.start_offset(queue, start_from) == 0
