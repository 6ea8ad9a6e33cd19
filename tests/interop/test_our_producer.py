"""Our producer works against the real brokers of both releases, feature by feature."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flintmq import (
    Message,
    Producer,
    QueueRef,
    ReceivedMessage,
    SendStatus,
    TransactionProducer,
    TransactionState,
)
from flintmq.errors import BrokerRefused, InvalidSetting, NoReply, SendFailed
from support.client.support import nothing_left, stored, wait_for
from support.interop.real import RealRocketMQ

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # the first run fetches the jars
]

OLD = "4.9.7"
VERSIONS = [OLD, "5.3.3"]

SEND_MS = 15_000
"""A busy machine must not be what fails a test."""


@pytest.fixture(scope="module", params=VERSIONS)
def rocketmq(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealRocketMQ]:
    with RealRocketMQ(
        request.param,
        tmp_path_factory.mktemp("rocketmq"),
        transactionCheckInterval=1_000,
        transactionTimeOut=1_000,
        transactionOpBatchInterval=100,  # else 5.x asks for what was ended a moment ago
    ) as up:
        yield up


def bodies(servers: RealRocketMQ, topic: str) -> list[bytes]:
    return sorted(message.body for message in stored(servers, topic))


def test_messages_arrive_as_they_were_sent(rocketmq: RealRocketMQ) -> None:
    with nothing_left(), Producer("p", namesrv=rocketmq.namesrv) as producer:
        receipt = producer.send(
            Message("plain", b"body", tags="paid", keys=["k"], properties={"a": "ü"}, flag=3),
            timeout_ms=SEND_MS,
        )
        wait_for(lambda: bodies(rocketmq, "plain") == [b"body"])

    (found,) = stored(rocketmq, "plain")
    assert receipt.status is SendStatus.OK
    assert (found.tags, found.keys, found.flag) == ("paid", ("k",), 3)
    assert found.properties["a"] == "ü"
    assert found.message_id == receipt.message_id
    assert found.offset_message_id == receipt.offset_message_id
    assert receipt.queue == QueueRef("plain", found.broker, found.queue_id)
    assert receipt.queue_offset == found.queue_offset


def test_all_ways_of_sending_store_the_message(rocketmq: RealRocketMQ) -> None:
    with Producer("p", namesrv=rocketmq.namesrv, namespace="ns") as producer:
        producer.send(Message("ways", b"large" * 2_000), timeout_ms=SEND_MS)
        queue = producer.queues("ways")[-1]
        chosen = producer.send(Message("ways", b"queue"), queue=queue, timeout_ms=SEND_MS)
        keyed = {
            producer.send(Message("ways", b"key"), sharding_key="k", timeout_ms=SEND_MS).queue
            for _ in range(2)
        }
        producer.send_async(Message("ways", b"async"), timeout_ms=SEND_MS).result()
        producer.send_oneway(Message("ways", b"oneway"))
        batch = producer.send_batch(
            [Message("ways", b"one"), Message("ways", b"two")], timeout_ms=SEND_MS
        )
        expected = [b"async", b"key", b"key", b"large" * 2_000, b"one", b"oneway", b"queue", b"two"]
        wait_for(lambda: bodies(rocketmq, "ns%ways") == expected)

    found = {message.message_id: message for message in stored(rocketmq, "ns%ways")}
    assert chosen.queue == queue
    assert len(keyed) == 1
    for receipt, body in zip(batch, (b"one", b"two"), strict=True):
        message = found[receipt.message_id]
        assert message.body == body
        assert message.offset_message_id == receipt.offset_message_id
        assert message.queue_offset == receipt.queue_offset


def test_a_time_of_delivery_is_for_5_alone(rocketmq: RealRocketMQ) -> None:
    timed = Message("timed", b"later", delay_ms=1_500)
    with Producer("p", namesrv=rocketmq.namesrv) as producer:
        producer.send(Message("timed", b"level", delay_level=1), timeout_ms=SEND_MS)
        if rocketmq.version == OLD:
            with pytest.raises(InvalidSetting, match="delay_level"):
                producer.send(timed, timeout_ms=SEND_MS)
            wait_for(lambda: bodies(rocketmq, "timed") == [b"level"])
        else:
            producer.send(timed, timeout_ms=SEND_MS)
            wait_for(lambda: bodies(rocketmq, "timed") == [b"later", b"level"])


def test_a_transaction_ends_as_it_was_told_or_asked(rocketmq: RealRocketMQ) -> None:
    asked: list[ReceivedMessage] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        return TransactionState.COMMIT

    with TransactionProducer("bank", check, namesrv=rocketmq.namesrv) as producer:
        for body, state in (
            (b"committed", TransactionState.COMMIT),
            (b"rolled back", TransactionState.ROLLBACK),
            (b"asked", None),
        ):
            producer.send_in_transaction(
                Message("bank", body),
                lambda message, _, state=state: state,  # type: ignore[misc]
                timeout_ms=SEND_MS,
            )
        wait_for(lambda: bodies(rocketmq, "bank") == [b"asked", b"committed"], patience_s=120)

    assert {message.body for message in asked} == {b"asked"}


def test_a_request_gets_its_reply(rocketmq: RealRocketMQ) -> None:
    def respond() -> None:
        wait_for(lambda: stored(rocketmq, "questions"))
        (question,) = stored(rocketmq, "questions")
        with Producer("responders", namesrv=rocketmq.namesrv) as producer:
            producer.reply(question, b"fine", timeout_ms=SEND_MS)

    thread = threading.Thread(target=respond)
    thread.start()
    with Producer("asking", namesrv=rocketmq.namesrv) as producer:
        reply = producer.request(Message("questions", b"how are you"), timeout_ms=SEND_MS)
        thread.join()
        assert reply.body == b"fine"
        with pytest.raises(NoReply):
            producer.request(Message("silence", b"x"), timeout_ms=1_500)


def test_refusals_come_with_the_words_of_the_broker(rocketmq: RealRocketMQ) -> None:
    mib = 1024 * 1024
    with Producer(
        "p", namesrv=rocketmq.namesrv, message_bytes_max=8 * mib, compress_from_bytes=8 * mib
    ) as producer:
        with pytest.raises(BrokerRefused) as caught:
            producer.send(Message("large", b"x" * (5 * mib)), timeout_ms=SEND_MS)
        assert caught.value.code == 13
        with pytest.raises((SendFailed, BrokerRefused), match="queueId"):
            producer.send(
                Message("plain", b"x"),
                queue=QueueRef("plain", "broker-a", 999),
                timeout_ms=SEND_MS,
            )
