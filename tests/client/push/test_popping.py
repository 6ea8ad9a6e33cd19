"""A push consumer that pops does what its listener says, as one that pulls does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flintmq import App, DeadLetter, EmbeddedBroker, Message, PushConsumer, Retry
from flintmq.errors import InvalidSetting
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, filled, numbered
from support.client.support import create_topic, nothing_left, wait_for


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as up:
        yield up


def popping(servers: EmbeddedBroker, group: str, ear: object, **more: Any) -> PushConsumer:
    settings = {"start_from": "first", "mode": "pop", **more}
    return servers.push_consumer(group, ear, **settings)  # type: ignore[arg-type]


def unacked(consumer: PushConsumer) -> int:
    return sum(place.unacked_count for place in consumer.status().pops)


def is_popping(consumer: PushConsumer) -> bool:
    return any(place.is_asked for place in consumer.status().pops)


def test_every_message_is_consumed_once_and_acknowledged(servers: EmbeddedBroker) -> None:
    filled(servers, "popped", numbered(200))
    ear = Ear()

    with (
        nothing_left(),
        popping(servers, "popped", ear, batch_max=8).subscribe("popped") as consumer,
    ):
        ear.wait_for(200)
        wait_for(lambda: unacked(consumer) == 0)
        servers.advance(120)
        wait_for(lambda: is_popping(consumer))

    assert sorted(ear.bodies) == numbered(200)


def test_members_share_a_topic_of_one_queue(servers: EmbeddedBroker) -> None:
    create_topic(servers, "narrow", 1)
    gate = threading.Barrier(2, timeout=60)
    met: list[bytes] = []

    def together(messages: tuple[ReceivedMessage, ...]) -> None:
        (message,) = messages
        gate.wait()
        met.append(message.body)

    one: dict[str, Any] = {"threads_max": 1, "unacked_max": 1}  # neither can take both
    with (
        popping(servers, "narrow", together, **one).subscribe("narrow") as left,
        popping(servers, "narrow", together, **one).subscribe("narrow") as right,
        servers.producer("narrow") as producer,
    ):
        wait_for(lambda: is_popping(left) and is_popping(right))
        for body in numbered(2):
            producer.send(Message("narrow", body))
        wait_for(lambda: len(met) == 2 and unacked(left) + unacked(right) == 0)

    assert sorted(met) == numbered(2)


def test_a_message_that_fails_comes_again_after_its_delay(servers: EmbeddedBroker) -> None:
    filled(servers, "failing", [b"failing"])
    ear = Ear(ValueError("not now"), Retry(delay_level=17))

    with popping(servers, "failing", ear).subscribe("failing") as consumer:
        ear.wait_for(1)
        wait_for(lambda: consumer.events("retry"))
        servers.advance(10)
        ear.wait_for(2)
        wait_for(lambda: len(consumer.events("retry")) == 2)
        servers.advance(3_000)  # of an hour
        assert len(ear.messages) == 2
        servers.advance(600)
        ear.wait_for(3)
        wait_for(lambda: unacked(consumer) == 0)

    assert [message.reconsume_times for message in ear.messages] == [0, 1, 2]
    assert {message.topic for message in ear.messages} == {"failing"}


def test_what_is_given_up_is_a_dead_letter_with_its_reason(servers: EmbeddedBroker) -> None:
    filled(servers, "hopeless", [b"hopeless"])
    ear = Ear(ValueError("no"), DeadLetter("bad order"))

    with popping(servers, "hopeless", ear, retry_max=1).subscribe("hopeless") as consumer:
        ear.wait_for(1)
        wait_for(lambda: consumer.events("retry"))
        servers.advance(11)
        ear.wait_for(2)
        wait_for(lambda: consumer.events("dead letter"))
        wait_for(lambda: unacked(consumer) == 0)

    (letter,) = servers.messages("%DLQ%hopeless")
    assert (letter.body, letter.properties["DLQ_REASON"]) == (b"hopeless", "bad order")
    assert letter.receipt is None


def test_a_message_is_hidden_while_its_listener_runs(servers: EmbeddedBroker) -> None:
    filled(servers, "slow", [b"slow"])
    begun, may_end = threading.Event(), threading.Event()
    seen: list[ReceivedMessage] = []

    def slow(messages: tuple[ReceivedMessage, ...]) -> None:
        seen.extend(messages)
        begun.set()
        assert may_end.wait(60)

    with popping(servers, "slow", slow, invisible_ms=300_000).subscribe("slow") as consumer:
        assert begun.wait(60)
        for _ in range(4):  # within the fifteen minutes that a listener may take
            renewed = renewals(servers)
            servers.advance(180)
            wait_for(lambda renewed=renewed: renewals(servers) > renewed)  # type: ignore[misc]
        may_end.set()
        wait_for(lambda: unacked(consumer) == 0)
        servers.advance(600)
        wait_for(lambda: is_popping(consumer))

    assert [message.body for message in seen] == [b"slow"]


def renewals(servers: EmbeddedBroker) -> int:
    """Records of the journal of popped messages: each renewal adds some."""
    return len(servers.messages("rmq_sys_wheel_timer"))


def test_no_more_is_popped_than_may_be_unacknowledged(servers: EmbeddedBroker) -> None:
    filled(servers, "limited", numbered(50))
    may_end = threading.Event()
    consumer = popping(
        servers, "limited", lambda _: may_end.wait(60) and None, unacked_max=5, threads_max=2
    )

    with consumer.subscribe("limited"):
        wait_for(lambda: unacked(consumer) == 5 and not is_popping(consumer))
        may_end.set()
        wait_for(lambda: is_popping(consumer) and unacked(consumer) == 0)


def test_a_stop_returns_what_no_listener_has_begun(servers: EmbeddedBroker) -> None:
    filled(servers, "stopped", numbered(20))
    begun, may_end = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def first(messages: tuple[ReceivedMessage, ...]) -> None:
        seen.extend(message.body for message in messages)
        begun.set()
        assert may_end.wait(60)

    consumer = popping(servers, "stopped", first, threads_max=1, invisible_ms=300_000)
    with consumer.subscribe("stopped"):
        wait_for(lambda: unacked(consumer) == 20)
        assert begun.wait(60)
        stopping = threading.Thread(target=consumer.stop)
        stopping.start()
        may_end.set()
        stopping.join(60)
    ear = Ear()
    with popping(servers, "stopped", ear).subscribe("stopped") as consumer:
        ear.wait_for(20 - len(seen))
        wait_for(lambda: unacked(consumer) == 0)

    assert sorted(seen + ear.bodies) == numbered(20)


def test_an_app_pops_and_async_listeners_do_too(servers: EmbeddedBroker) -> None:
    filled(servers, "app-popped", numbered(10))
    found: list[bytes] = []
    app = App("app-popped", namesrv=servers.namesrv, mode="pop", start_from="first")

    @app.listener("app-popped", batch_max=4)
    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        found.extend(message.body for message in messages)

    with app.consumer() as consumer:
        wait_for(lambda: len(found) == 10 and unacked(consumer) == 0)

    assert sorted(found) == numbered(10)


def test_messages_are_for_who_iterates(servers: EmbeddedBroker) -> None:
    filled(servers, "iterated", numbered(3), queues=1)

    with popping(servers, "iterated", None).subscribe("iterated") as consumer:
        found = [message.body for _, message in zip(range(3), consumer, strict=False)]

    assert sorted(found) == numbered(3)


def test_the_broker_s_mode_decides_and_may_change(servers: EmbeddedBroker) -> None:
    filled(servers, "switched", [b"pulled"])
    ear = Ear()
    consumer = popping(servers, "switched", ear, mode="broker", rebalance_interval_ms=100)

    with servers.admin() as admin, consumer.subscribe("switched"):
        ear.wait_for(1)
        assert consumer.status().pops == ()
        assert len(consumer.queues()) >= 4
        assert admin.set_consume_mode("switched", "switched", "pop") == ("broker-a",)
        wait_for(lambda: is_popping(consumer))
        wait_for(lambda: {queue.topic for queue in consumer.queues()} <= {"%RETRY%switched"})
        with servers.producer("switched") as producer:
            producer.send(Message("switched", b"popped"))
        ear.wait_for(2)
        (setting,) = [each for each in admin.consume_modes() if each.group == "switched"]
        assert (setting.topic, setting.mode, setting.brokers) == ("switched", "pop", ("broker-a",))
        wait_for(lambda: unacked(consumer) == 0 and is_popping(consumer))
        admin.set_consume_mode("switched", "switched", "pull")
        wait_for(lambda: not any(place.is_ours for place in consumer.status().pops))
        servers.advance(16)  # until the last pop is not held any more
        wait_for(lambda: len(consumer.queues()) >= 4)
        with servers.producer("switched") as producer:
            producer.send(Message("switched", b"pulled again"))
        ear.wait_for(3)

    assert ear.bodies == [b"pulled", b"popped", b"pulled again"]


def test_a_mode_that_is_none_is_refused(servers: EmbeddedBroker) -> None:
    with servers.admin() as admin, pytest.raises(InvalidSetting, match="pull, pop"):
        admin.set_consume_mode("any", "popped", "push")
