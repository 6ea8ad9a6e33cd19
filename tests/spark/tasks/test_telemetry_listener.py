"""Telemetry travels to a task: one trace from a producer through a listener to a second topic."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flintmq import Message, Producer
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.otel import OpenTelemetry
from flintmq.spark.tasks.listener_task import listen
from flintmq.spark.tasks.packed_app import pack, read_program, unpack
from spark.tasks.test_listener_task import part_of
from support.spark.support import create_topic

JAVAS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""What an instrumented Java producer writes into the property ``traceparent``."""


def shop(broker: EmbeddedBroker, source: str, target: str) -> App:
    """An app that passes messages on to a second topic."""
    app = App(f"g-{source}", namesrv=broker.namesrv, consume_hooks=(OpenTelemetry(),))
    namesrv = broker.namesrv

    @app.listener(source)
    def pass_on(messages: Any) -> None:
        with OpenTelemetry().producer(Producer("task", namesrv=namesrv)) as producer:
            for message in messages:
                producer.send(Message(target, message.body))

    return app


def run_task(broker: EmbeddedBroker, app: App, topic: str) -> list[str]:
    """What a task does with the messages of queue 0: the app goes there as bytes."""
    program = unpack(pack(read_program(app)))
    return [
        row["outcome"]
        for batch in listen(program, part_of(broker, topic, 1, 0))
        for row in batch.to_pylist()
    ]


def send_from_java(broker: EmbeddedBroker, topic: str) -> None:
    create_topic(broker, topic, 1)
    with broker.producer("java") as producer:
        producer.send(Message(topic, b"o-1", properties={"traceparent": JAVAS}))


def ids(span: ReadableSpan) -> tuple[str, str, str]:
    """Trace, parent and own id."""
    assert span.context is not None
    assert span.parent is not None
    return (
        f"{span.context.trace_id:032x}",
        f"{span.parent.span_id:016x}",
        f"{span.context.span_id:016x}",
    )


def test_a_trace_goes_through_a_task_to_a_second_topic(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    send_from_java(broker, "traced-in")

    outcomes = run_task(broker, shop(broker, "traced-in", "traced-out"), "traced-in")

    assert outcomes == ["consumed"]
    received, sent, processed = exporter.get_finished_spans()
    assert (sent.name, processed.name) == ("send traced-out", "process traced-in")
    assert received.name == "receive traced-in"
    assert [each.context.trace_id for each in received.links] == [int(JAVAS.split("-")[1], 16)]
    _, java_trace, java_span, _ = JAVAS.split("-")
    trace_of_task, parent_of_task, task = ids(processed)
    assert (trace_of_task, parent_of_task) == (java_trace, java_span)
    assert ids(sent)[:2] == (java_trace, task)
    (passed_on,) = broker.messages("traced-out")
    assert passed_on.properties["traceparent"].split("-")[1:3] == [java_trace, ids(sent)[2]]


def test_without_an_sdk_in_the_task_the_context_is_passed_on(broker: EmbeddedBroker) -> None:
    send_from_java(broker, "bare-in")

    assert run_task(broker, shop(broker, "bare-in", "bare-out"), "bare-in") == ["consumed"]

    (passed_on,) = broker.messages("bare-out")
    assert passed_on.properties["traceparent"] == JAVAS
