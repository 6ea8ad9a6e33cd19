"""What a broker can answer to a pull: messages, none yet, none that match, or a wrong offset.

Records may also be unreadable, one of them or the whole answer; that is not the end of a queue.

Every answer says where to go on and which replica to ask next.  Whatever else a broker says
is raised as `BrokerRefused`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from flintmq.core.ask import refusal
from flintmq.errors import MalformedRecord, RemoteProtocolError
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import MASTER_ID
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullAnswer as AnswerHeader
from flintmq.protocol.records.received import decode_messages

PART_MAX: Final = 64
"""Messages of a small answer.  Brokers of RocketMQ give 32 at most, unless told otherwise."""

_ZERO: Final = QueueOffset(0)


@dataclass(frozen=True, slots=True)
class _Answer:
    next_offset: QueueOffset
    broker_id: int = MASTER_ID
    min_offset: QueueOffset = _ZERO
    max_offset: QueueOffset = _ZERO


@dataclass(frozen=True, slots=True)
class MessagesFound(_Answer):
    """``fault`` tells that the rest of the answer could not be read; it is pulled again.

    ``bad`` are the records that cannot be decoded, between the messages and in order.
    """

    messages: list[ReceivedMessage] = field(default_factory=list)
    fault: MalformedRecord | None = None
    bad: list[BadRecord] = field(default_factory=list)

    @property
    def is_part(self) -> bool:
        """Whether it is small and its queue has more: waking a thread for it alone does not pay."""
        return self.next_offset < self.max_offset and len(self.messages) <= PART_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable(_Answer):
    """Records came, and not one frame of them is intact.  ``next_offset`` leads past all."""

    fault: MalformedRecord


@dataclass(frozen=True, slots=True)
class NoNewMessage(_Answer):
    pass


@dataclass(frozen=True, slots=True)
class NoneMatched(_Answer):
    pass


@dataclass(frozen=True, slots=True)
class OffsetMoved(_Answer):
    """The queue does not have the offset: it was deleted, or never written."""


PullAnswer: TypeAlias = MessagesFound | Unreadable | NoNewMessage | NoneMatched | OffsetMoved

_EMPTY: Final[dict[int, type[NoNewMessage | NoneMatched | OffsetMoved]]] = {
    int(ResponseCode.PULL_NOT_FOUND): NoNewMessage,
    int(ResponseCode.PULL_RETRY_IMMEDIATELY): NoneMatched,
    int(ResponseCode.PULL_OFFSET_MOVED): OffsetMoved,
}
_SUCCESS: Final = int(ResponseCode.SUCCESS)


def read_pull_answer(reply: Command, queue: QueueRef, address: str) -> PullAnswer:
    """Read an answer, its messages included."""
    if reply.code != _SUCCESS and reply.code not in _EMPTY:
        raise refusal(reply, address)
    header = reply.header(AnswerHeader)
    if header.next_begin_offset < 0:
        raise RemoteProtocolError(f"{address} sends a pull on to {header.next_begin_offset}")
    next_offset = QueueOffset(header.next_begin_offset)
    bounds = (
        next_offset,
        header.suggest_which_broker_id,
        QueueOffset(header.min_offset),
        QueueOffset(header.max_offset),
    )
    if reply.code != _SUCCESS:
        return _EMPTY[reply.code](*bounds)
    received = decode_messages(
        reply.body,
        broker=queue.broker,
        queue_id=queue.queue_id,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        offset_delta=header.offset_delta or 0,
    )
    if received.fault is None:
        return MessagesFound(*bounds, received.messages, None, received.bad)
    last = [message.queue_offset for message in received.messages[-1:]]
    last += [bad.queue_offset for bad in received.bad[-1:]]
    if not last:
        return Unreadable(*bounds, fault=received.fault)
    after = QueueOffset(max(last) + 1)
    return MessagesFound(after, *bounds[1:], received.messages, received.fault, received.bad)
