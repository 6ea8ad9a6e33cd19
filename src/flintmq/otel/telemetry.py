"""OpenTelemetry traces of consumers and producers: the object that makes spans.

Invariant: telemetry never makes a send or a listener fail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.client.hooks.receive_hooks import ReceiveContext, SettleContext
from flintmq.errors import InvalidSetting
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.otel.conventions import (
    COUNT,
    DESTINATION,
    ERROR,
    GROUP,
    LINKS_MAX,
    NAMESPACE,
    PARTITION,
    SCOPE,
    SYSTEM,
    carrying,
    creation_contexts,
    fail_span,
    links_to,
    of_message,
    of_received,
    operation_of_span,
    partition_of,
)
from flintmq.otel.traced_producer import SendSpan, TracedProducer

_KEPT: Final = "flintmq.otel"
"""Where the span of a listener is kept between the two calls of the hook."""

Setup: TypeAlias = Callable[[], trace.TracerProvider]


class OpenTelemetry:
    """Makes spans.  It is a consume hook; `producer` is for the other side.

    ``tracer_provider`` is the global one unless one is given.  ``setup`` makes one, once in each
    process that uses this: in tasks of Spark, which are processes of their own.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        setup: Setup | None = None,
    ) -> None:
        if tracer_provider is not None and setup is not None:
            raise InvalidSetting("setup", repr(setup)[:80], "give a provider or setup, not both")
        self._provider = tracer_provider
        self._setup = setup
        self._made: trace.Tracer | None = None

    def __reduce__(self) -> tuple[Callable[[Setup | None], OpenTelemetry], tuple[Setup | None]]:
        """In another process it uses the provider that ``setup`` makes, or that is set there."""
        return _remade, (self._setup,)

    @property
    def _tracer(self) -> trace.Tracer:
        if self._made is None:
            if self._setup is not None:
                self._provider = _provider_of(self._setup)
            self._made = trace.get_tracer(SCOPE, tracer_provider=self._provider)
        return self._made

    def flush(self) -> None:
        """Export what ended, at the end of a task: its process may end at any time."""
        provider: Any = self._provider or trace.get_tracer_provider()
        if hasattr(provider, "force_flush"):
            provider.force_flush()

    def producer(self, producer: Any) -> TracedProducer:
        """A producer, threaded or of `flintmq.aio`, whose sends have spans."""
        return TracedProducer(producer, self)

    # Sending

    def begin_send(self, message: Message, sharding_key: str | None = None) -> SendSpan:
        """Begin the span of a send, on the thread or task that sends."""
        attributes = {**of_message(message, sharding_key), **operation_of_span("send", "send")}
        span = self._tracer.start_span(
            f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        return SendSpan(span, [carrying(message, span)])

    def begin_batch(self, messages: Sequence[Message]) -> SendSpan:
        """The same for a batch: each message has a context of its own, and the send links to it."""
        made, links = [], []
        for message in messages:
            created = self._tracer.start_span(
                f"create {message.topic}",
                kind=SpanKind.PRODUCER,
                attributes={**of_message(message), **operation_of_span("create", "create")},
            )
            created.end()
            made.append(carrying(message, created))
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
                **operation_of_span("send", "send"),
            },
        )
        return SendSpan(span, made)

    # Listeners

    def before(self, context: ConsumeContext) -> None:
        """A listener begins: it runs in the span that is made here."""
        messages = context.messages
        parents = creation_contexts(messages)
        links = links_to(parents)
        attributes: dict[str, Any] = {
            SYSTEM: "rocketmq",
            DESTINATION: messages[0].topic,
            NAMESPACE: context.namespace,
            GROUP: context.group,
            PARTITION: partition_of(context.queue),
            **operation_of_span("process", "process"),
        }
        parent = None
        if len(messages) == 1:
            parent, links = parents[0], []
            attributes |= of_received(messages[0])
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
            fail_span(span, context.error)
        elif not context.success and context.kind is not None:
            span.set_attribute(ERROR, context.kind.name)
            span.set_status(Status(StatusCode.ERROR, context.status))
        span.end()

    @contextmanager
    def processing(
        self, messages: Sequence[ReceivedMessage], *, group: str = "", namespace: str = ""
    ) -> Iterator[None]:
        """The span of a listener, for programs that pull: around what is done with messages."""
        if not messages:
            yield
            return
        first = messages[0]
        queue = QueueRef(first.topic, first.broker, first.queue_id)
        context = ConsumeContext(group, namespace, queue, messages, started_ms=0)
        self.before(context)
        try:
            yield
        except BaseException as error:
            context.error = error
            raise
        finally:
            self.after(context)

    # Receiving and settling

    def received(self, context: ReceiveContext) -> None:
        """A pull or poll brought messages, or failed."""
        messages, count = context.messages, len(context.messages)
        attributes = {
            **_of_consumer(context.group, context.namespace, [context.queue]),
            **operation_of_span("receive", "receive"),
        }
        if count == 1:
            attributes |= of_received(messages[0])
        elif count:
            attributes[COUNT] = count
        links = links_to(creation_contexts(messages[:LINKS_MAX]))
        self._past(f"receive {context.queue.topic}", attributes, links, context)

    def settled(self, context: SettleContext) -> None:
        """A broker was told what is done."""
        topics = {queue.topic for queue in context.queues}
        attributes = {
            **_of_consumer(context.group, context.namespace, context.queues),
            **operation_of_span(context.operation, "settle"),
        }
        if len(context.messages) == 1:
            attributes |= of_received(context.messages[0])
        links = links_to(creation_contexts(context.messages))
        where = f" {topics.pop()}" if len(topics) == 1 else ""
        self._past(f"{context.operation}{where}", attributes, links, context)

    def _past(
        self,
        name: str,
        attributes: dict[str, Any],
        links: Sequence[Link],
        context: ReceiveContext | SettleContext,
    ) -> None:
        """A span of what is over; its parent is whatever is current where it was done."""
        span = self._tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            links=links,
            attributes=attributes,
            start_time=context.started_ns,
        )
        if context.error is not None:
            fail_span(span, context.error)
        span.end()


