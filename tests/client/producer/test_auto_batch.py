"""With ``auto_batch`` messages share requests, and everyone still hears of their own message."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from flintmq import Message, Producer, SendReceipt, aio
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.producer.auto_batch import Gather
from flintmq.client.producer.producer_settings import ProducerSettings
from flintmq.core.producer.send_draft import DraftRules
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BodyTooLarge, NoRoute, SendFailed
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from support.client.support import create_topic, nothing_left, run, stored

COUNT = 500


class Codes:
    """Counts requests by their code."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def before(self, address: str, request: Command) -> Command:
        self.seen[request.code] += 1
        return request

    def after(self, address: str, request: Command, answer: Command | None) -> None:
        """Nothing to do."""


def check_receipts(broker: EmbeddedBroker, topic: str, receipts: list[SendReceipt]) -> None:
    """Each receipt is of the message it was given for."""
    found = {(m.queue_id, m.queue_offset): m for m in stored(broker, topic)}
    assert len(found) == len(receipts)
    for number, receipt in enumerate(receipts):
        message = found[receipt.queue.queue_id, receipt.queue_offset]
        assert message.body == str(number).encode()
        assert message.message_id == receipt.message_id


def test_messages_share_requests_and_every_receipt_is_right(broker: EmbeddedBroker) -> None:
    codes = Codes()
    create_topic(broker, "shared", queues=3)
    with (
        nothing_left(),
        Producer(
            "shop", namesrv=broker.namesrv, auto_batch=True, request_hooks=(codes,)
        ) as producer,
    ):
        sent = [
            producer.send_async(Message("shared", str(number).encode())) for number in range(COUNT)
        ]
        receipts = [each.result() for each in sent]
    check_receipts(broker, "shared", receipts)
    requests = codes.seen[RequestCode.SEND_BATCH_MESSAGE] + codes.seen[RequestCode.SEND_MESSAGE_V2]
    assert codes.seen[RequestCode.SEND_BATCH_MESSAGE] > 0
    assert requests < COUNT / 2


def test_the_same_on_asyncio(broker: EmbeddedBroker) -> None:
    create_topic(broker, "shared_aio", queues=2)

    async def program() -> list[SendReceipt]:
        async with aio.Producer("shop", namesrv=broker.namesrv, auto_batch=True) as producer:
            sent = [
                await producer.send_async(Message("shared_aio", str(number).encode()))
                for number in range(COUNT)
            ]
            await producer.flush()
            assert all(each.done() for each in sent)
            return await asyncio.gather(*sent)

    check_receipts(broker, "shared_aio", run(program()))


def test_what_may_not_share_goes_alone(broker: EmbeddedBroker) -> None:
    codes = Codes()
    create_topic(broker, "alone", queues=1)
    with Producer(
        "shop", namesrv=broker.namesrv, auto_batch=True, request_hooks=(codes,)
    ) as producer:
        (queue,) = producer.queues("alone")
        large = bytes(range(256)) * 64
        sent = [
            producer.send_async(Message("alone", b"0", delay_level=1)),
            producer.send_async(Message("alone", b"1"), queue=queue),
            producer.send_async(Message("alone", b"2"), sharding_key="k"),
            producer.send_async(Message("alone", large)),
        ]
        for each in sent:
            assert each.result().queue == queue
    assert codes.seen[RequestCode.SEND_BATCH_MESSAGE] == 0
    assert codes.seen[RequestCode.SEND_MESSAGE_V2] == len(sent)


def test_one_bad_message_fails_alone(broker: EmbeddedBroker) -> None:
    create_topic(broker, "spoilt", queues=1)
    bad = Message("spoilt", b"too large")
    settings: ProducerSettings = {
        "namesrv": broker.namesrv,
        "auto_batch": True,
        "message_bytes_max": 5,
    }
    with Producer("shop", **settings) as producer:
        good = [producer.send_async(Message("spoilt", b"good")) for _ in range(20)]
        failed = producer.send_async(bad)
        good += [producer.send_async(Message("spoilt", b"good")) for _ in range(20)]
        for each in good:
            each.result()
        with pytest.raises(BodyTooLarge):
            failed.result()
    assert Counter(m.body for m in stored(broker, "spoilt")) == {b"good": 40}


def test_everyone_hears_of_a_request_that_failed() -> None:
    heard: list[SendReceipt | BaseException] = []
    with (
        EmbeddedBroker(config=BrokerConfig(auto_create_topic=False)) as broker,
        Producer("shop", namesrv=broker.namesrv, auto_batch=True) as producer,
    ):
        sent = [
            producer.send_async(Message("unknown", b"x"), callback=heard.append) for _ in range(10)
        ]
        producer.flush()
    errors = [each.exception() for each in sent]
    assert all(isinstance(each, NoRoute) for each in errors)
    assert heard == errors


def test_a_message_whose_time_is_over_before_it_leaves_is_told_so() -> None:
    now_ms = 0

    class Never:
        async def send(self, message: Message, *, timeout_ms: int) -> SendReceipt:
            raise AssertionError

        async def send_batch(self, messages: object, *, timeout_ms: int) -> list[SendReceipt]:
            raise AssertionError

    async def program() -> None:
        nonlocal now_ms
        gather = Gather(Never(), DraftRules(), lambda: now_ms)
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        assert gather.add(Message("orders", b"x"), 3_000, asyncio.Future.set_result, ended)
        now_ms = 3_000
        error = await ended
        assert isinstance(error, SendFailed)
        assert "3000 ms are over, and it had not left" in str(error)

    asyncio.run(program())
