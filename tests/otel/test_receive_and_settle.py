"""Pulls, polls, commits and messages sent back have spans, linked to those that sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from flintmq import DeadLetter, LitePullConsumer, Message, PullConsumer, aio
from flintmq.client.hooks.receive_hooks import SettleContext
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import FlintError, InvalidSetting
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.otel import OpenTelemetry
from otel.test_traces import Traces, attributes, context_of, parent_of

CLIENT = trace.SpanKind.CLIENT


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def send(broker: EmbeddedBroker, traces: Traces, topic: str, count: int) -> list[ReadableSpan]:
    """Messages in one queue, and the spans that sent them."""
    with broker.admin() as admin:
        admin.create_topic(topic, queues=1)
    with traces.telemetry.producer(broker.producer("shop")) as producer:
        for number in range(count):
            producer.send(Message(topic, b"%d" % number))
    return traces.named(f"send {topic}")


def links_of(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(each.context.trace_id, each.context.span_id) for each in span.links]


def test_a_pull_a_commit_and_a_message_sent_back(broker: EmbeddedBroker, traces: Traces) -> None:
    sent = send(broker, traces, "pulled", 3)
    queue = QueueRef("pulled", "broker-a", 0)
    hooks = (traces.telemetry,)
    with (
        PullConsumer("audit", namesrv=broker.namesrv, consume_hooks=hooks) as consumer,
        traces.tracer.start_as_current_span("work") as work,
    ):
        result = consumer.pull(queue, 0)
        with traces.telemetry.processing(result.messages[:1], group="audit"):
            consumer.send_back(result.messages[0])
        consumer.commit(queue, result.next_offset)
        nothing = consumer.pull(queue, result.next_offset)

    assert nothing.messages == ()
    (received,) = traces.named("receive pulled")
    (processed,) = traces.named("process pulled")
    (back,) = traces.named("send_back pulled")
    (committed,) = traces.named("commit pulled")
    at_work = (work.get_span_context().trace_id, work.get_span_context().span_id)
    assert links_of(received) == [context_of(each) for each in sent]
    assert (received.kind, back.kind, committed.kind) == (CLIENT, CLIENT, CLIENT)
    assert parent_of(received) == parent_of(committed) == at_work
    assert parent_of(processed) == context_of(sent[0])
    assert parent_of(back) == context_of(processed)
    assert links_of(back) == [context_of(sent[0])]
    told = attributes(received)
    assert told["messaging.operation.name"] == told["messaging.operation.type"] == "receive"
    assert told["messaging.consumer.group.name"] == "audit"
    assert told["messaging.batch.message_count"] == 3
    assert told["messaging.destination.partition.id"] == "broker-a:0"
    assert attributes(committed)["messaging.operation.type"] == "settle"
    assert received.start_time is not None
    assert received.end_time is not None
    assert received.start_time < received.end_time


def test_polls_of_a_lite_pull_consumer_have_spans_on_threads_and_asyncio(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    sent = send(broker, traces, "polled", 2)
    links = [context_of(each) for each in sent]
    seen: dict[str, Any] = {
        "consume_hooks": (traces.telemetry,),
        "start_from": "first",
        "auto_commit": False,
    }

    def on_thread() -> None:
        with LitePullConsumer("threads", namesrv=broker.namesrv, **seen) as consumer:
            consumer.subscribe("polled")
            got: list[ReceivedMessage] = []
            while len(got) < 2:
                got += consumer.poll()
            consumer.commit()

    async def on_loop() -> None:
        async with aio.LitePullConsumer("loop", namesrv=broker.namesrv, **seen) as consumer:
            consumer.subscribe("polled")
            got: list[ReceivedMessage] = []
            while len(got) < 2:
                got += await consumer.poll()
            await consumer.commit()

    on_thread()
    asyncio.run(on_loop())

    for group in ("threads", "loop"):
        received = [
            each
            for each in traces.named("receive polled")
            if attributes(each)["messaging.consumer.group.name"] == group
        ]
        assert [link for each in received for link in links_of(each)] == links
    groups = {
        str(attributes(each)["messaging.consumer.group.name"])
        for each in traces.named("commit polled")
    }
    assert groups == {"threads", "loop"}


def test_a_push_consumer_receives_commits_and_gives_up(
    broker: EmbeddedBroker, traces: Traces
) -> None:
    (sent,) = send(broker, traces, "pushed", 1)

    def refuse(messages: Sequence[ReceivedMessage]) -> None:
        raise DeadLetter("no order")

    with broker.push_consumer(
        "g-pushed", refuse, start_from="first", consume_hooks=(traces.telemetry,)
    ).subscribe("pushed"):
        broker.wait_for(lambda: bool(traces.named("dead_letter pushed")), 60)

    (received,) = traces.named("receive pushed")
    (given_up,) = traces.named("dead_letter pushed")
    assert links_of(received) == links_of(given_up) == [context_of(sent)]
    assert attributes(given_up)["messaging.operation.type"] == "settle"
    broker.wait_for(lambda: bool(traces.named("commit pushed")), 60)


def test_a_pull_that_fails_is_a_span_with_its_error(traces: Traces) -> None:
    with (
        EmbeddedBroker() as broker,
        PullConsumer("audit", namesrv=broker.namesrv, consume_hooks=(traces.telemetry,)) as pulling,
    ):
        with broker.admin() as admin:
            admin.create_topic("lost", queues=1)
        with pytest.raises(FlintError) as caught:
            pulling.pull(QueueRef("lost", "no-such-broker", 0), 0)

    (failed,) = traces.named("receive lost")
    assert attributes(failed)["error.type"] == type(caught.value).__qualname__


def test_a_hook_that_raises_changes_nothing(broker: EmbeddedBroker) -> None:
    class Broken:
        def received(self, context: object) -> None:
            raise RuntimeError("received")

        def settled(self, context: SettleContext) -> None:
            raise RuntimeError("settled")

    send(broker, Traces(), "broken", 1)
    queue = QueueRef("broken", "broker-a", 0)
    with PullConsumer("b", namesrv=broker.namesrv, consume_hooks=(Broken(),)) as consumer:
        result = consumer.pull(queue, 0)
        consumer.commit(queue, result.next_offset)

        assert consumer.committed(queue, from_store=True) == 1


def test_a_provider_is_set_up_once_in_a_process(traces: Traces) -> None:
    made = []

    def provider() -> TracerProvider:
        made.append(TracerProvider())
        return made[-1]

    telemetry = OpenTelemetry(setup=provider)
    remake, arguments = telemetry.__reduce__()

    assert made == []
    for each in (telemetry, remake(*arguments)):
        each.begin_send(Message("t", b"x")).ended(None)
        each.flush()
    assert len(made) == 1
    with pytest.raises(InvalidSetting):
        OpenTelemetry(TracerProvider(), setup=provider)


def test_functions_that_differ_in_their_values_make_providers_of_their_own() -> None:
    made: list[str] = []

    def named(place: str) -> TracerProvider:
        made.append(place)
        return TracerProvider()

    for place in ("a", "b", "a"):
        OpenTelemetry(setup=partial(named, place)).begin_send(Message("t", b"x")).ended(None)

    assert made == ["a", "b"]
