"""Code of the user around every try to send something.

A hook sees what is about to leave for a broker and, with how it was answered, the same again; both
on the loop, so it must not block.  A message that is tried three times is seen three times.  A
hook that raises is logged and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from flintmq.core.producer.receipt import STORED, SendReceipt, receipt_of, receipts_of_batch
from flintmq.core.producer.send_draft import Draft
from flintmq.core.producer.trace_records import MessageKind, kind_of
from flintmq.errors import BrokerRefused, RemoteProtocolError
from flintmq.logs import logger
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.protocol.command import Command

log = logger(__name__)


@dataclass(slots=True)
class SendContext:
    """One try.  ``properties`` is for hooks, to keep what they need until after.

    ``queue`` has the topic as the user knows it; ``address`` is where its broker is.  What
    follows ``kind`` is known after it: a receipt for each message, or the error, or neither for
    a oneway send.
    """

    group: str
    namespace: str
    messages: Sequence[Message]
    queue: QueueRef
    address: str
    started_ms: int
    kind: MessageKind
    receipts: Sequence[SendReceipt] = ()
    error: BaseException | None = None
    spent_ms: int = 0
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> Message:
        return self.messages[0]

    @property
    def receipt(self) -> SendReceipt | None:
        return self.receipts[0] if self.receipts else None


class SendHook(Protocol):
    """What a program gives as ``send_hooks``."""

    def before(self, context: SendContext) -> None:
        """These messages are about to leave."""

    def after(self, context: SendContext) -> None:
        """A send ended, with a receipt or an error."""


@dataclass(frozen=True, slots=True)
class SendHooks:
    """The hooks of one producer, and what their contexts say of the producer."""

    hooks: Sequence[SendHook]
    group: str
    namespace: str
    wall: Callable[[], int]
    clock: Callable[[], int]


class SendWatch:
    """Runs the hooks around each try of one send."""

    __slots__ = ("_context", "_draft", "_messages", "_source", "_start_ms", "_wire_queue")

    _context: SendContext
    _draft: Draft
    _start_ms: int
    _wire_queue: QueueRef

    def __init__(self, source: SendHooks, messages: Sequence[Message]) -> None:
        self._source = source
        self._messages = messages

    def leaving(self, draft: Draft, queue: QueueRef, address: str) -> None:
        source, message = self._source, self._messages[0]
        self._draft, self._wire_queue = draft, queue
        self._start_ms = source.clock()
        self._context = SendContext(
            source.group,
            source.namespace,
            self._messages,
            QueueRef(message.topic, queue.broker, queue.queue_id),
            address,
            source.wall(),
            kind_of(message, draft),
        )
        run_before(source.hooks, self._context)

    def ended(self, answer: Command | None, error: BaseException | None) -> None:
        context, source = self._context, self._source
        context.spent_ms = source.clock() - self._start_ms
        is_cancelled = isinstance(error, GeneratorExit)  # its conversation was closed
        context.error = asyncio.CancelledError() if is_cancelled else error
        if answer is not None:
            self._judge(context, answer)
        run_after(source.hooks, context)

    def _judge(self, context: SendContext, answer: Command) -> None:
        status = STORED.get(answer.code)
        if status is None:
            context.error = BrokerRefused(answer.code, answer.remark or "", context.address)
            return
        queue = QueueRef(context.queue.topic, self._wire_queue.broker, self._wire_queue.queue_id)
        try:
            receipt = receipt_of(answer, self._draft, queue, status)
        except RemoteProtocolError as error:
            context.error = error
        else:
            context.receipts = receipts_of_batch(receipt) if self._draft.is_batch else (receipt,)


def run_before(hooks: Sequence[SendHook], context: SendContext) -> None:
    for hook in hooks:
        try:
            hook.before(context)
        except Exception:
            log.exception("the hook %r failed before a send to %s", hook, context.queue)


def run_after(hooks: Sequence[SendHook], context: SendContext) -> None:
    for hook in hooks:
        try:
            hook.after(context)
        except Exception:
            log.exception("the hook %r failed after a send to %s", hook, context.queue)
