"""One trace goes from a producer through a listener on Spark to a second topic and its consumer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from flintmq.otel import OpenTelemetry
from support.spark.spans import gather, is_child, one, passing_on, provider_into, trace_id
from support.spark.support import PATIENCE_S, create_topic, run_to_end


def accept(_messages: Sequence[ReceivedMessage]) -> None:
    """Consumes whatever comes."""


def test_a_trace_is_whole_from_end_to_end(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    here, file = OpenTelemetry(provider), tmp_path / "spans"
    source, target = create_topic(broker, "trace-in", 1), create_topic(broker, "trace-out", 1)
    with (
        here.producer(broker.producer("shop")) as producer,
        provider.get_tracer("shop").start_as_current_span("order"),
    ):
        producer.send(Message(source, b"o-1"))

    app = passing_on(broker.namesrv, source, target, OpenTelemetry(setup=provider_into(file)))
    run_to_end(app, spark)
    with broker.push_consumer("last", accept, start_from="first", consume_hooks=(here,)).subscribe(
        target
    ):
        broker.wait_for(
            lambda: any(span.name == f"process {target}" for span in exporter.get_finished_spans()),
            PATIENCE_S,
        )
    gather(file, exporter)

    chain = ["order", f"send {source}", f"process {source}", f"send {target}", f"process {target}"]
    spans = [one(exporter, name) for name in chain]
    assert {trace_id(span) for span in spans} == {trace_id(spans[0])}
    for parent, child in pairwise(spans):
        assert is_child(child, parent), f"{child.name} is no child of {parent.name}"
    received = one(exporter, f"receive {source}")
    assert [each.context.span_id for each in received.links] == [spans[1].context.span_id]
