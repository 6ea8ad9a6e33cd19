"""What a client sends and consumes leaves traces, and nothing ever waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    QueueRef,
    ReceivedMessage,
    Retry,
    SendReceipt,
    SendStatus,
    TransactionProducer,
    TransactionState,
    aio,
)
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.engine.event_log import EventLog
from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.client.hooks.send_hooks import SendContext
from flintmq.client.producer import tracer as trace
from flintmq.client.producer.trace_hooks import ConsumeTrace, SendTrace
from flintmq.client.producer.tracer import BATCH_RECORDS, RECORDS_MAX, Tracer
from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.trace_reader import read_trace
from flintmq.core.producer.trace_records import (
    ConsumedRecord,
    Consuming,
    Happening,
    MessageKind,
    Published,
    Record,
    TransactionEnded,
)
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BrokerRefused, InvalidName, Unreachable
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import TRACE_TOPIC
from flintmq.protocol.version import version_number
from support.client.push_support import Ear
from support.client.support import create_topic, nothing_left, run, stored, wait_for
from support.net.support import until


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=BrokerConfig(trace_topic=True)) as servers:
        yield servers


def records(servers: EmbeddedBroker, message_id: str, topic: str = TRACE_TOPIC) -> list[Record]:
    """What the traces that are found under an id say of it."""
    return [
        record
        for message in stored(servers, topic)
        if message_id in message.keys
        for record in read_trace(message.body.decode()).records
        if record.message_id == message_id
    ]


def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError(message)


# Producers


def test_a_stored_message_leaves_a_record(broker: EmbeddedBroker) -> None:
    with nothing_left(), Producer("shop", namesrv=broker.namesrv, trace=True) as producer:
        receipt = producer.send(Message("orders", b"12345", tags="paid", keys=["k1", "k2"]))

    (record,) = records(broker, receipt.message_id)
    assert isinstance(record, Published)
    assert (record.group, record.topic, record.tags) == ("shop", "orders", "paid")
    assert record.offset_message_id == receipt.offset_message_id
    assert record.store_host == broker.brokers[0]
    assert (record.body_bytes, record.kind, record.success) == (5, MessageKind.NORMAL, True)
    assert record.region == "DefaultRegion"
    (found,) = [each for each in stored(broker, TRACE_TOPIC) if "k1" in each.keys]
    assert found.keys == (receipt.message_id, "k1", "k2")


def test_every_way_of_sending_but_oneway_is_traced(broker: EmbeddedBroker) -> None:
    with Producer("ways", namesrv=broker.namesrv, trace=True, namespace="ns") as producer:
        delayed = producer.send(Message("ways", b"x", delay_level=3))
        ordered = producer.send(Message("ways", b"x"), sharding_key="k")
        later = producer.send_async(Message("ways", b"x")).result()
        batch = producer.send_batch([Message("ways", b"one"), Message("ways", b"three")])
        producer.send_oneway(Message("ways", b"x", keys="unseen"))

    def kind(receipt: SendReceipt) -> MessageKind:
        (record,) = records(broker, receipt.message_id)
        assert isinstance(record, Published)
        assert (record.topic, record.group) == ("ways", "ways")
        return record.kind

    assert (kind(delayed), kind(later)) == (MessageKind.DELAYED, MessageKind.NORMAL)
    assert kind(ordered) is MessageKind.ORDERED
    sizes = [records(broker, each.message_id)[0] for each in batch]
    assert [each.body_bytes for each in sizes if isinstance(each, Published)] == [3, 5]
    assert not [each for each in stored(broker, TRACE_TOPIC) if "unseen" in each.keys]


def test_a_transaction_leaves_its_half_and_its_end(broker: EmbeddedBroker) -> None:
    with TransactionProducer("bank", never, namesrv=broker.namesrv, trace=True) as producer:
        receipt, _ = producer.send_in_transaction(
            Message("bank", b"x", tags="t", keys="k"), lambda *_: TransactionState.ROLLBACK
        )

    half, end = records(broker, receipt.message_id)
    assert isinstance(half, Published)
    assert half.kind is MessageKind.HALF
    assert isinstance(end, TransactionEnded)
    assert end == TransactionEnded(
        end.at_ms,
        "DefaultRegion",
        "bank",
        "bank",
        receipt.message_id,
        "t",
        "k",
        broker.brokers[0],
        MessageKind.ENDED,
        receipt.message_id,
        TransactionState.ROLLBACK,
        False,
    )


def test_the_answer_to_a_check_is_traced_as_one(own_broker: EmbeddedBroker) -> None:
    def check(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    servers = own_broker
    create_topic(servers, "traces")
    with TransactionProducer(
        "bank", check, namesrv=servers.namesrv, trace_topic="traces"
    ) as producer:
        receipt, _ = producer.send_in_transaction(Message("asked", b"x"), lambda *_: None)
        servers.advance(120)
        wait_for(lambda: stored(servers, "asked"))

    ends = [
        (record.state, record.from_check, record.topic)
        for record in records(servers, receipt.message_id, "traces")
        if isinstance(record, TransactionEnded)
    ]
    assert ends[0] == (TransactionState.UNKNOWN, False, "asked")
    assert ends[-1] == (TransactionState.COMMIT, True, "asked")


def test_messages_that_were_not_stored_leave_no_record(broker: EmbeddedBroker) -> None:
    with Producer("refused", namesrv=broker.namesrv, trace=True) as producer:
        producer.send(Message("known", b"x"))
        with pytest.raises(BrokerRefused):
            producer.send(Message("known", b"x", keys="refused"), queue=_queue(99))

    assert not [each for each in stored(broker, TRACE_TOPIC) if "refused" in each.keys]


def _queue(number: int) -> QueueRef:
    return QueueRef("known", "broker-a", number)


# Consumers


def test_a_consumed_message_leaves_what_came_before_and_after(broker: EmbeddedBroker) -> None:
    create_topic(broker, "read", 1)
    ear = Ear(Retry(delay_level=1))
    with Producer("writers", namesrv=broker.namesrv, trace=True) as producer:
        sent = producer.send(Message("read", b"x", keys="k"))
    consumer = PushConsumer(
        "readers", ear, namesrv=broker.namesrv, trace=True, start_from="first"
    ).subscribe("read")

    with nothing_left(), consumer:
        ear.wait_for(1)
        broker.advance(2)
        ear.wait_for(2)

    found = records(broker, sent.message_id)
    assert [type(each) for each in found[:1]] == [Published]
    before = [each for each in found if isinstance(each, Consuming)]
    after = [each for each in found if isinstance(each, ConsumedRecord)]
    assert [each.retry_times for each in before] == [0, 1]
    assert [each.request_id for each in before] == [each.request_id for each in after]
    assert before[0].request_id != before[1].request_id
    assert [(each.success, each.returned) for each in after] == [
        (False, ReturnKind.FAILED),
        (True, ReturnKind.SUCCESS),
    ]
    assert {each.group for each in before + after} == {"readers"}
    assert {each.keys for each in before + after} == {"k"}


def test_a_batch_on_the_loop_leaves_a_record_for_each_message(broker: EmbeddedBroker) -> None:
    create_topic(broker, "batch", 1)

    async def main() -> list[str]:
        seen: list[ReceivedMessage] = []

        async def listen(messages: tuple[ReceivedMessage, ...]) -> None:
            seen.extend(messages)

        settings: Any = {"namesrv": broker.namesrv, "trace_topic": "own-traces"}
        async with aio.Producer("batches", namesrv=broker.namesrv) as producer:
            await producer.send_batch([Message("batch", b"%d" % each) for each in range(5)])
        consumer = aio.PushConsumer(
            "batch-readers", listen, start_from="first", batch_max=5, **settings
        )
        async with consumer.subscribe("batch"):
            await until(lambda: len(seen) == 5)
        return [each.message_id for each in seen]

    create_topic(broker, "own-traces")
    for message_id in run(main()):
        assert [type(each) for each in records(broker, message_id, "own-traces")] == [
            Consuming,
            ConsumedRecord,
        ]
        assert not records(broker, message_id)


def test_what_is_polled_leaves_records_too(broker: EmbeddedBroker) -> None:
    create_topic(broker, "polled", 1)
    with Producer("writers", namesrv=broker.namesrv) as producer:
        sent = producer.send(Message("polled", b"x"))
    with (
        nothing_left(),
        LitePullConsumer(
            "pollers",
            namesrv=broker.namesrv,
            trace=True,
            start_from=ConsumeFromWhere.FIRST_OFFSET,
        ) as consumer,
    ):
        consumer.subscribe("polled")
        assert consumer.poll(timeout_ms=10_000)

    before, after = records(broker, sent.message_id)
    assert isinstance(before, Consuming)
    assert isinstance(after, ConsumedRecord)
    assert (before.group, after.request_id) == ("pollers", before.request_id)
    assert after.success


def test_reading_the_traces_leaves_none(broker: EmbeddedBroker) -> None:
    create_topic(broker, "loop", 1)
    ear = Ear()
    with Producer("loop", namesrv=broker.namesrv, trace_topic="loop") as producer:
        producer.send(Message("loop", b"not traced"))
        producer.send(Message("other", b"traced"))
    consumer = PushConsumer(
        "loopers", ear, namesrv=broker.namesrv, trace_topic="loop", start_from="first"
    ).subscribe("loop")

    with consumer:
        ear.wait_for(2)

    assert len(stored(broker, "loop")) == 2


# Hooks alone


class Kept:
    """A tracer's ear, without one."""

    topic = "traces"

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def add(self, happening: Happening) -> None:
        self.happenings.append(happening)


