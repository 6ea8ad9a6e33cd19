"""The requests of pop consumption, and what their answers say.

    POP_MESSAGE (200050)                    take messages of a topic, hide them for a while
    ACK_MESSAGE (200051)                    one of them is done
    BATCH_ACK_MESSAGE (200151)              several of them are
    CHANGE_MESSAGE_INVISIBLETIME (200053)   hide one for longer, or show it again sooner

A popped message carries its receipt in the property POP_CK.  Where a request goes is for whoever
knows the routes; topics and groups have their wire names.

Invariant: a pop never brings the time of our clock along, so a clock that is wrong does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from flintmq.core.ask import refusal
from flintmq.core.reading.pull_request import Filter
from flintmq.errors import BrokerRefused, MalformedRecord
from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import PopSource
from flintmq.protocol.bodies.pop import BatchAck, BatchAcks, pack_bits
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    InvisibleTimeAnswer,
    PopAnswer,
    PopMessage,
)
from flintmq.protocol.pop.offset_texts import (
    MarkedQueue,
    parse_message_offsets,
    parse_start_offsets,
)
from flintmq.protocol.pop.receipts import ReceiptHandle, receipts_of
from flintmq.protocol.pop.retry_topics import NORMAL_MARK
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.version import version_name

POP_COUNT_MAX: Final = 32
"""Messages of one pop; brokers refuse more."""

POP_PATIENCE_MS: Final = 10_000
"""How much longer than the broker may hold a pop its answer is waited for; what Java allows."""

SETTLE_TIMEOUT_MS: Final = 3_000
"""How long an acknowledgement or a change of the invisible time may take; what Java allows."""

START_AT_FIRST: Final = 0
START_AT_END: Final = 1

_NOT_SUPPORTED: Final = int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
_EMPTY: Final = frozenset(
    {
        int(ResponseCode.POLLING_TIMEOUT),
        int(ResponseCode.POLLING_FULL),
        int(ResponseCode.PULL_NOT_FOUND),
    }
)


class Pop(msgspec.Struct, frozen=True, eq=False):
    """One pop.  ``hold_ms`` above 0 lets the broker wait that long for a message."""

    source: PopSource
    subscription: Filter
    count_max: int
    invisible_ms: int
    hold_ms: int
    start_mode: int = START_AT_END
    """Where a group without an offset begins."""
    is_ordered: bool = False
    """Whether a queue is held back while messages of it are out."""
    attempt_id: str | None = None
    """An ordered pop with the id of the last one gets the same messages again."""


class PoppedBad(NamedTuple):
    """A record that cannot be decoded; ``handle`` is None where not even that is known."""

    bad: BadRecord
    handle: ReceiptHandle | None


@dataclass(frozen=True, slots=True)
class PopFound:
    """The messages of a pop, each with its receipt; ``is_full``: the broker holds no more pops.

    ``fault`` tells that the rest of the answer could not be read; it comes back by itself.
    ``unwanted`` are messages that hooks of the program left out.
    """

    messages: list[ReceivedMessage] = field(default_factory=list)
    bad: list[PoppedBad] = field(default_factory=list)
    fault: MalformedRecord | None = None
    is_full: bool = False
    unwanted: list[ReceivedMessage] = field(default_factory=list)


def pop_request(pop: Pop, group: str) -> Command:
    """POP_MESSAGE (200050).  The broker takes the time of its own clock."""
    source = pop.source
    header = PopMessage(
        consumer_group=group,
        topic=source.topic,
        queue_id=source.queue_id,
        max_msg_nums=pop.count_max,
        invisible_time=pop.invisible_ms,
        poll_time=pop.hold_ms,
        born_time=0,
        init_mode=pop.start_mode,
        exp_type=pop.subscription.expression_type,
        exp=pop.subscription.text,
        order=pop.is_ordered,
        attempt_id=pop.attempt_id,
        broker_name=source.broker,
    )
    return request(RequestCode.POP_MESSAGE, header)


def read_popped(reply: Command, pop: Pop, address: str) -> PopFound:
    """The messages of an answer, with their receipts as `names.POP_CK`."""
    if reply.code in _EMPTY:
        return PopFound(is_full=reply.code == ResponseCode.POLLING_FULL)
    if reply.code != ResponseCode.SUCCESS:
        raise pop_refusal(reply, address)
    broker = pop.source.broker
    header = reply.header(PopAnswer)
    received = decode_messages(reply.body, broker=broker)
    bad = _bad_receipts(header, received.bad, broker)
    messages = []
    for message, receipt in zip(
        received.messages, receipts_of(header, received.messages, broker), strict=True
    ):
        found = {
            **message.properties,
            names.POP_CK: receipt.handle.text,
            names.FIRST_POP_TIME: str(receipt.first_pop_ms),
        }
        messages.append(message._replace(properties=found, reconsume_times=receipt.reconsume_times))
    return PopFound(messages, bad, received.fault)


def pop_refusal(reply: Command, address: str) -> BrokerRefused:
    """What a broker refused; of one without pop consumption, what would have it."""
    if reply.code != _NOT_SUPPORTED:
        return refusal(reply, address)
    text = (
        f"this broker, version {version_name(reply.version)}, has no pop consumption: it needs "
        "RocketMQ 5.0 or newer; use a PushConsumer with mode='pull' or a LitePullConsumer there"
    )
    return BrokerRefused(reply.code, text, address)


def is_without_pop(error: BaseException) -> bool:
    """Whether a broker refused because it is too old."""
    return isinstance(error, BrokerRefused) and error.code == _NOT_SUPPORTED


def ack_request(group: str, topic: str, handle: ReceiptHandle) -> Command:
    """ACK_MESSAGE (200051).  ``topic`` is the one that was popped."""
    header = AckMessage(
        consumer_group=group,
        topic=handle.topic(group, topic),
        queue_id=handle.queue_id,
        extra_info=handle.broker_text,
        offset=handle.queue_offset,
        broker_name=handle.broker,
    )
    return request(RequestCode.ACK_MESSAGE, header)


def batch_ack_request(
    group: str, broker: str, popped: Iterable[tuple[str, ReceiptHandle]]
) -> Command:
    """BATCH_ACK_MESSAGE (200151) for messages of one broker: topics that were popped, handles."""
    pops: dict[tuple[object, ...], tuple[str, ReceiptHandle, list[int]]] = {}
    for topic, handle in popped:
        key = (topic, handle.mark, handle.queue_id, handle.start_offset, handle.pop_ms)
        _, _, offsets = pops.setdefault(key, (topic, handle, []))
        offsets.append(handle.queue_offset)
    acks = tuple(
        BatchAck(
            bits=pack_bits(offset - handle.start_offset for offset in offsets),
            consumer_group=group,
            invisible_ms=handle.invisible_ms,
            pop_time_ms=handle.pop_ms,
            queue_id=handle.queue_id,
            retry=handle.mark,
            revive_queue_id=handle.revive_queue_id,
            start_offset=handle.start_offset,
            topic=topic,
        )
        for topic, handle, offsets in pops.values()
    )
    body = BatchAcks(acks=acks, broker_name=broker)
    return request(RequestCode.BATCH_ACK_MESSAGE, None, body.to_body())


def hide_request(group: str, topic: str, handle: ReceiptHandle, invisible_ms: int) -> Command:
    """CHANGE_MESSAGE_INVISIBLETIME (200053), counted from now; 0 shows the message again."""
    header = ChangeInvisibleTime(
        consumer_group=group,
        topic=handle.topic(group, topic),
        queue_id=handle.queue_id,
        extra_info=handle.broker_text,
        offset=handle.queue_offset,
        invisible_time=invisible_ms,
        broker_name=handle.broker,
    )
    return request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)


def read_hidden(reply: Command, handle: ReceiptHandle, address: str) -> ReceiptHandle:
    """The handle that counts from now on."""
    if reply.code != ResponseCode.SUCCESS:
        raise pop_refusal(reply, address)
    return handle.renewed(reply.header(InvisibleTimeAnswer))


def _bad_receipts(header: PopAnswer, bad: Sequence[BadRecord], broker: str) -> list[PoppedBad]:
    """Records that cannot be decoded.  One that came back has its handle inside: it is lost."""
    if not bad:
        return []
    starts = parse_start_offsets(header.start_offset_info)
    listed = parse_message_offsets(header.msg_offset_info)
    found = []
    for one in bad:
        queue, handle = MarkedQueue(NORMAL_MARK, one.queue_id), None
        if one.reconsume_times == 0 and one.queue_offset in listed.get(queue, ()):
            handle = ReceiptHandle(
                starts[queue], header.pop_time, header.invisible_time, header.revive_qid,
                queue.mark, broker, one.queue_id, one.queue_offset,
            )  # fmt: skip
        found.append(PoppedBad(one, handle))
    return found
