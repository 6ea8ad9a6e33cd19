"""Spans of several processes in one in-memory exporter: tasks of Spark write theirs to a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, TraceFlags

from flintmq import App, Message, Producer
from flintmq.otel import OpenTelemetry


class SpanFile(SpanExporter):
    """Appends each span as one line of JSON; the lines of several processes do not mix."""

    def __init__(self, path: str) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(self._path, "a", buffering=1) as file:  # noqa: PTH123  # it travels as a text
            file.writelines(json.dumps(json.loads(span.to_json())) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


def provider_into(path: Path) -> Callable[[], TracerProvider]:
    """What makes the provider of a task: its spans go to a file."""
    where = str(path)

    def provider() -> TracerProvider:
        made = TracerProvider()
        made.add_span_processor(SimpleSpanProcessor(SpanFile(where)))
        return made

    return provider


def passing_on(namesrv: str, source: str, target: str, telemetry: OpenTelemetry) -> App:
    """An app that sends what it gets to a second topic, with spans around both."""
    app = App(f"g-{source}", namesrv=namesrv, start_from="first", consume_hooks=(telemetry,))

    @app.listener(source)
    def pass_on(messages: Any) -> None:
        with telemetry.producer(Producer("task", namesrv=namesrv)) as producer:
            for message in messages:
                producer.send(Message(target, message.body))

    return app


def gather(path: Path, exporter: InMemorySpanExporter) -> None:
    """Hand the spans of tasks to the exporter of this process."""
    for line in path.read_text().splitlines():
        tree = json.loads(line)
        here = tree["context"]
        parent = tree["parent_id"]
        exporter.export(
            [
                ReadableSpan(
                    name=tree["name"],
                    context=_context(here["trace_id"], here["span_id"]),
                    parent=None if parent is None else _context(here["trace_id"], parent),
                    links=[
                        Link(_context(each["context"]["trace_id"], each["context"]["span_id"]))
                        for each in tree["links"]
                    ],
                    attributes=tree["attributes"],
                )
            ]
        )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(1)
    )


def one(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    """The one span of this name."""
    (found,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return found


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and (span.parent.trace_id, span.parent.span_id) == (
        parent.context.trace_id,
        parent.context.span_id,
    )
