"""Spans of sends and listeners belong together, on threads and asyncio, by the conventions."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flintmq import Message, aio
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import BodyTooLarge, MissingExtra
from flintmq.model.message import ReceivedMessage
from flintmq.otel import OpenTelemetry

TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]")
JAVAS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""What an instrumented Java producer writes into the property ``traceparent``."""


class Traces:
    """Telemetry, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = OpenTelemetry(provider)
        self.tracer = provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def context_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def consume(
    broker: EmbeddedBroker, traces: Traces, topic: str, spans: int, batch_max: int = 1
) -> None:
    """Let a group consume a topic until so many spans of listeners ended."""

    def listen(messages: Sequence[ReceivedMessage]) -> None:
        assert trace.get_current_span().get_span_context().is_valid

    with broker.push_consumer(
        f"g-{topic}",
        listen,
        start_from="first",
        consume_hooks=(traces.telemetry,),
        batch_max=batch_max,
    ).subscribe(topic):
        broker.wait_for(lambda: len(traces.named(f"process {topic}")) >= spans, 60)


def test_a_listener_runs_in_a_child_of_the_span_that_sent(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    with (
        traces.telemetry.producer(broker.producer("shop")) as producer,
        traces.tracer.start_as_current_span("order") as outer,
    ):
        receipt = producer.send(Message("single", b"x", tags="paid", keys=["o-1"]))
    consume(broker, traces, "single", 1)

    (sent,) = traces.named("send single")
    (processed,) = traces.named("process single")
    assert parent_of(sent) == (outer.get_span_context().trace_id, outer.get_span_context().span_id)
    assert parent_of(processed) == context_of(sent)
    assert (sent.kind, processed.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    told = attributes(sent)
    assert told["messaging.system"] == "rocketmq"
    assert told["messaging.operation.name"] == told["messaging.operation.type"] == "send"
    assert told["messaging.destination.name"] == "single"
    assert told["messaging.message.id"] == receipt.message_id
    assert told["messaging.rocketmq.message.type"] == "normal"
    assert told["messaging.rocketmq.message.tag"] == "paid"
    assert told["messaging.rocketmq.message.keys"] == ("o-1",)
    assert told["messaging.rocketmq.namespace"] == ""
    heard = attributes(processed)
    assert heard["messaging.operation.type"] == "process"
    assert heard["messaging.consumer.group.name"] == "g-single"
    assert heard["messaging.message.id"] == receipt.message_id
    assert str(heard["messaging.destination.partition.id"]).startswith("broker-a:")


def test_the_context_is_an_ordinary_property_as_javas_is(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    with traces.telemetry.producer(broker.producer("shop")) as producer:
        producer.send(Message("carried", b"x"))

    (message,) = broker.messages("carried")
    (sent,) = traces.named("send carried")
    carried = message.properties["traceparent"]
    assert TRACEPARENT.fullmatch(carried)
    trace_id, span_id = context_of(sent)
    assert carried.split("-")[1:3] == [f"{trace_id:032x}", f"{span_id:016x}"]


def test_a_message_of_an_instrumented_java_producer_is_the_parent(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    with broker.producer("java") as producer:
        producer.send(Message("java", b"x", properties={"traceparent": JAVAS}))
    consume(broker, traces, "java", 1)

    (processed,) = traces.named("process java")
    assert parent_of(processed) == (int(JAVAS.split("-")[1], 16), int(JAVAS.split("-")[2], 16))


def test_a_message_that_has_a_context_keeps_it(broker: EmbeddedBroker, traces: Traces) -> None:
    with traces.telemetry.producer(broker.producer("shop")) as producer:
        producer.send(Message("kept", b"x", properties={"traceparent": JAVAS}))

    assert broker.messages("kept")[0].properties["traceparent"] == JAVAS


def test_a_batch_has_a_context_for_each_message_and_links_on_both_sides(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    with broker.admin() as admin:
        admin.create_topic("batch", queues=1)
    with traces.telemetry.producer(broker.producer("shop")) as producer:
        producer.send_batch([Message("batch", b"x") for _ in range(3)])
    consume(broker, traces, "batch", 1, batch_max=8)

    created = {context_of(span) for span in traces.named("create batch")}
    (sent,) = traces.named("send batch")
    processed = traces.named("process batch")
    assert len(created) == 3
    assert {(link.context.trace_id, link.context.span_id) for link in sent.links} == created
    assert attributes(sent)["messaging.batch.message_count"] == 3
    heard = {
        (link.context.trace_id, link.context.span_id) for span in processed for link in span.links
    } | {parent for span in processed if (parent := parent_of(span)) is not None}
    assert heard == created


def test_a_listener_that_fails_is_an_error_of_its_span(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    def fail(_messages: object) -> None:
        raise LookupError("no such order")

    with broker.producer("shop") as producer:
        producer.send(Message("failing", b"x"))
    with broker.push_consumer(
        "g-failing", fail, start_from="first", consume_hooks=(traces.telemetry,)
    ).subscribe("failing"):
        broker.wait_for(lambda: traces.named("process failing"), 60)

    span = traces.named("process failing")[0]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert attributes(span)["error.type"] == "LookupError"


def test_a_send_that_fails_is_an_error_and_is_raised(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    with (
        traces.telemetry.producer(broker.producer("shop", message_bytes_max=10)) as producer,
        pytest.raises(BodyTooLarge),
    ):
        producer.send(Message("refused", b"x" * 100))

    (span,) = traces.named("send refused")
    assert span.status.status_code is trace.StatusCode.ERROR
    assert attributes(span)["error.type"] == "BodyTooLarge"


def test_send_async_ends_its_span_with_the_future(broker: EmbeddedBroker, traces: Traces) -> None:
    with traces.telemetry.producer(broker.producer("shop")) as producer:
        receipt = producer.send_async(Message("later", b"x")).result(60)
        broker.wait_for(lambda: traces.named("send later"), 60)

    (span,) = traces.named("send later")
    assert attributes(span)["messaging.message.id"] == receipt.message_id


def test_the_same_on_asyncio(broker: EmbeddedBroker, traces: Traces) -> None:
    current = []

    async def listen(_messages: object) -> None:
        await asyncio.sleep(0)
        current.append(trace.get_current_span().get_span_context().span_id)

    async def run() -> None:
        async with traces.telemetry.producer(
            aio.Producer("shop", namesrv=broker.namesrv)
        ) as producer:
            with traces.tracer.start_as_current_span("outer"):
                await producer.send(Message("async", b"1"))
                await (await producer.send_async(Message("async", b"2")))
        consumer = aio.PushConsumer(
            "g-async",
            listen,
            namesrv=broker.namesrv,
            start_from="first",
            consume_hooks=(traces.telemetry,),
        ).subscribe("async")
        async with consumer, asyncio.timeout(60):
            while len(traces.named("process async")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(run())

    (outer,) = traces.named("outer")
    sent = traces.named("send async")
    processed = traces.named("process async")
    assert {parent_of(span) for span in sent} == {context_of(outer)}
    assert {parent_of(span) for span in processed} == {context_of(span) for span in sent}
    assert set(current) == {context_of(span)[1] for span in processed}


def test_what_no_property_can_hold_is_left_out(
    broker: EmbeddedBroker, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inject(carrier: dict[str, str], _context: object) -> None:
        carrier["good"] = "1"
        carrier["bad"] = "a\x01b"

    monkeypatch.setattr("opentelemetry.propagate.inject", inject)
    with traces.telemetry.producer(broker.producer("shop")) as producer:
        producer.send(Message("odd", b"x"))

    properties = broker.messages("odd")[0].properties
    assert properties["good"] == "1"
    assert "bad" not in properties


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("flintmq.otel")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    with pytest.raises(MissingExtra, match=r"pip install 'flintmq\[otel\]'"):
        import flintmq.otel  # noqa: F401
