"""A simple consumer receives what a topic has, keeps it from others until it is acknowledged, and
loses nothing when it is interrupted or stopped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flintmq import EmbeddedBroker, Message, Producer, ReceiptExpired, SimpleConsumer
from flintmq.aio import SimpleConsumer as AsyncSimpleConsumer
from flintmq.errors import InvalidSetting, NoRoute, Unreachable, WrongState
from flintmq.model.message import ReceivedMessage
from support.client.push_support import filled, numbered
from support.client.support import create_topic, in_enough_time, nothing_left, run, wait_for
from support.net.support import until


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as up:
        yield up


def simple(servers: EmbeddedBroker, group: str, *topics: str, **more: Any) -> SimpleConsumer:
    consumer = servers.simple_consumer(group, start_from="first", **more)
    for topic in topics:
        consumer.subscribe(topic)
    return consumer


def drain(consumer: SimpleConsumer, count: int, **more: Any) -> list[ReceivedMessage]:
    """Receive until so many messages came."""
    found: list[ReceivedMessage] = []
    while len(found) < count:
        some = consumer.receive(**more)
        assert some, f"only {len(found)} of {count} came"
        found += some
    return found


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    return sorted(message.body for message in messages)


@contextmanager
def sent_soon(producer: Producer, topic: str, body: bytes) -> Iterator[None]:
    """While the block runs a message is sent."""
    sending = threading.Timer(0.2, lambda: producer.send(Message(topic, body)))
    sending.start()
    try:
        yield
    finally:
        sending.join()


def test_messages_are_received_once_and_acknowledged(servers: EmbeddedBroker) -> None:
    filled(servers, "once", numbered(20))

    with nothing_left(), simple(servers, "once", "once") as consumer:
        messages = drain(consumer, 20, max_messages=7)
        assert bodies(messages) == numbered(20)
        assert consumer.receive(wait_ms=0) == []
        consumer.ack(messages[0])
        consumer.ack_many(messages[1:])
        servers.advance(60)
        assert consumer.receive(wait_ms=0) == []
        assert consumer.status().held_count == 0


def test_what_is_not_acknowledged_comes_again_and_says_how_often(servers: EmbeddedBroker) -> None:
    filled(servers, "again", [b"again"])

    with simple(servers, "again", "again") as consumer:
        (first,) = consumer.receive(invisible_ms=10_000)
        assert consumer.receive(wait_ms=0) == []
        servers.advance(11)
        (second,) = consumer.receive()
        consumer.ack(second)

    assert (first.body, first.reconsume_times) == (b"again", 0)
    assert (second.body, second.reconsume_times) == (b"again", 1)
    assert first.topic == second.topic == "again"
    assert first.receipt != second.receipt


def test_a_late_acknowledgement_is_an_error_that_says_what_to_do(servers: EmbeddedBroker) -> None:
    filled(servers, "late", [b"late"])

    with simple(servers, "late", "late") as consumer:
        (message,) = consumer.receive(invisible_ms=10_000)
        servers.advance(11)
        with pytest.raises(ReceiptExpired, match="change_invisible"):
            consumer.ack(message)
        with pytest.raises(ReceiptExpired):
            consumer.ack_many([message])
        with pytest.raises(ReceiptExpired):
            consumer.change_invisible(message, 1_000)


def test_a_message_is_hidden_for_longer_and_either_receipt_acknowledges_it(
    servers: EmbeddedBroker,
) -> None:
    filled(servers, "longer", [b"a", b"b"], queues=1)

    with simple(servers, "longer", "longer") as consumer:
        first, second = drain(consumer, 2, invisible_ms=10_000)
        newer = consumer.change_invisible(first, 60_000)
        consumer.change_invisible(second, 60_000)
        servers.advance(11)
        assert consumer.receive(wait_ms=0) == []
        consumer.ack(newer)
        consumer.ack(second)
        servers.advance(120)
        assert consumer.receive(wait_ms=0) == []

    assert newer.receipt != first.receipt
    assert newer.body == first.body


def test_a_message_is_returned_at_once(servers: EmbeddedBroker) -> None:
    filled(servers, "back", [b"back"])

    with simple(servers, "back", "back") as consumer:
        (message,) = consumer.receive(invisible_ms=60_000)
        consumer.change_invisible(message, 0)
        (again,) = consumer.receive()
        consumer.ack(again)

    assert again.body == b"back"


def test_a_receive_waits_for_a_message_at_the_broker(servers: EmbeddedBroker) -> None:
    create_topic(servers, "held")

    with simple(servers, "held", "held") as consumer, servers.producer("held") as producer:
        with sent_soon(producer, "held", b"here"):
            (message,) = consumer.receive(wait_ms=60_000)
        consumer.ack(message)

    assert message.body == b"here"


def test_tags_and_sql_choose(servers: EmbeddedBroker) -> None:
    create_topic(servers, "tagged", 1)
    create_topic(servers, "priced", 1)
    with servers.producer("choosing") as producer:
        for tag in ("Aa", "BB", "c"):  # the first two have the same hash
            producer.send(Message("tagged", tag.encode(), tags=tag))
        for price in ("5", "50"):
            producer.send(Message("priced", price.encode(), properties={"price": price}))

    consumer = simple(servers, "choosing")
    consumer.subscribe("tagged", tags="Aa || c").subscribe("priced", sql="price > 10")
    with consumer:
        messages = drain(consumer, 3)
        consumer.ack_many(messages)

    assert bodies(messages) == [b"50", b"Aa", b"c"]


def test_namespaces_are_not_seen(servers: EmbeddedBroker) -> None:
    with servers.producer("spaced", namespace="shop") as producer:
        producer.send(Message("spaced", b"inside"))

    with simple(servers, "spaced", "spaced", namespace="shop") as consumer:
        (message,) = consumer.receive(invisible_ms=10_000)
        servers.advance(11)
        (again,) = consumer.receive()
        consumer.ack(again)

    assert message.topic == again.topic == "spaced"


def test_several_threads_share_a_consumer(servers: EmbeddedBroker) -> None:
    filled(servers, "shared", numbered(200))
    found: list[ReceivedMessage] = []
    lock = threading.Lock()

    with simple(servers, "shared", "shared") as consumer:

        def work() -> None:
            while len(found) < 200:  # an empty hand means only that this machine is busy
                some = consumer.receive(8, wait_ms=200)
                consumer.ack_many(some)
                with lock:
                    found.extend(some)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), f"only {len(found)} came"

    assert bodies(found) == numbered(200)


def test_consumers_of_a_group_share_one_queue(servers: EmbeddedBroker) -> None:
    filled(servers, "one-queue", numbered(30), queues=1)

    with (
        simple(servers, "one-queue", "one-queue") as left,
        simple(servers, "one-queue", "one-queue") as right,
    ):
        mine, others = left.receive(10), right.receive(10)
        left.ack_many(mine)
        right.ack_many(others)

    assert len({message.body for message in mine + others}) == 20


def test_a_message_may_be_acknowledged_by_another_consumer(servers: EmbeddedBroker) -> None:
    filled(servers, "passed-on", [b"passed on"])

    with simple(servers, "passed-on", "passed-on") as one, simple(servers, "passed-on") as other:
        (message,) = one.receive(invisible_ms=10_000)
        other.ack(message)
        servers.advance(60)
        assert one.receive(wait_ms=0) == []


def test_an_interrupted_receive_loses_nothing(servers: EmbeddedBroker) -> None:
    create_topic(servers, "cut")

    async def main() -> list[ReceivedMessage]:
        consumer = AsyncSimpleConsumer("cut", namesrv=servers.namesrv, start_from="first")
        async with consumer.subscribe("cut"):
            receiving = asyncio.ensure_future(consumer.receive(wait_ms=60_000))
            await until(lambda: any(source.is_asked for source in consumer.status().sources))
            receiving.cancel()
            await asyncio.wait([receiving])
            await asyncio.to_thread(send)
            messages = await consumer.receive(invisible_ms=60_000, wait_ms=60_000)
            await consumer.ack_many(messages)
            return messages

    def send() -> None:
        with servers.producer("cut") as producer:
            producer.send(Message("cut", b"kept"))

    assert bodies(run(main())) == [b"kept"]


def test_what_comes_to_nobody_is_seen_again_at_once_after_a_stop(servers: EmbeddedBroker) -> None:
    create_topic(servers, "left")

    async def main() -> None:
        consumer = AsyncSimpleConsumer("left", namesrv=servers.namesrv, start_from="first")
        async with consumer.subscribe("left"):
            receiving = asyncio.ensure_future(consumer.receive(wait_ms=60_000))
            await until(lambda: any(source.is_asked for source in consumer.status().sources))
            receiving.cancel()
            await asyncio.wait([receiving])
            await asyncio.to_thread(send)
            await until(lambda: consumer.status().buffered_count)

    def send() -> None:
        with servers.producer("left") as producer:
            producer.send(Message("left", b"returned"))

    run(main())
    with simple(servers, "left", "left") as consumer:
        (message,) = consumer.receive()
        consumer.ack(message)

    assert (message.body, message.reconsume_times) == (b"returned", 1)


def test_a_stop_ends_a_receive_of_another_thread(servers: EmbeddedBroker) -> None:
    create_topic(servers, "ended")
    ends: list[object] = []
    consumer = simple(servers, "ended", "ended").start()

    def receive() -> None:
        try:
            ends.append(consumer.receive(wait_ms=600_000))
        except WrongState as error:
            ends.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    wait_for(lambda: any(source.is_asked for source in consumer.status().sources))
    consumer.stop()
    thread.join(60)

    assert ends == [[]]


def test_a_broker_that_is_started_again_goes_on_being_asked() -> None:
    with EmbeddedBroker() as servers:
        create_topic(servers, "restarted")
        with simple(servers, "restarted", "restarted") as consumer:
            assert consumer.receive(wait_ms=0) == []
            servers.stop_broker("broker-a")
            servers.start_broker("broker-a")
            with servers.producer("restarted") as producer:
                producer.send(Message("restarted", b"after"))
            (message,) = drain(consumer, 1, wait_ms=60_000)
            consumer.ack(message)

        assert message.body == b"after"


def test_two_brokers_are_asked_in_turn_and_both_are_waited_for() -> None:
    with EmbeddedBroker(brokers=2) as servers:
        filled(servers, "spread", numbered(1), queues=1)
        with servers.producer("spread") as producer:
            for number in range(1, 40):
                producer.send(Message("spread", b"%04d" % number))
        with simple(servers, "spread", "spread") as consumer:
            messages = drain(consumer, 40, max_messages=4)
            consumer.ack_many(messages)
            assert {message.broker for message in messages} == {"broker-a", "broker-b"}
            with servers.producer("spread") as producer, sent_soon(producer, "spread", b"new"):
                (late,) = consumer.receive(wait_ms=60_000)
            consumer.ack(late)

    assert bodies(messages) == numbered(40)
    assert late.body == b"new"


def test_without_a_broker_the_last_error_is_raised() -> None:
    with EmbeddedBroker() as servers:
        create_topic(servers, "gone")
        with simple(servers, "gone", "gone") as consumer:
            assert consumer.receive(wait_ms=0) == []
            servers.stop_broker("broker-a")

            def fail(wait_ms: int) -> None:
                with pytest.raises((Unreachable, NoRoute)):
                    consumer.receive(wait_ms=wait_ms)

            in_enough_time(fail)


def test_a_topic_without_a_route_is_named(servers: EmbeddedBroker) -> None:
    with simple(servers, "nowhere", "nowhere") as consumer, pytest.raises(NoRoute, match="nowhere"):
        consumer.receive(wait_ms=0)


def test_a_topic_may_be_subscribed_while_it_runs(servers: EmbeddedBroker) -> None:
    filled(servers, "joined", [b"joined"])

    with simple(servers, "joined") as consumer:
        with pytest.raises(InvalidSetting, match="subscribe"):
            consumer.receive()
        consumer.subscribe("joined")
        (message,) = consumer.receive()
        consumer.ack(message)
        consumer.unsubscribe("joined")
        with pytest.raises(InvalidSetting, match="subscribe"):
            consumer.receive()


@pytest.mark.parametrize(
    "settings",
    [
        {"start_from": "2026-11-17T08:30"},
        {"on_bad_record": "stop"},
        {"on_bad_record": "maybe"},
        {"invisible": 3},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        SimpleConsumer("wrong", namesrv="127.0.0.1:1", **settings)


@pytest.mark.parametrize(
    "arguments",
    [{"max_messages": 33}, {"max_messages": 0}, {"invisible_ms": 1}, {"wait_ms": -1}],
)
def test_a_receive_out_of_range_is_refused(
    servers: EmbeddedBroker, arguments: dict[str, int]
) -> None:
    with simple(servers, "ranges", "once") as consumer, pytest.raises(InvalidSetting):
        consumer.receive(**arguments)


def test_a_start_without_a_name_server_fails_and_may_be_tried_again() -> None:
    consumer = SimpleConsumer("early", namesrv="127.0.0.1:1", start_timeout_ms=0)
    consumer.subscribe("orders")

    for _ in range(2):
        with pytest.raises(Unreachable):
            consumer.start()
