"""Ordered consumption: each queue in its order, in one place at a time, whatever fails."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest

from flintmq import DeadLetter, PushConsumer, Retry
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, committed, filled, numbered, send
from support.client.support import create_topic, nothing_left, stored, wait_for


def ordered_consumer(
    servers: EmbeddedBroker, group: str, ear: object, **more: object
) -> PushConsumer:
    settings = {"start_from": "first", "ordered": True, "ordered_suspend_ms": 10, **more}
    return PushConsumer(group, ear, namesrv=servers.namesrv, **settings)  # type: ignore[arg-type]


def test_queues_are_consumed_in_their_order(broker: EmbeddedBroker) -> None:
    filled(broker, "in-order", numbered(100))
    ear = Ear()

    with nothing_left():
        consumer = ordered_consumer(broker, "in-order-readers", ear, batch_max=3)
        with consumer.subscribe("in-order"):
            ear.wait_for(100)
            wait_for(lambda: {queue.is_locked for queue in consumer.status().queues} == {True})

    by_queue = defaultdict(list)
    for message in ear.messages:
        by_queue[message.queue_id].append(message.queue_offset)
    assert dict(by_queue) == {queue: list(range(25)) for queue in range(4)}
    assert committed(broker, "in-order-readers", "in-order") == dict.fromkeys(range(4), 25)


def test_a_failing_message_is_tried_in_place_and_nothing_passes_it(broker: EmbeddedBroker) -> None:
    filled(broker, "in-place", numbered(5), queues=1)
    ear = Ear(None, None, ValueError("not yet"), Retry(suspend_ms=10))

    with ordered_consumer(broker, "in-place-readers", ear).subscribe("in-place"):
        ear.wait_for(7)

    assert ear.bodies == [b"0000", b"0001", b"0002", b"0002", b"0002", b"0003", b"0004"]
    tries = [m.reconsume_times for m in ear.messages if m.body == b"0002"]
    assert tries == [0, 1, 2]


def test_a_message_tried_too_often_goes_to_the_dead_letters(broker: EmbeddedBroker) -> None:
    filled(broker, "given-up", numbered(3), queues=1)
    ear = Ear(None, *[ValueError("never")] * 3)

    with ordered_consumer(broker, "given-up-readers", ear, retry_max=2).subscribe("given-up"):
        ear.wait_for(5)
        wait_for(lambda: stored(broker, "%DLQ%given-up-readers"))

    assert ear.bodies == [b"0000", b"0001", b"0001", b"0001", b"0002"]
    (dead,) = stored(broker, "%DLQ%given-up-readers")
    assert dead.body == b"0001"


def test_a_listener_may_give_a_message_up_by_itself(broker: EmbeddedBroker) -> None:
    filled(broker, "refused", numbered(3), queues=1)
    ear = Ear(None, DeadLetter("broken"))

    with ordered_consumer(broker, "refused-readers", ear).subscribe("refused"):
        ear.wait_for(3)
        wait_for(lambda: stored(broker, "%DLQ%refused-readers"))

    assert ear.bodies == numbered(3)


@pytest.mark.parametrize("members", [2, 3])
def test_no_queue_is_in_two_places_while_members_come_and_go(
    broker: EmbeddedBroker, members: int
) -> None:
    topic, group = f"handed-{members}", f"handed-over-{members}"
    create_topic(broker, topic)
    inside: set[int] = set()
    lock = threading.Lock()
    overlaps: list[int] = []
    seen: dict[int, list[int]] = defaultdict(list)

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        (message,) = messages
        with lock:
            if message.queue_id in inside:
                overlaps.append(message.queue_id)
            inside.add(message.queue_id)
        with lock:
            seen[message.queue_id].append(message.queue_offset)
            inside.discard(message.queue_id)

    def count() -> int:
        with lock:
            return sum(map(len, seen.values()))

    first = ordered_consumer(broker, group, listen).subscribe(topic).start()
    others = []
    try:
        send(broker, topic, numbered(40))
        for number in range(1, members):
            other = ordered_consumer(broker, group, listen).subscribe(topic)
            others.append(other.start())
            send(broker, topic, numbered(40, number * 40))
        wait_for(lambda: count() >= 40 * members)
        wait_for(lambda: all(_owned(each, topic) for each in (first, *others)))
    finally:
        for consumer in (first, *others):
            consumer.stop()

    assert overlaps == []
    assert {queue: sorted(set(offsets)) for queue, offsets in seen.items()} == {
        queue: list(range(len(set(offsets)))) for queue, offsets in seen.items()
    }
    assert all(offsets == sorted(offsets) for offsets in seen.values())
    assert count() == 40 * members  # each waited for the other: nothing came twice


def _owned(consumer: PushConsumer, topic: str) -> list[int]:
    return [each.queue_id for each in consumer.queues() if each.topic == topic]