def sent_context(**receipt: Any) -> SendContext:
    queue = QueueRef("t", "broker-a", 0)
    stored_as = {"region": "r", **receipt}
    done = SendReceipt(SendStatus.OK, "id", "place", queue, QueueOffset(0), **stored_as)
    kind = MessageKind.ORDERED
    return SendContext("g", "", (Message("t", b"x"),), queue, "a:1", 5, kind, (done,))


@pytest.mark.parametrize("receipt", [{"region": None}, {"trace_on": False}])
def test_a_broker_that_wants_no_traces_gets_none(receipt: dict[str, Any]) -> None:
    kept: Any = Kept()
    hook = SendTrace(kept, lambda _: None)

    hook.after(sent_context(**receipt))
    assert not kept.happenings
    hook.after(sent_context())
    assert len(kept.happenings) == 1


@pytest.mark.parametrize(
    ("version", "kind"),
    [(None, 0), (version_number("V4_9_7"), 0), (version_number("V5_3_3"), 4)],
)
def test_old_tools_never_see_a_kind_they_do_not_know(version: int | None, kind: int) -> None:
    kept: Any = Kept()

    SendTrace(kept, lambda _: version).after(sent_context())

    assert kept.happenings[0].records[0].kind == kind


def test_a_message_that_says_so_is_consumed_without_a_record() -> None:
    kept: Any = Kept()
    hook = ConsumeTrace(kept)
    queue = QueueRef("t", "broker-a", 0)
    host = Host(bytes(4), 1)

    def message(**properties: str) -> ReceivedMessage:
        offset, log = QueueOffset(0), LogOffset(0)
        return ReceivedMessage(
            "t", "broker-a", 0, offset, log, b"", properties, 0, 0, 0, host, 0, host, 0, log, 0
        )

    for messages in [
        (message(UNIQ_KEY="1", TRACE_ON="false"),),
        (message(UNIQ_KEY="2", TRACE_ON="false"), message(UNIQ_KEY="3"), message(UNIQ_KEY="4")),
    ]:
        context = ConsumeContext("g", "", queue, messages, 0, ReturnKind.TIME_OUT, spent_ms=30)
        hook.before(context)
        hook.after(context)

    before, after = kept.happenings
    assert [each.message_id for each in before.records] == ["3", "4"]
    assert [(each.spent_ms, each.success) for each in after.records] == [(10, True)] * 2


