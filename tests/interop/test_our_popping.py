"""Our simple consumer and our push consumers that pop work with our broker and a real one of 5.x,
beside Java members too; a broker of 4.9 is told from them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from flintmq import DeadLetter, Message, ReceiptExpired, Retry, SimpleConsumer
from flintmq.client.admin import Admin
from flintmq.errors import BrokerRefused
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear
from support.client.support import nothing_left, stored
from support.interop.beside import CALL_MS, Java, push
from support.interop.filled import filled, new_topic, numbered, patiently, send_to
from support.interop.javaclient import NEW, JavaClient
from support.interop.ours import Kind, Served, serving
from support.interop.skipping import skip_without

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]


@pytest.fixture(scope="module", params=[Kind.OURS, Kind.REAL_5_3])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    kind: Kind = request.param
    if kind is not Kind.OURS:
        skip_without("java", "mvn")
    with serving(tmp_path_factory.mktemp(kind), kind=kind) as up:
        yield up


@pytest.fixture(scope="module")
def java_client(
    broker: Served, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    with JavaClient(NEW, broker.namesrv, tmp_path_factory.mktemp("java")) as up:
        yield up


def simple(broker: Served, group: str, topic: str) -> SimpleConsumer:
    consumer = SimpleConsumer(
        group, namesrv=broker.namesrv, start_from="first", call_timeout_ms=CALL_MS
    )
    return consumer.subscribe(topic)


def drain(
    consumer: SimpleConsumer, count: int, invisible_ms: int = 60_000
) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []

    def receive() -> bool:
        found.extend(consumer.receive(8, invisible_ms=invisible_ms, wait_ms=2_000))
        return len(found) >= count

    patiently(receive)
    return found


def unacked(consumer: object) -> int:
    return sum(place.unacked_count for place in consumer.status().pops)  # type: ignore[attr-defined]


def test_a_simple_consumer_receives_everything_once(broker: Served) -> None:
    filled(broker, "simple", numbered(50), queues=4)

    with nothing_left(), simple(broker, "simple", "simple") as consumer:
        messages = drain(consumer, 50)
        consumer.ack(messages[0])
        consumer.ack_many(messages[1:])
        assert consumer.receive(wait_ms=0) == []

    assert sorted(message.body for message in messages) == numbered(50)


def test_what_is_not_acknowledged_comes_again_and_what_is_does_not(broker: Served) -> None:
    filled(broker, "hidden", numbered(8), queues=1)

    with simple(broker, "hidden", "hidden") as consumer:
        messages = drain(consumer, 8, invisible_ms=5_000)
        expired_s = time.monotonic() + 5
        consumer.ack_many(messages[:6])
        kept = consumer.change_invisible(messages[6], 60_000)
        again = drain(consumer, 1)
        consumer.ack_many(again)
        # A consumer counts from when the message came to it, a moment after the broker does.
        patiently(lambda: time.monotonic() >= expired_s)
        with pytest.raises(ReceiptExpired):
            consumer.ack(messages[7])
        consumer.ack(kept)

    assert [message.body for message in again] == [b"0007"]
    assert [message.reconsume_times for message in again] == [1]
    assert {message.topic for message in again} == {"hidden"}


def test_a_message_that_is_returned_comes_at_once(broker: Served) -> None:
    filled(broker, "returned", [b"returned"], queues=1)

    with simple(broker, "returned", "returned") as consumer:
        (message,) = drain(consumer, 1)
        consumer.change_invisible(message, 0)
        (again,) = drain(consumer, 1)
        consumer.ack(again)

    assert (again.body, again.reconsume_times) == (b"returned", 1)


def test_tags_with_one_hash_and_sql_are_told_apart(broker: Served) -> None:
    queues = new_topic(broker, "chosen", 2)
    for tag in ("Aa", "BB", "c"):
        properties = {"price": "50" if tag == "c" else "5"}
        message = Message("chosen", tag.encode(), tags=tag, properties=properties)
        send_to(broker, [message], queues)

    with simple(broker, "by-tag", "chosen") as consumer:
        consumer.subscribe("chosen", tags="BB || c")
        by_tag = drain(consumer, 2)
        consumer.ack_many(by_tag)
    with simple(broker, "by-sql", "chosen") as consumer:
        consumer.subscribe("chosen", sql="price > 10")
        by_sql = drain(consumer, 1)
        consumer.ack_many(by_sql)

    assert sorted(message.body for message in by_tag) == [b"BB", b"c"]
    assert [message.body for message in by_sql] == [b"c"]


def test_a_push_consumer_that_pops_retries_and_gives_up(broker: Served) -> None:
    filled(broker, "popped", numbered(40), queues=4)
    tries: Counter[bytes] = Counter()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        for message in messages:
            tries[message.body] += 1
            if message.body == b"0007":
                raise Retry(delay_level=1)
            if message.body == b"0008":
                raise DeadLetter("not this one")

    consumer = push(broker, "popped", listen, mode="pop", retry_max=1, invisible_ms=10_000)
    with nothing_left(), consumer.subscribe("popped"):
        patiently(lambda: len(tries) == 40 and tries[b"0007"] == 2)
        patiently(lambda: len(consumer.events("dead letter")) == 2)
        patiently(lambda: unacked(consumer) == 0)
    letters = stored(broker, "%DLQ%popped")

    assert {body: times for body, times in tries.items() if times > 1} == {b"0007": 2}
    assert sorted(letter.body for letter in letters) == [b"0007", b"0008"]
    assert {letter.properties["DLQ_REASON"] for letter in letters} >= {"not this one"}


def test_the_mode_of_the_broker_is_followed_and_changed(broker: Served) -> None:
    queues = filled(broker, "mode", numbered(4), queues=2)
    ear = Ear()
    consumer = push(broker, "mode", ear, mode="broker", rebalance_interval_ms=500)

    with Admin(namesrv=broker.namesrv) as admin, consumer.subscribe("mode"):
        patiently(lambda: len(ear.messages) == 4)
        assert consumer.status().pops == ()
        admin.set_consume_mode("mode", "mode", "pop")
        patiently(lambda: [place.is_asked for place in consumer.status().pops] == [True])
        send_to(broker, [Message("mode", body) for body in numbered(4, 4)], queues)
        patiently(lambda: len(ear.messages) == 8)
        patiently(lambda: unacked(consumer) == 0)

    assert sorted(ear.bodies) == numbered(8)


def test_ours_and_a_java_member_pop_one_topic_together(
    broker: Served, java_client: JavaClient
) -> None:
    prefix = "company_"
    topic, group = f"{prefix}t", f"{prefix}g"
    queues = new_topic(broker, topic, 1)
    java, ear = Java(java_client, prefix), Ear()
    with Admin(namesrv=broker.namesrv) as admin:
        admin.create_group(group)
        admin.set_consume_mode(group, topic, "pop")
    consumer = push(broker, group, ear, mode="broker", rebalance_interval_ms=500)
    sent = 0

    def both_have_some(least: int) -> bool:
        nonlocal sent
        send_to(broker, [Message(topic, body) for body in numbered(4, sent)], queues)
        sent += 4
        return len(java.seen()) >= least and len(ear.messages) >= least

    java.play("join-popping")
    with consumer.subscribe(topic):
        patiently(lambda: [place.is_asked for place in consumer.status().pops] == [True])
        patiently(partial(both_have_some, 3))
        patiently(lambda: len(java.seen()) + len(ear.messages) >= sent)
        patiently(lambda: unacked(consumer) == 0)
        from_java = java.leave()

    assert sorted(from_java + ear.bodies) == numbered(sent)


def test_a_broker_of_4_9_is_told_from_one_that_can(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    skip_without("java", "mvn")
    with serving(tmp_path_factory.mktemp("old"), kind=Kind.REAL_4_9) as old:
        new_topic(old, "old", 1)
        with (
            simple(old, "old", "old") as consumer,
            pytest.raises(BrokerRefused, match=r"V4_9_7.*needs RocketMQ 5\.0"),
        ):
            consumer.receive()
        with pytest.raises(BrokerRefused, match=r"V4_9_7.*needs RocketMQ 5\.0"):
            push(old, "old-push", Ear(), mode="pop").subscribe("old").start()