def _of_consumer(group: str, namespace: str, queues: Sequence[QueueRef]) -> dict[str, Any]:
    made: dict[str, Any] = {SYSTEM: "rocketmq", NAMESPACE: namespace, GROUP: group}
    if len({queue.topic for queue in queues}) == 1:
        made[DESTINATION] = queues[0].topic
    if len(queues) == 1:
        made[PARTITION] = partition_of(queues[0])
    return made


_providers: dict[str, trace.TracerProvider] = {}
_providing = threading.Lock()


def _provider_of(setup: Setup) -> trace.TracerProvider:
    """The provider of this process; a task that is sent the function anew finds the same."""
    name = _name_of(setup)
    with _providing:
        if name not in _providers:
            _providers[name] = setup()
        return _providers[name]


def _name_of(setup: Setup) -> str:
    """What tells one function from another, also after it was sent: its name, and the plain values
    that it has from where it was defined, such as the address of a collector.
    """
    bare: Any = setup
    given: list[object] = []
    while isinstance(bare, partial):
        given += [*bare.args, *sorted(bare.keywords.items())]
        bare = bare.func
    cells = getattr(bare, "__closure__", None) or ()
    given += [cell.cell_contents for cell in cells]
    given += getattr(bare, "__defaults__", None) or ()
    values = [each for each in given if isinstance(each, str | int | float | bytes | tuple)]
    return f"{bare.__module__}.{getattr(bare, '__qualname__', type(bare).__qualname__)} {values}"


def _remade(setup: Setup | None) -> OpenTelemetry:
    return OpenTelemetry(setup=setup)
