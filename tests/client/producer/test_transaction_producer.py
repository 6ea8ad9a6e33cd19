"""A message in a transaction is seen when its work was done, and never before."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flintmq import (
    Message,
    Producer,
    ReceivedMessage,
    SendStatus,
    TransactionProducer,
    TransactionState,
    aio,
)
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, WrongState
from support.client.support import nothing_left, run, stored, wait_for
from support.net.support import until


def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError(message)


def bodies(servers: EmbeddedBroker, topic: str) -> list[bytes]:
    return [each.body for each in stored(servers, topic)]


def test_a_committed_message_is_seen_and_a_rolled_back_one_is_not(broker: EmbeddedBroker) -> None:
    with (
        nothing_left(),
        TransactionProducer("bank", never, namesrv=broker.namesrv) as producer,
    ):
        done = producer.send_in_transaction(
            Message("both", b"yes", tags="t"), lambda message, _: TransactionState.COMMIT
        )
        undone = producer.send_in_transaction(
            Message("both", b"no"), lambda message, _: TransactionState.ROLLBACK
        )
        wait_for(lambda: bodies(broker, "both") == [b"yes"])

    assert (done.state, undone.state) == (TransactionState.COMMIT, TransactionState.ROLLBACK)
    assert done.receipt.status is SendStatus.OK
    (found,) = stored(broker, "both")
    assert found.transaction_id == done.receipt.message_id
    assert found.tags == "t"


def test_the_work_is_done_on_the_calling_thread_before_anybody_sees_the_message(
    broker: EmbeddedBroker,
) -> None:
    seen: list[object] = []

    def execute(message: Message, transaction_id: str) -> TransactionState:
        seen.extend((message, transaction_id, threading.current_thread(), bodies(broker, "order")))
        return TransactionState.COMMIT

    message = Message("order", b"x")
    with TransactionProducer("bank", never, namesrv=broker.namesrv) as producer:
        result = producer.send_in_transaction(message, execute)
        wait_for(lambda: bodies(broker, "order") == [b"x"])

    assert seen == [message, result.receipt.message_id, threading.current_thread(), []]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_broker_that_never_heard_asks(own_broker: EmbeddedBroker, is_async: bool) -> None:
    asked: list[ReceivedMessage] = []
    threads: set[str] = set()

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        threads.add(threading.current_thread().name)
        return TransactionState.COMMIT

    async def check_async(message: ReceivedMessage) -> TransactionState:
        await asyncio.sleep(0)
        return check(message)

    with (
        nothing_left(),
        TransactionProducer(
            "bank", check_async if is_async else check, namesrv=own_broker.namesrv
        ) as producer,
    ):
        result = producer.send_in_transaction(Message("asked", b"x"), lambda message, _: None)
        assert result.state is TransactionState.UNKNOWN
        own_broker.advance(60)
        wait_for(lambda: bodies(own_broker, "asked") == [b"x"])

    assert {message.message_id for message in asked} == {result.receipt.message_id}
    assert asked[0].topic == "asked"
    assert asked[0].transaction_id == result.receipt.message_id
    assert threads == ({"flintmq-client"} if is_async else {"flintmq-check_0"})


def test_a_check_that_fails_leaves_the_end_open_and_is_an_event(
    own_broker: EmbeddedBroker,
) -> None:
    asked = 0

    def check(message: ReceivedMessage) -> TransactionState:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ValueError("no idea")
        return TransactionState.ROLLBACK

    with TransactionProducer("bank", check, namesrv=own_broker.namesrv) as producer:
        producer.send_in_transaction(Message("failing", b"x"), lambda message, _: None)
        own_broker.advance(60)
        wait_for(lambda: asked == 1)
        wait_for(lambda: producer.events("check"))
        own_broker.advance(60)
        wait_for(lambda: asked == 2)

    assert "no idea" in producer.events("check")[0].text
    assert bodies(own_broker, "failing") == []


def test_an_exception_comes_out_and_the_broker_asks(own_broker: EmbeddedBroker) -> None:
    def execute(message: Message, transaction_id: str) -> TransactionState:
        raise KeyError("account")

    def check(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    with TransactionProducer("bank", check, namesrv=own_broker.namesrv) as producer:
        with pytest.raises(KeyError, match="account"):
            producer.send_in_transaction(Message("raises", b"x"), execute)
        own_broker.advance(60)
        wait_for(lambda: bodies(own_broker, "raises") == [b"x"])


def test_what_is_no_state_is_an_error(broker: EmbeddedBroker) -> None:
    with (
        TransactionProducer("bank", never, namesrv=broker.namesrv) as producer,
        pytest.raises(TypeError, match="True"),
    ):
        producer.send_in_transaction(Message("wrong", b"x"), lambda message, _: True)  # type: ignore[arg-type,return-value]


def test_a_delayed_message_cannot_be_part_of_a_transaction(broker: EmbeddedBroker) -> None:
    with (
        TransactionProducer("bank", never, namesrv=broker.namesrv) as producer,
        pytest.raises(InvalidSetting, match="not delayed"),
    ):
        producer.send_in_transaction(
            Message("delayed", b"x", delay_level=1), lambda message, _: TransactionState.COMMIT
        )


def test_on_asyncio_the_work_may_be_a_coroutine_or_not(broker: EmbeddedBroker) -> None:
    async def execute(message: Message, transaction_id: str) -> TransactionState:
        await asyncio.sleep(0)
        return TransactionState.COMMIT

    async def main() -> None:
        async with aio.TransactionProducer("bank", never, namesrv=broker.namesrv) as producer:
            await producer.send_in_transaction(Message("aio", b"1"), execute)
            await producer.send_in_transaction(
                Message("aio", b"2"), lambda message, _: TransactionState.COMMIT
            )
            with pytest.raises(ZeroDivisionError):
                await producer.send_in_transaction(Message("aio", b"3"), lambda message, _: 1 / 0)  # type: ignore[arg-type,return-value]
            await until(lambda: sorted(bodies(broker, "aio")) == [b"1", b"2"])

    run(main())


def test_in_a_namespace_topic_and_group_are_wrapped_and_the_check_sees_the_plain_topic(
    own_broker: EmbeddedBroker,
) -> None:
    topics: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        topics.append(message.topic)
        return TransactionState.COMMIT

    with TransactionProducer("bank", check, namesrv=own_broker.namesrv, namespace="ns") as producer:
        producer.send_in_transaction(Message("spaced", b"x"), lambda message, _: None)
        own_broker.advance(60)
        wait_for(lambda: bodies(own_broker, "ns%spaced") == [b"x"])

    assert topics == ["spaced"]


def test_a_plain_producer_of_the_group_says_that_it_has_no_transactions(
    own_broker: EmbeddedBroker,
) -> None:
    with TransactionProducer("bank", never, namesrv=own_broker.namesrv) as producer:
        producer.send_in_transaction(Message("orphan", b"x"), lambda message, _: None)
    with Producer("bank", namesrv=own_broker.namesrv) as other:
        other.send(Message("orphan", b"y"))
        own_broker.advance(60)
        wait_for(lambda: other.events("check"))
    assert "no transactions" in other.events("check")[0].text


def test_before_its_start_it_says_so() -> None:
    producer = TransactionProducer("bank", never, namesrv="127.0.0.1:1")

    with pytest.raises(WrongState, match="TransactionProducer 'bank' is created"):
        producer.send_in_transaction(Message("t", b"x"), lambda message, _: None)
