"""A trace that a Java producer begins goes on in a listener on Spark and in a second topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.otel import OpenTelemetry
from support.interop.javaclient import NEW, OLD
from support.interop.jvm import JAVA_SOURCES, compile_java, fetched, jars, run_java
from support.spark.spans import gather, is_child, one, passing_on, provider_into
from support.spark.support import create_topic, run_to_end, session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

INSTRUMENTATION = (
    ("io.opentelemetry.instrumentation", "opentelemetry-rocketmq-client-4.8", "2.10.0-alpha"),
    ("io.opentelemetry", "opentelemetry-sdk", "1.44.1"),
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def send_from_java(version: str, namesrv: str, topic: str) -> str:
    """Send one message with OpenTelemetry's own hook; the trace it belongs to."""
    found = [jars(["client"], version), fetched("opentelemetry/2.10.0", INSTRUMENTATION)]
    classes = compile_java([JAVA_SOURCES / "TracedSend.java"], found)
    printed = run_java("TracedSend", [namesrv, topic], [*found, classes])
    (line,) = [each for each in printed.splitlines() if each.startswith("TRACE ")]
    return line.removeprefix("TRACE ")


@pytest.mark.parametrize("version", [OLD, NEW])
def test_javas_trace_goes_through_spark(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, version: str
) -> None:
    name = version.replace(".", "-")
    source = create_topic(broker, f"java-in-{name}", 1)
    target = create_topic(broker, f"java-out-{name}", 1)
    trace = send_from_java(version, broker.namesrv, source)

    file, exporter = tmp_path / "spans", InMemorySpanExporter()
    app = passing_on(broker.namesrv, source, target, OpenTelemetry(setup=provider_into(file)))
    run_to_end(app, spark)
    gather(file, exporter)

    processed, sent = one(exporter, f"process {source}"), one(exporter, f"send {target}")
    (stored,) = broker.messages(source)
    (passed_on,) = broker.messages(target)
    _, java_trace, java_span, _ = stored.properties["traceparent"].split("-")
    assert java_trace == trace
    assert processed.parent is not None
    assert (processed.parent.trace_id, processed.parent.span_id) == (
        int(trace, 16),
        int(java_span, 16),
    )
    assert is_child(sent, processed)
    assert passed_on.properties["traceparent"].split("-")[1] == trace
