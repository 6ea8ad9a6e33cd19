"""OpenTelemetry traces of sends and of listeners, by the conventions for messaging.

    telemetry = OpenTelemetry()
    with telemetry.producer(Producer("shop", namesrv=…)) as producer:
        producer.send(Message("orders", b"…"))
    PushConsumer("billing", listen, consume_hooks=(telemetry,), namesrv=…)

    span "send orders" ─► property traceparent ─► broker ─► listener in span "process orders"

The context travels in the properties of a message, under the names of the propagator that is set,
as with the instrumentations of RocketMQ's Java clients: either end may be Java.  A listener of one
message runs in a child of the span that sent it; a batch has one span with a link to each.

It needs opentelemetry-api: ``pip install 'flintmq[otel]'``.  Without an SDK nothing is recorded.

Invariant: a message that has a context keeps it; telemetry never makes a send or a listener fail.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.core.producer.receipt import SendReceipt
from flintmq.errors import MissingExtra
from flintmq.model import properties as names
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import QueueRef

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError:
    raise MissingExtra("opentelemetry-api", "otel") from None

SCOPE: Final = "flintmq"
_KEPT: Final = "flintmq.otel"
"""Where the span of a listener is kept between the two calls of the hook."""

_FORBIDDEN: Final = frozenset("\x01\x02")
"""What no property may hold: RocketMQ separates properties with these."""

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
NAMESPACE: Final = "messaging.rocketmq.namespace"
GROUP: Final = "messaging.consumer.group.name"
MODEL: Final = "messaging.rocketmq.consumption_model"
MESSAGE_TYPE: Final = "messaging.rocketmq.message.type"
TAG: Final = "messaging.rocketmq.message.tag"
KEYS: Final = "messaging.rocketmq.message.keys"
FIFO_GROUP: Final = "messaging.rocketmq.message.group"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
DELIVER_AT: Final = "messaging.rocketmq.message.delivery_timestamp"
MESSAGE_ID: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"
CLIENT_ID: Final = "messaging.client.id"
ERROR: Final = "error.type"


class OpenTelemetry:
    """Makes spans.  It is a consume hook; `producer` is for the other side.

    ``tracer_provider`` is the global one unless one is given.
    """

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)

    def __reduce__(self) -> tuple[type[OpenTelemetry], tuple[()]]:
        """In another process, a task of Spark, it uses the provider that is set there."""
        return OpenTelemetry, ()

    def producer(self, producer: Any) -> TracedProducer:
        """A producer, threaded or of `flintmq.aio`, whose sends have spans."""
        return TracedProducer(producer, self)

    # Sending

    def begin_send(self, message: Message, sharding_key: str | None = None) -> SendSpan:
        """Begin the span of a send, on the thread or task that sends."""
        attributes = {**_of_message(message, sharding_key), **_operation("send", "send")}
        span = self._tracer.start_span(
            f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        return SendSpan(span, [_carrying(message, span)])

    def begin_batch(self, messages: Sequence[Message]) -> SendSpan:
        """The same for a batch: each message has a context of its own, and the send links to it."""
        carrying, links = [], []
        for message in messages:
            created = self._tracer.start_span(
                f"create {message.topic}",
                kind=SpanKind.PRODUCER,
                attributes={**_of_message(message), **_operation("create", "create")},
            )
            created.end()
            carrying.append(_carrying(message, created))
            links.append(Link(created.get_span_context()))
        topic = messages[0].topic if messages else ""
        span = self._tracer.start_span(
            f"send {topic}",
            kind=SpanKind.CLIENT,
            links=links,
            attributes={
                SYSTEM: "rocketmq",
                DESTINATION: topic,
                NAMESPACE: "",
                COUNT: len(messages),
                **_operation("send", "send"),
            },
        )
        return SendSpan(span, carrying)

    # Listeners

    def before(self, context: ConsumeContext) -> None:
        """A listener begins: it runs in the span that is made here."""
        messages = context.messages
        parents = [propagate.extract(message.properties) for message in messages]
        found = [trace.get_current_span(each).get_span_context() for each in parents]
        links = [Link(each) for each in found if each.is_valid]
        attributes: dict[str, Any] = {
            SYSTEM: "rocketmq",
            DESTINATION: messages[0].topic,
            NAMESPACE: context.namespace,
            GROUP: context.group,
            PARTITION: _partition(context.queue),
            **_operation("process", "process"),
        }
        parent = None
        if len(messages) == 1:
            parent, links = parents[0], []
            attributes |= _of_received(messages[0])
        else:
            attributes[COUNT] = len(messages)
        span = self._tracer.start_span(
            f"process {messages[0].topic}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=links,
            attributes=attributes,
        )
        token = contexts.attach(trace.set_span_in_context(span, parent))
        context.properties[_KEPT] = span, token

    def after(self, context: ConsumeContext) -> None:
        """A listener ended."""
        kept = context.properties.pop(_KEPT, None)
        if kept is None:
            return
        span, token = kept
        contexts.detach(token)
        if context.error is not None:
            _fail(span, context.error)
        elif not context.success and context.kind is not None:
            span.set_attribute(ERROR, context.kind.name)
            span.set_status(Status(StatusCode.ERROR, context.status))
        span.end()


class SendSpan:
    """One send: the messages that carry its context, and its end."""

    def __init__(self, span: Span, messages: Sequence[Message]) -> None:
        self.messages = messages
        self._span = span

    def ended(self, outcome: object) -> None:
        """How it ended: receipts, one receipt, an error, or None for a oneway send."""
        if isinstance(outcome, BaseException):
            _fail(self._span, outcome)
        elif isinstance(outcome, SendReceipt):
            self._span.set_attribute(MESSAGE_ID, outcome.message_id)
            self._span.set_attribute(PARTITION, _partition(outcome.queue))
        self._span.end()

    def landed(self, future: Any) -> None:
        """The same as the callback of a future, of threads or of asyncio."""
        self.ended(future.exception() or future.result())


class TracedProducer:
    """A producer whose sends have spans; everything else is the producer's own."""

    def __init__(self, producer: Any, telemetry: OpenTelemetry) -> None:
        self._producer = producer
        self._telemetry = telemetry
        self._is_async = inspect.iscoroutinefunction(producer.send)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send(self, message: Message, **options: Any) -> Any:
        """`Producer.send` in a span."""
        return self._one(self._producer.send, message, options)

    def send_oneway(self, message: Message, **options: Any) -> Any:
        """`Producer.send_oneway` in a span."""
        return self._one(self._producer.send_oneway, message, options)

    def request(self, message: Message, **options: Any) -> Any:
        """`Producer.request` in a span, which ends with the reply."""
        return self._one(self._producer.request, message, options)

    def send_batch(self, messages: Iterable[Message], **options: Any) -> Any:
        """`Producer.send_batch` in a span, with a context for each message."""
        span = self._telemetry.begin_batch(list(messages))
        return self._run(self._producer.send_batch, span, span.messages, options)

    def send_async(self, message: Message, **options: Any) -> Any:
        """`Producer.send_async` in a span, which ends with its future."""
        span = self._telemetry.begin_send(message, options.get("sharding_key"))
        if self._is_async:
            return self._start(span, options)
        try:
            future = self._producer.send_async(*span.messages, **options)
        except BaseException as error:
            span.ended(error)
            raise
        future.add_done_callback(span.landed)
        return future

    def _one(self, send: Any, message: Message, options: dict[str, Any]) -> Any:
        span = self._telemetry.begin_send(message, options.get("sharding_key"))
        return self._run(send, span, span.messages[0], options)

    def _run(self, send: Any, span: SendSpan, what: object, options: dict[str, Any]) -> Any:
        if self._is_async:
            return self._awaited(send, span, what, options)
        try:
            outcome = send(what, **options)
        except BaseException as error:
            span.ended(error)
            raise
        span.ended(outcome)
        return outcome

    async def _awaited(
        self, send: Any, span: SendSpan, what: object, options: dict[str, Any]
    ) -> Any:
        try:
            outcome = await send(what, **options)
        except BaseException as error:
            span.ended(error)
            raise
        span.ended(outcome)
        return outcome

    async def _start(self, span: SendSpan, options: dict[str, Any]) -> Any:
        try:
            future = await self._producer.send_async(*span.messages, **options)
        except BaseException as error:
            span.ended(error)
            raise
        future.add_done_callback(span.landed)
        return future

    def __enter__(self) -> Self:
        self._producer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._producer.__aexit__(kind, error, traceback)


