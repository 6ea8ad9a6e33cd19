"""Members of ours and Java members of one group agree, and read what the other sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from client.push_support import Ear
from client.support import nothing_left, stored
from flintmq import LitePullConsumer, Message, Producer, PushConsumer
from flintmq.errors import GroupConflict
from flintmq.model.group import ConsumeFromWhere
from flintmq.model.message import ReceivedMessage
from interop.filled import SEND_MS, new_topic, numbered, patiently, send_to, stands_at
from interop.javaclient import NEW, OLD, Events, JavaClient
from interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

QUEUES = 4
CALL_MS = 15_000


@pytest.fixture(scope="module")
def java_client(each: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    release = OLD if each.kind is Kind.REAL_4_9 else NEW
    with JavaClient(release, each.namesrv, tmp_path_factory.mktemp("beside")) as up:
        yield up


def push(served: Served, group: str, ear: object, **more: Any) -> PushConsumer:
    settings = {"start_from": "first", "call_timeout_ms": CALL_MS, **more}
    return PushConsumer(group, ear, namesrv=served.namesrv, **settings)  # type: ignore[arg-type]


def owned(consumer: PushConsumer, topic: str) -> list[int]:
    return [queue.queue_id for queue in consumer.queues() if queue.topic == topic]


class Java:
    """The Java member of a group."""

    def __init__(self, client: JavaClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def play(self, scenario: str) -> Events:
        return self._client.play(scenario, self._prefix)

    def holds(self) -> list[int]:
        queues: list[int] = self.play("so-far").one("holds")["queues"]
        return queues

    def seen(self) -> list[bytes]:
        return [body.encode() for body in self.play("so-far").bodies("seen")]


@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_every_queue_has_exactly_one_owner_while_members_come_and_go(
    each: Served, java_client: JavaClient, ordered: bool
) -> None:
    prefix = f"mixed_{ordered}_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java, ear = Java(java_client, prefix), Ear()
    batches = [[Message(topic, body) for body in numbered(40, start)] for start in (0, 40, 80)]

    java.play("join-orderly" if ordered else "join")
    patiently(lambda: java.holds() == [0, 1, 2, 3])
    send_to(each, batches[0], queues)
    patiently(lambda: len(java.seen()) >= 40)
    with nothing_left(), push(each, group, ear, ordered=ordered).subscribe(topic) as ours:
        patiently(lambda: len(owned(ours, topic)) == len(java.holds()) == 2)
        assert sorted(owned(ours, topic) + java.holds()) == [0, 1, 2, 3]
        send_to(each, batches[1], queues)
        patiently(lambda: len(java.seen()) + len(ear.messages) >= 80)
        from_java = [body.encode() for body in java.play("leave").bodies("seen")]
        patiently(lambda: owned(ours, topic) == [0, 1, 2, 3])
        send_to(each, batches[2], queues)
        patiently(lambda: len(from_java) + len(ear.messages) >= 120)

    counts = Counter(from_java + ear.bodies)
    assert sorted(counts) == numbered(120)
    assert set(from_java) >= set(numbered(40))
    assert 60 == len(set(from_java) & set(numbered(80))) == len(set(from_java))
    if ordered:
        assert set(counts.values()) == {1}
    assert [stands_at(each, group, topic, number) for number in range(QUEUES)] == [30] * QUEUES


def test_a_java_admin_sees_our_member_and_how_far_it_is(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "seen_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    ear = Ear()
    with push(each, group, ear, commit_interval_ms=100).subscribe(topic):
        send_to(each, [Message(topic, body) for body in numbered(20)], queues)
        patiently(lambda: len(ear.messages) == 20)
        patiently(lambda: stands_at(each, group, topic, QUEUES - 1) == 5)
        patiently(lambda: stands_at(each, group, topic, 0) == 5)
        progress = java_client.play("progress", prefix).all("progress")

    assert sorted((one["queue"], one["broker"], one["consumer"]) for one in progress) == [
        (number, 5, 5) for number in range(QUEUES)
    ]


def test_a_lite_member_of_ours_shares_with_a_java_member(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "lite_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, QUEUES)
    java = Java(java_client, prefix)
    java.play("join")
    seen: list[ReceivedMessage] = []
    lite = LitePullConsumer(
        group,
        namesrv=each.namesrv,
        start_from=ConsumeFromWhere.FIRST_OFFSET,
        call_timeout_ms=CALL_MS,
    )
    with lite:
        lite.subscribe(topic)
        patiently(lambda: len(lite.assignment) == len(java.holds()) == 2)
        ours = sorted(queue.queue_id for queue in lite.assignment)
        assert sorted(ours + java.holds()) == [0, 1, 2, 3]
        send_to(each, [Message(topic, body) for body in numbered(40)], queues)
        patiently(partial(_poll, lite, seen, 20))
        patiently(lambda: len(java.seen()) >= 20)
        lite.commit()
        assert [stands_at(each, group, topic, number) for number in ours] == [10, 10]
        from_java = [body.encode() for body in java.play("leave").bodies("seen")]

    assert sorted([message.body for message in seen] + from_java) == numbered(40)


def _poll(lite: LitePullConsumer, seen: list[ReceivedMessage], count: int) -> bool:
    seen.extend(lite.poll(100))
    return len(seen) >= count


def test_a_message_that_failed_with_us_comes_again_to_whoever_is_there(
    each: Served, java_client: JavaClient
) -> None:
    """What we send back a Java member gets as it would from one of its own kind."""
    prefix = "handed_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(each, topic, 1)
    ear = Ear(ValueError("not for me"))
    java = Java(java_client, prefix)
    send_to(each, [Message(topic, b"handed over", tags="a", keys=["k"])], queues)
    with push(each, group, ear).subscribe(topic):
        patiently(lambda: ear.messages)
        patiently(lambda: stored(each, "SCHEDULE_TOPIC_XXXX"))
    java.play("join")
    patiently(java.seen)
    (again,) = java.play("leave").all("seen")

    assert (again["body"], again["topic"], again["times"]) == ("handed over", topic, 1)
    assert again["msgId"] == ear.messages[0].message_id
    assert again["properties"]["ORIGIN_MESSAGE_ID"] == ear.messages[0].offset_message_id


def test_a_java_consumer_reads_all_that_our_producer_sends(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "sent_"
    topic = f"{prefix}t"
    new_topic(each, topic, 1)
    java = Java(java_client, prefix)
    large = "größe " * 3_000
    with Producer("p", namesrv=each.namesrv, compress_from_bytes=1_000) as producer:
        one = producer.send(
            Message(topic, large.encode(), tags="paid", keys=["k1", "k2"], properties={"b": "🚀"}),
            timeout_ms=SEND_MS,
        )
        batch = producer.send_batch(
            [Message(topic, b"first", flag=3), Message(topic, b"second", flag=3)],
            timeout_ms=SEND_MS,
        )
    java.play("join")
    patiently(lambda: len(java.seen()) >= 3)
    seen = {event["body"]: event for event in java.play("leave").all("seen")}

    assert set(seen) == {large, "first", "second"}
    found = seen[large]
    assert found["msgId"] == one.message_id
    assert found["offset"] == one.queue_offset
    assert {name: found["properties"][name] for name in ("TAGS", "KEYS", "b")} == {
        "TAGS": "paid",
        "KEYS": "k1 k2",
        "b": "🚀",
    }
    assert [seen[body]["msgId"] for body in ("first", "second")] == [
        receipt.message_id for receipt in batch
    ]
    assert [seen[body]["flag"] for body in ("first", "second")] == [3, 3]
    wire = next(message for message in stored(each, topic) if message.queue_offset == 0)
    assert wire.stored_bytes < len(large.encode()) / 10


def test_a_java_member_with_another_subscription_is_named(
    each: Served, java_client: JavaClient
) -> None:
    prefix = "disagreeing_"
    topic, group = f"{prefix}t", f"{prefix}g"
    new_topic(each, topic, 1)
    java_id = java_client.play("join", prefix).one("joined")["id"]
    try:
        with pytest.raises(GroupConflict) as caught:
            push(each, group, Ear()).subscribe(topic, tags="a").start()
        assert java_id in str(caught.value)
    finally:
        java_client.play("leave", prefix)
