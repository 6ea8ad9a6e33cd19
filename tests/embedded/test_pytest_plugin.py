"""A test gets a real broker whose time it moves and whose faults it orders; clients go along."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import flintmq.aio
from flintmq import (
    App,
    ConsumeFromWhere,
    DeadLetter,
    EmbeddedBroker,
    Message,
    QueueRef,
    ReceivedMessage,
    TransactionState,
)
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.push.push_status import ConsumerStatus
from flintmq.embedded.servers import Servers
from flintmq.errors import SendFailed, Unreachable
from flintmq.protocol.codes import RequestCode
from flintmq.store.files.store_config import Flush, StoreConfig
from support.client.push_support import Ear
from support.net.support import PATIENCE_S

pytest_plugins = ["flintmq.embedded.pytest_plugin"]

HOUR_S = 3_600
FIRST = QueueRef("orders", "broker-a", 0)


def send(broker: EmbeddedBroker, *messages: Message) -> None:
    with broker.producer("shop") as producer:
        for message in messages:
            producer.send(message)


def made(broker: EmbeddedBroker, topic: str, queues: int = 1) -> None:
    with broker.admin() as admin:
        admin.create_topic(topic, queues=queues)


def bodies(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


def rests(status: ConsumerStatus) -> bool:
    """Whether an ordered queue waits after a failure."""
    return any(each.waits_for == "suspended" for each in status.queues)


# The fixtures


def test_each_test_has_a_broker_of_its_own(
    flintmq_broker: EmbeddedBroker, flintmq_session_broker: EmbeddedBroker
) -> None:
    send(flintmq_broker, Message("orders", b"1"))

    assert bodies(flintmq_broker, "orders") == [b"1"]
    assert bodies(flintmq_session_broker, "orders") == []
    assert flintmq_broker.directory.is_dir()
    assert flintmq_broker.namesrv != flintmq_session_broker.namesrv


def test_a_broker_of_a_test_is_empty_again_in_the_next(flintmq_broker: EmbeddedBroker) -> None:
    assert flintmq_broker.messages("orders") == []
    assert flintmq_broker.lag("nobody") == 0


class TestSettings:
    @pytest.fixture
    def flintmq_settings(self) -> dict[str, int]:
        return {"brokers": 2}

    def test_both_are_made_as_the_settings_say(self, flintmq_broker: EmbeddedBroker) -> None:
        one = flintmq_broker
        made(one, "orders")
        with one.producer("shop") as producer:
            for name in ("broker-a", "broker-b"):
                producer.send(Message("orders", name.encode()), queue=QueueRef("orders", name, 0))

        assert bodies(one, "orders") == [b"broker-a", b"broker-b"]


def test_loading_the_plugin_loads_no_broker() -> None:
    code = "import flintmq.embedded.pytest_plugin, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())

    assert "flintmq.embedded.pytest_plugin" in loaded
    assert not loaded & {"flintmq.embedded.broker", "numpy", "msgspec"}


# Time


def test_timers_and_transaction_checks_come_due(flintmq_broker: EmbeddedBroker) -> None:
    broker = flintmq_broker
    asked: list[bytes] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.body)
        return TransactionState.COMMIT

    send(broker, Message("orders", b"timed", delay_ms=HOUR_S * 1_000))  # not by the real clock
    with broker.transaction_producer("bank", check) as producer:
        producer.send_in_transaction(
            Message("orders", b"half"), lambda _message, _id: TransactionState.UNKNOWN
        )
        assert broker.delayed() == 1

        broker.advance(90)
        broker.wait_for(lambda: asked == [b"half"])
        broker.wait_for(lambda: bodies(broker, "orders") == [b"half"])
        broker.advance(HOUR_S)

    assert bodies(broker, "orders") == [b"half", b"timed"]
    assert broker.delayed() == 0


def test_a_pull_that_waits_is_answered_when_its_time_is_over(
    flintmq_broker: EmbeddedBroker,
) -> None:
    made(flintmq_broker, "orders")
    with flintmq_broker.push_consumer("billing", Ear()).subscribe("orders"):
        held = "broker-a"
        flintmq_broker.wait_for(
            lambda: flintmq_broker.call(lambda servers: len(servers.brokers[held].state.held)) == 2
        )
        before = flintmq_broker.call(
            lambda servers: servers.brokers[held].state.held.next_due_ms() or 0
        )

        flintmq_broker.advance(15)

        flintmq_broker.wait_for(  # answered, and asked again
            lambda: flintmq_broker.call(
                lambda servers: (servers.brokers[held].state.held.next_due_ms() or 0) > before
            )
        )


def test_old_files_go_when_their_time_is_over() -> None:
    small = StoreConfig(
        flush=Flush.ASYNC,
        commit_log_file_bytes=8_192,
        message_bytes_max=2_048,
        clean_percent=97,  # whatever else is on this disk: young files go when it is full
        clean_forced_percent=98,
        refuse_percent=99,
    )
    with EmbeddedBroker(config=BrokerConfig(store=small)) as broker:
        made(broker, "orders")
        send(broker, *(Message("orders", bytes(1_000)) for _ in range(12)))
        before = len(broker.messages("orders"))

        broker.advance(71 * HOUR_S)
        young = len(broker.messages("orders"))
        for _ in range(25):  # old files go at one hour of the day
            broker.advance(HOUR_S)
        old = len(broker.messages("orders"))

        assert (before, young) == (12, 12)
        assert old < 12


def test_a_large_step_loses_no_lock_no_pull_and_no_member(flintmq_broker: EmbeddedBroker) -> None:
    broker = flintmq_broker
    made(broker, "orders", 2)
    ear = Ear()
    consumer = broker.push_consumer("billing", ear, ordered=True, start_from="first")
    with consumer.subscribe("orders"):
        send(broker, Message("orders", b"1"))
        ear.wait_for(1)
        for number in range(2, 8):
            broker.advance(HOUR_S)
            send(broker, Message("orders", b"%d" % number))
            ear.wait_for(number)
        kinds = {event.kind for event in consumer.events()}
        with broker.admin() as admin:
            members = admin.members("billing")

    assert ear.bodies == [b"%d" % number for number in range(1, 8)]
    assert not kinds & {"lock", "pull"}, consumer.events()
    assert members is not None
    assert len(members.members) == 1


def test_the_rest_of_an_ordered_queue_is_over_as_soon_as_the_test_says(
    flintmq_broker: EmbeddedBroker,
) -> None:
    broker = flintmq_broker
    made(broker, "orders")
    ear = Ear(RuntimeError("not yet"))
    consumer = broker.push_consumer(
        "billing", ear, ordered=True, start_from="first", ordered_suspend_ms=30_000
    )
    with consumer.subscribe("orders"):
        send(broker, Message("orders", b"first"))
        ear.wait_for(1)
        broker.wait_for(lambda: rests(consumer.status()))

        broker.advance(30)

        ear.wait_for(2)
    assert ear.bodies == [b"first", b"first"]


def test_offsets_are_committed_by_the_clock_of_the_test(flintmq_broker: EmbeddedBroker) -> None:
    broker = flintmq_broker
    made(broker, "orders")
    first = ConsumeFromWhere.FIRST_OFFSET
    with broker.lite_pull_consumer("billing", start_from=first, commit_interval_ms=600_000) as lite:
        lite.subscribe("orders")
        send(broker, Message("orders", b"1"))
        assert [message.body for message in lite.poll(timeout_ms=60_000)] == [b"1"]
        assert lite.poll(timeout_ms=0) == []
        assert broker.lag("billing", "orders") == 1

        broker.advance(600)

        def is_committed() -> bool:
            assert lite.poll(timeout_ms=0) == []
            return broker.lag("billing", "orders") == 0

        broker.wait_for(is_committed, PATIENCE_S)


def test_a_client_made_later_is_as_late_as_the_broker(flintmq_broker: EmbeddedBroker) -> None:
    flintmq_broker.advance(HOUR_S)
    send(flintmq_broker, Message("orders", b"late"))

    (message,) = flintmq_broker.messages("orders")
    assert abs(message.store_ms - message.born_ms) < 60_000


def test_a_client_on_a_loop_goes_along(flintmq_broker: EmbeddedBroker) -> None:
    broker = flintmq_broker
    made(broker, "orders")
    heard: list[bytes] = []

    async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        heard.extend(message.body for message in messages)
        if len(heard) == 1:
            raise RuntimeError("not yet")

    async def main() -> None:
        consumer = flintmq.aio.PushConsumer(
            "billing",
            listen,
            ordered=True,
            ordered_suspend_ms=30_000,
            start_from="first",
            **broker.settings,
        )
        async with consumer.subscribe("orders"):
            await asyncio.to_thread(send, broker, Message("orders", b"first"))
            await asyncio.to_thread(broker.wait_for, lambda: len(heard) == 1)
            async with asyncio.timeout(PATIENCE_S):
                while not rests(await consumer.status()):  # noqa: ASYNC110 - it has a deadline
                    await asyncio.sleep(0.005)
            await asyncio.to_thread(broker.advance, 30)
            await asyncio.to_thread(broker.wait_for, lambda: len(heard) == 2)

    asyncio.run(main())

    assert heard == [b"first", b"first"]


# Faults


def test_requests_wait_while_it_is_paused(flintmq_broker: EmbeddedBroker) -> None:
    broker = flintmq_broker
    made(broker, "orders")
    with broker.producer("shop") as producer:
        producer.send(Message("orders", b"0"), queue=FIRST)
        with broker.pause():
            sends = [
                producer.send_async(Message("orders", b"%d" % n), queue=FIRST, timeout_ms=60_000)
                for n in (1, 2, 3)
            ]
            producer_threads_are_idle = not any(each.done() for each in sends)
            assert bodies(broker, "orders") == [b"0"]
        for each in sends:
            each.result(timeout=60)

        assert producer_threads_are_idle
        assert bodies(broker, "orders") == [b"0", b"1", b"2", b"3"]

        broker.pause()
        with pytest.raises(Unreachable):
            producer.send(Message("orders", b"4"), queue=FIRST, timeout_ms=100)
        broker.resume()
        broker.wait_for(lambda: bodies(broker, "orders")[-1] == b"4")  # it came, late


@pytest.mark.parametrize(
    ("lost", "fails", "stored"),
    [("request", True, 0), ("answer", True, 1), ("connection", False, 1)],
)
def test_a_request_is_lost_as_asked_for(
    flintmq_broker: EmbeddedBroker, lost: str, fails: bool, stored: int
) -> None:
    broker = flintmq_broker
    made(broker, "orders")
    with broker.producer("shop") as producer:
        producer.send(Message("orders", b"0"))  # it is connected now
        broker.drop_next(RequestCode.SEND_MESSAGE_V2, lost=lost)  # type: ignore[arg-type]
        if fails:
            with pytest.raises(SendFailed):
                producer.send(Message("orders", b"1"), timeout_ms=200)
        else:
            producer.send(Message("orders", b"1"))
        broker.wait_for(lambda: broker.call(lambda servers: _left(servers) == 0))
        assert len(broker.messages("orders")) == 1 + stored

        producer.send(Message("orders", b"2"))  # only one was to be lost

    assert bodies(broker, "orders")[-1] == b"2"


def _left(servers: Servers) -> int:
    """How many requests are still to be lost."""
    assert servers.faults is not None
    return servers.faults.left


def test_requests_to_a_name_server_can_be_lost_too(flintmq_broker: EmbeddedBroker) -> None:
    made(flintmq_broker, "orders")
    flintmq_broker.drop_next(RequestCode.GET_ROUTEINFO_BY_TOPIC, lost="connection")

    closed = pytest.raises(Unreachable, match="closed the connection")
    with flintmq_broker.admin() as admin, closed:
        admin.route("orders")
    with flintmq_broker.admin() as other:
        assert other.route("orders").queues


def test_an_app_runs_where_the_test_is(flintmq_broker: EmbeddedBroker) -> None:
    app = App("billing", namesrv="nowhere.example:9876", start_from="first")
    heard: list[bytes] = []

    @app.listener("orders")
    def bill(messages: tuple[ReceivedMessage, ...]) -> None:
        heard.extend(message.body for message in messages)
        raise DeadLetter("always")

    with flintmq_broker.running(app) as consumer:
        send(flintmq_broker, Message("orders", b"1"))
        flintmq_broker.wait_for(lambda: flintmq_broker.messages("%DLQ%billing"))
        assert consumer.group == "billing"

    assert heard == [b"1"]
    assert consumer.state.value == "stopped"


def test_a_condition_that_never_comes_true_is_told(flintmq_broker: EmbeddedBroker) -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.02 s"):
        flintmq_broker.wait_for(lambda: False, timeout_s=0.02)
    with pytest.raises(ValueError, match="1 or more"):
        flintmq_broker.drop_next(11, count=0)