def _carrying(message: Message, span: Span) -> Message:
    """The message with the context of a span among its properties, unless it has one already."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    found = {name: text for name, text in carrier.items() if _FORBIDDEN.isdisjoint(name + text)}
    if not found or not found.keys().isdisjoint(message.properties):
        return message
    return replace(message, properties={**message.properties, **found})


def _of_message(message: Message, sharding_key: str | None = None) -> dict[str, Any]:
    kind = "normal"
    more: dict[str, Any] = {}
    if message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None:
        kind = "delay"
        if message.delay_level:
            more[DELAY_LEVEL] = message.delay_level
        if message.deliver_at_ms is not None:
            more[DELIVER_AT] = message.deliver_at_ms
    elif sharding_key is not None:
        kind = "fifo"
        more[FIFO_GROUP] = sharding_key
    if message.tags:
        more[TAG] = message.tags
    if message.keys:
        more[KEYS] = list(message.keys)
    return {
        SYSTEM: "rocketmq",
        DESTINATION: message.topic,
        NAMESPACE: "",
        MESSAGE_TYPE: kind,
        **more,
    }


def _of_received(message: ReceivedMessage) -> dict[str, Any]:
    more: dict[str, Any] = {MESSAGE_ID: message.message_id}
    if message.tags:
        more[TAG] = message.tags
    if message.keys:
        more[KEYS] = list(message.keys)
    key = message.properties.get(names.SHARDING_KEY)
    if key is not None:
        more[FIFO_GROUP] = key
    return more


def _operation(name: str, kind: str) -> dict[str, str]:
    return {OPERATION: name, OPERATION_TYPE: kind}


def _partition(queue: QueueRef) -> str:
    return f"{queue.broker}:{queue.queue_id}"


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))
