"""Pop consumption: queues assigned by the broker, how a group takes messages, many acks in one.

QUERY_ASSIGNMENT (400), SET_MESSAGE_REQUEST_MODE (401), the table of request modes (402), and
BATCH_ACK_MESSAGE (200151).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import msgspec

from flintmq.model.group import MessageModel
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.body import Body, RequestBody, custom
from flintmq.protocol.bodies.common_bodies import MessageModelField, PopQueue
from flintmq.protocol.fields import Int32, Int64

PULL_MODE = "PULL"
POP_MODE = "POP"


class QueryAssignment(RequestBody, frozen=True, kw_only=True):
    """Request QUERY_ASSIGNMENT (400)."""

    client_id: str
    consumer_group: str
    message_model: MessageModelField = MessageModel.CLUSTERING
    strategy_name: str = "AVG"
    topic: str


class Assignment(Body, frozen=True, kw_only=True):
    """One queue for the asking member.  With `POP_MODE` its id may be -1, any queue."""

    attachments: dict[str, str] | None = None
    message_queue: PopQueue
    mode: str = PULL_MODE


class Assignments(Body, frozen=True, kw_only=True):
    """Answer to QUERY_ASSIGNMENT (400).  None at all when the broker has nothing to say."""

    message_queue_assignments: tuple[Assignment, ...] | None = None


class RequestMode(RequestBody, frozen=True, kw_only=True):
    """Request SET_MESSAGE_REQUEST_MODE (401): a group takes a topic by pull or by pop."""

    consumer_group: str
    mode: str = PULL_MODE
    pop_share_queue_num: Int32 = 0
    topic: str


class RequestModes(Body, frozen=True, kw_only=True):
    """Answer to GET_ALL_MESSAGE_REQUEST_MODE (402): modes by topic and group."""

    message_request_mode_map: dict[str, dict[str, RequestMode]] = {}


class BatchAck(Body, frozen=True, kw_only=True):
    """Acknowledgements for one pop of one queue.

    ``bits`` is a set of numbers, lowest bit of the first byte first: each counts from
    ``start_offset``.  ``retry`` is "0" for the topic itself, "1" and "2" for the two kinds of
    retry topic.
    """

    bits: bytes = msgspec.field(name="b", default=b"")
    consumer_group: str = msgspec.field(name="c")
    invisible_ms: Int64 = msgspec.field(name="it", default=0)
    pop_time_ms: Int64 = msgspec.field(name="pt", default=0)
    queue_id: Int32 = msgspec.field(name="q")
    retry: str = msgspec.field(name="r", default="0")
    revive_queue_id: Int32 = msgspec.field(name="rq", default=0)
    start_offset: Int64 = msgspec.field(name="so", default=0)
    topic: str = msgspec.field(name="t")

    def queue_offsets(self) -> Iterator[QueueOffset]:
        """The offsets that are acknowledged, lowest first."""
        for index, octet in enumerate(self.bits):
            for bit in range(8):
                if octet >> bit & 1:
                    yield QueueOffset(self.start_offset + 8 * index + bit)


LONG_NAMES: Final = {
    "bitSet": "b",
    "consumerGroup": "c",
    "invisibleTime": "it",
    "popTime": "pt",
    "queueId": "q",
    "retry": "r",
    "reviveQueueId": "rq",
    "startOffset": "so",
    "topic": "t",
}
"""What brokers read as well, though no client of Apache writes it."""

_has_long_name = re.compile(b"\\b(?:%s)[\"']?\\s*:" % "|".join(LONG_NAMES).encode("ascii")).search


def _read_ack(value: Any) -> BatchAck:
    """An entry with names of either kind; the short one counts where both are there."""
    if isinstance(value, dict):
        fields = {LONG_NAMES.get(name, name): field for name, field in value.items()}
        value = fields | {name: value[name] for name in LONG_NAMES.values() if name in value}
    return msgspec.convert(value, BatchAck, strict=False)


if TYPE_CHECKING:
    BatchAckField: TypeAlias = BatchAck
else:
    BatchAckField = custom(_read_ack)


class _LongAcks(RequestBody, frozen=True, kw_only=True):
    """The request with names of either kind."""

    acks: tuple[BatchAckField, ...] = ()
    broker_name: str


class BatchAcks(RequestBody, frozen=True, kw_only=True):
    """The request."""

    acks: tuple[BatchAck, ...] = ()
    broker_name: str

    @classmethod
    def from_body(cls, body: bytes) -> Self:
        """Read what came over the wire.  Raises `MalformedBody`."""
        if _has_long_name(body) is None:
            return super().from_body(body)
        read = _LongAcks.from_body(body)
        return cls(acks=read.acks, broker_name=read.broker_name)


def pack_bits(numbers: Iterable[int]) -> bytes:
    """The bit set of ``numbers``, as short as it can be."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
