"""What of a client's work is traced: stored messages, calls of listeners, ends of transactions.

As RocketMQ's clients do, a send leaves a record when the answer of the broker names its region and
does not say that traces are off; a message whose properties say so is consumed without a record.
Messages of the trace topic itself are never traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.client.hooks.send_hooks import SendContext
from flintmq.client.producer.tracer import Tracer
from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.publisher import TIMERS_SINCE
from flintmq.core.producer.receipt import SendReceipt, SendStatus
from flintmq.core.producer.trace_records import (
    ConsumedRecord,
    Consuming,
    Happening,
    MessageKind,
    Published,
    TransactionEnded,
)
from flintmq.core.producer.transaction import TransactionState
from flintmq.model import properties as names
from flintmq.model.message import KEY_SEPARATOR, Message, ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.clock import wall_ms

DEFAULT_REGION: Final = "DefaultRegion"
"""Of brokers that were given no other; 4.9 does not write it into messages."""

_REQUEST = "flintmq.trace"


class SendTrace:
    """A send hook.  ``version_of`` says what the broker at an address is, where that is known."""

    def __init__(self, tracer: Tracer, version_of: Callable[[str], int | None]) -> None:
        self._tracer = tracer
        self._version_of = version_of

    def before(self, context: SendContext) -> None:
        pass

    def after(self, context: SendContext) -> None:
        receipt, topic = context.receipt, context.queue.topic
        if receipt is None or not is_traced(receipt) or topic == self._tracer.topic:
            return
        spent_ms = context.spent_ms // len(context.messages)
        kind = self._kind(context)
        records = tuple(
            Published(
                at_ms=context.started_ms,
                region=stored.region,
                group=context.group,
                topic=topic,
                message_id=stored.message_id,
                tags=message.tags,
                keys=_keys(message),
                store_host=context.address,
                body_bytes=len(message.body),
                spent_ms=spent_ms,
                kind=kind,
                offset_message_id=stored.offset_message_id,
                success=stored.status is SendStatus.OK,
            )
            for message, stored in zip(context.messages, context.receipts, strict=True)
        )
        self._tracer.add(Happening(topic, receipt.region, records))

    def _kind(self, context: SendContext) -> MessageKind:
        """The kind of a trace.  Tools of 4.9 fail on newer kinds, so those need a newer broker."""
        if context.kind is MessageKind.ORDERED:
            version = self._version_of(context.address)
            if version is None or version < TIMERS_SINCE:
                return MessageKind.NORMAL
        return context.kind


class ConsumeTrace:
    """The consume hook that traces what listeners did."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before(self, context: ConsumeContext) -> None:
        wanted = self._wanted(context.messages)
        if not wanted:
            return
        request_id = uuid4().hex.upper()
        context.properties[_REQUEST] = (request_id, wanted)
        records = tuple(
            Consuming(
                at_ms=context.started_ms,
                region=message.properties.get(names.MSG_REGION),
                group=context.group,
                request_id=request_id,
                message_id=message.message_id,
                retry_times=message.reconsume_times,
                keys=_keys(message),
            )
            for message in wanted
        )
        self._tracer.add(Happening(wanted[0].topic, records[0].region, records))

    def after(self, context: ConsumeContext) -> None:
        if _REQUEST not in context.properties:
            return
        request_id, wanted = context.properties[_REQUEST]
        spent_ms = context.spent_ms // len(context.messages)
        kind, at_ms = context.kind or ReturnKind.SUCCESS, wall_ms()
        records = tuple(
            ConsumedRecord(
                request_id=request_id,
                message_id=message.message_id,
                spent_ms=spent_ms,
                success=kind in (ReturnKind.SUCCESS, ReturnKind.TIME_OUT),
                keys=_keys(message),
                returned=kind,
                at_ms=at_ms,
                group=context.group,
            )
            for message in wanted
        )
        region = wanted[0].properties.get(names.MSG_REGION)
        self._tracer.add(Happening(wanted[0].topic, region, records))

    def handed_out(self, group: str, messages: Sequence[ReceivedMessage]) -> None:
        """Trace polled messages as consumed."""
        first = messages[0]
        queue = QueueRef(first.topic, first.broker, first.queue_id)
        context = ConsumeContext(group, "", queue, messages, wall_ms())
        self.before(context)
        self.after(context)

    def _wanted(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        return [each for each in messages if is_wanted(each) and each.topic != self._tracer.topic]


def trace_end(
    tracer: Tracer,
    message: Message | ReceivedMessage,
    state: TransactionState,
    *,
    group: str,
    message_id: str,
    transaction_id: str | None,
    address: str,
    region: str | None = None,
    from_check: bool = False,
) -> None:
    """A producer told the broker at ``address`` how a transaction ended."""
    region = region or message.properties.get(names.MSG_REGION) or DEFAULT_REGION
    record = TransactionEnded(
        at_ms=wall_ms(),
        region=region,
        group=group,
        topic=message.topic,
        message_id=message_id,
        tags=message.tags,
        keys=_keys(message),
        store_host=address,
        kind=MessageKind.ENDED,
        transaction_id=transaction_id or message_id,
        state=state,
        from_check=from_check,
    )
    tracer.add(Happening(message.topic, region, (record,)))


def is_traced(receipt: SendReceipt) -> bool:
    """Whether the broker wants this message to be traced."""
    return receipt.region is not None and receipt.trace_on


def is_wanted(message: ReceivedMessage) -> bool:
    return message.properties.get(names.TRACE_ON) != "false"


def _keys(message: Message | ReceivedMessage) -> str | None:
    return KEY_SEPARATOR.join(message.keys) or None
