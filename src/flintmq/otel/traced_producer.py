"""A producer whose sends have spans."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from flintmq.core.producer.receipt import SendReceipt
from flintmq.model.message import Message
from flintmq.otel.conventions import MESSAGE_ID, PARTITION, fail_span, partition_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class SendSpan:
    """One send: the messages that carry its context, and its end."""

    def __init__(self, span: Span, messages: Sequence[Message]) -> None:
        self.messages = messages
        self._span = span

    def ended(self, outcome: object) -> None:
        """How it ended: receipts, one receipt, an error, or None for a oneway send."""
        if isinstance(outcome, BaseException):
            fail_span(self._span, outcome)
        elif isinstance(outcome, SendReceipt):
            self._span.set_attribute(MESSAGE_ID, outcome.message_id)
            self._span.set_attribute(PARTITION, partition_of(outcome.queue))
        self._span.end()

    def landed(self, future: Any) -> None:
        """The same as the callback of a future, of threads or of asyncio."""
        self.ended(future.exception() or future.result())


class Spans(Protocol):
    """Who begins the spans of sends."""

    def begin_send(self, message: Message, sharding_key: str | None = None) -> SendSpan: ...

    def begin_batch(self, messages: Sequence[Message]) -> SendSpan: ...


class TracedProducer:
    """A producer whose sends have spans; everything else is the producer's own."""

    def __init__(self, producer: Any, telemetry: Spans) -> None:
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