# The collector


class Slow:
    """A producer whose sends end when told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.messages: list[Message] = []
        self.go = asyncio.Event()
        self.error = error

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def send(self, message: Message, *, timeout_ms: int) -> SendReceipt:
        self.messages.append(message)
        await self.go.wait()
        if self.error is not None:
            raise self.error
        queue = QueueRef("traces", "broker-a", 0)
        return SendReceipt(SendStatus.OK, "", "", queue, QueueOffset(0))


def one(number: int, count: int = 1, *, id_length: int = 0) -> Happening:
    record = Consuming(0, "r", "g", "q", f"id{number}".rjust(id_length, "0"), 0, None)
    return Happening("t", "r", (record,) * count)


def counts(sender: Slow) -> list[int]:
    return [len(read_trace(each.body.decode()).records) for each in sender.messages]


def zip_counts(sender: Slow) -> zip[tuple[Message, int]]:
    return zip(sender.messages, counts(sender), strict=True)


def test_ten_are_sent_at_once_and_fewer_wait_for_the_clock() -> None:
    async def main() -> None:
        patient, hasty = Slow(), Slow()
        patient.go.set()
        hasty.go.set()
        tracer = Tracer("traces", patient, EventLog(lambda: 0), interval_ms=3_600_000)
        other = Tracer("traces", hasty, EventLog(lambda: 0), interval_ms=1)
        await tracer.start()
        await other.start()
        for number in range(9):
            tracer.add(one(number))
        other.add(one(0))
        await until(lambda: counts(hasty) == [1])
        assert not patient.messages
        tracer.add(one(9))
        await until(lambda: counts(patient) == [10])
        tracer.add(one(10))
        await tracer.stop()
        await other.stop()
        assert counts(patient) == [10, 1]
        assert tracer.dropped_count == 0

    run(main())


def test_a_message_takes_all_that_fits_and_no_more_than_its_keys() -> None:
    async def main() -> None:
        sender = Slow()
        tracer = Tracer("traces", sender, EventLog(lambda: 0))
        await tracer.start()
        for number in range(600):
            tracer.add(one(number, id_length=32))
        sender.go.set()
        await tracer.stop()
        assert counts(sender) == [BATCH_RECORDS, BATCH_RECORDS, 600 - 2 * BATCH_RECORDS]
        assert all(len(set(each.keys)) == count for each, count in zip_counts(sender))

    run(main())


def test_a_burst_of_sends_is_traced_to_the_last(broker: EmbeddedBroker) -> None:
    count = 3_000
    create_topic(broker, "burst")

    async def main() -> set[str]:
        async with aio.Producer("bursting", namesrv=broker.namesrv, trace_topic="of-burst") as shop:
            sends = (shop.send(Message("burst", b"x"), timeout_ms=60_000) for _ in range(count))
            receipts = await asyncio.gather(*sends)
        assert shop.events("trace") == []
        return {receipt.message_id for receipt in receipts}

    sent = run(main())
    traces = stored(broker, "of-burst")
    found = {each.message_id for t in traces for each in read_trace(t.body.decode()).records}
    assert found == sent


def test_what_finds_no_room_is_dropped_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 3_000
    monkeypatch.setattr(trace, "RECORDS_MAX", limit)

    async def main() -> None:
        events = EventLog(lambda: 0)
        sender = Slow()
        tracer = Tracer("traces", sender, events)
        await tracer.start()
        for number in range(limit + 7):
            tracer.add(one(number))
        assert tracer.dropped_count == 7
        await until(lambda: len(sender.messages) == trace.SENDS_MAX)
        sender.go.set()
        await until(lambda: len(events) == 1)
        await tracer.stop()
        (event,) = events.latest(kind="trace")
        assert event.subject == "traces"
        assert event.text == f"7 trace records were dropped: {limit} wait already"
        assert sum(counts(sender)) == limit

    run(main())


def test_large_batches_find_no_room_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "STOP_S", 60)  # all of them are sent before it stops

    async def main() -> None:
        sender = Slow()
        sender.go.set()
        tracer = Tracer("traces", sender, EventLog(lambda: 0))
        await tracer.start()
        tracer.add(one(0, RECORDS_MAX))
        tracer.add(one(1))
        assert tracer.dropped_count == 1
        await tracer.stop()
        tracer.add(one(2))
        assert sum(counts(sender)) == RECORDS_MAX

    run(main())


def test_a_trace_that_cannot_be_stored_is_an_event_and_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(error: Exception) -> str:
        events = EventLog(lambda: 0)
        sender = Slow(error)
        sender.go.set()
        tracer = Tracer("traces", sender, events)
        await tracer.start()
        tracer.add(one(0, 3))
        await tracer.stop()
        await tracer.stop()
        return events.latest(kind="trace")[0].text

    assert run(main(Unreachable("a:1", "gone"))).startswith("3 trace records were dropped: ")
    with caplog.at_level(logging.CRITICAL):
        assert "TypeError" in run(main(TypeError("a bug")))


def test_a_stop_does_not_wait_for_a_broker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "STOP_S", 0.05)

    async def main() -> None:
        events = EventLog(lambda: 0)
        sender = Slow()
        tracer = Tracer("traces", sender, events)
        await tracer.start()
        for number in range(3_000):
            tracer.add(one(number))
        await until(lambda: len(sender.messages) == trace.SENDS_MAX)
        await tracer.stop()
        assert tracer.dropped_count == 3_000
        assert "3000 trace records" in events.latest()[0].text

    run(main())


def test_work_goes_on_where_there_is_no_trace_topic() -> None:
    with EmbeddedBroker(config=BrokerConfig(auto_create_topic=False)) as servers:
        create_topic(servers, "plain")
        with Producer("shop", namesrv=servers.namesrv, trace=True) as producer:
            for _ in range(25):
                producer.send(Message("plain", b"x"))
        assert len(stored(servers, "plain")) == 25
        events = producer.events("trace")
    assert sum(int(each.text.split()[0]) for each in events) == 25
    assert "create the topic first" in events[0].text


# Send hooks


class Watch:
    """A hook that keeps what it saw."""

    def __init__(self) -> None:
        self.told: list[tuple[str, SendContext]] = []

    def before(self, context: SendContext) -> None:
        assert (context.receipt, context.error) == (None, None)
        context.properties["kept"] = len(self.told)
        self.told.append(("before", context))

    def after(self, context: SendContext) -> None:
        assert self.told[context.properties["kept"]] == ("before", context)
        self.told.append(("after", context))

    @property
    def ends(self) -> list[SendContext]:
        return [context for when, context in self.told if when == "after"]


class Broken:
    def before(self, context: SendContext) -> None:
        raise ValueError("before")

    def after(self, context: SendContext) -> None:
        raise ValueError("after")


def test_hooks_see_every_send_and_one_that_raises_changes_nothing(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch()
    hooks = (Broken(), watch)
    with Producer("shop", namesrv=broker.namesrv, namespace="ns", send_hooks=hooks) as producer:
        message = Message("hooked", b"x")
        receipt = producer.send(message)
        batch = producer.send_batch([message, message])
        producer.send_oneway(message)
        with pytest.raises(BrokerRefused) as caught:
            producer.send(message, queue=QueueRef("hooked", "broker-a", 99))

    sent, many, told, refused = watch.ends
    assert (sent.group, sent.namespace, sent.message) == ("shop", "ns", message)
    assert (sent.queue, sent.address) == (receipt.queue, broker.brokers[0])
    assert (sent.receipt, sent.error) == (receipt, None)
    assert sent.spent_ms >= 0
    assert many.receipts == batch
    assert (told.receipts, told.error) == ((), None)
    assert isinstance(refused.error, BrokerRefused)
    assert refused.error.code == caught.value.code
    assert [record.getMessage()[:8] for record in caplog.records].count("the hook") == 8


def test_hooks_see_each_try(two_brokers: EmbeddedBroker) -> None:
    create_topic(two_brokers, "tried")
    watch = Watch()
    with Producer("shop", namesrv=two_brokers.namesrv, send_hooks=(watch,)) as producer:
        producer.send(Message("tried", b"x"))
        del watch.told[:]
        two_brokers.stop_broker("broker-b")
        receipts = [producer.send(Message("tried", b"x"), timeout_ms=9_000) for _ in range(8)]

    failed = [each for each in watch.ends if each.error is not None]
    assert failed
    assert {each.queue.broker for each in failed} == {"broker-b"}
    assert [each.receipt for each in watch.ends if each.error is None] == receipts


def test_a_send_that_is_given_up_ends_for_its_hooks_too(broker: EmbeddedBroker) -> None:
    class Cancelling(Watch):
        def before(self, context: SendContext) -> None:
            super().before(context)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    watch = Cancelling()

    async def main() -> None:
        async with aio.Producer("shop", namesrv=broker.namesrv, send_hooks=(watch,)) as producer:
            task = asyncio.create_task(producer.send(Message("given-up", b"x")))
            with suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()

    run(main())
    (context,) = watch.ends
    assert isinstance(context.error, asyncio.CancelledError)


def test_a_topic_that_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(InvalidName):
        Producer("shop", trace_topic="no spaces")
    with pytest.raises(InvalidName):
        PushConsumer("shop", trace_topic="no spaces")
    with pytest.raises(InvalidName):
        LitePullConsumer("shop", trace_topic="no spaces")
