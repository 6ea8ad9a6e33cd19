"""What a broker of 5.x stores of popped messages: checkpoints and acknowledgements.

They are messages of the revive topic, told apart by their tags, and reach it through the timer
topic when the messages they speak of may come back.  A checkpoint names the messages of one pop
of one queue; an acknowledgement names the checkpoint by topic, group, queue, start offset, pop
time and broker, and one offset or several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring
from typing import Final, NamedTuple

import msgspec

from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.fields import Int32, Int64

REVIVE_TOPIC_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"

CHECKPOINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"

CHECKPOINT_EARLY_MS: Final = 1_000
"""A checkpoint is delivered so much before its messages come back, acknowledgements are not."""

NO_SINGLE_OFFSET: Final = -1

_BITS_32 = 0xFFFF_FFFF
_SIGN = 0x8000_0000


def revive_topic(cluster: str) -> str:
    return REVIVE_TOPIC_PREFIX + cluster


class PopKey(NamedTuple):
    """Names one pop of one queue: what joins a checkpoint and its acknowledgements."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_ms: int
    broker: str


class CheckpointRecord(Body, frozen=True, kw_only=True):
    """A record with `CHECKPOINT_TAG`: messages that were handed out together."""

    bit_map: Int64 = msgspec.field(name="bm", default=0)
    """Messages that are acknowledged already, as Java's signed number; see `acked`."""
    broker: str = msgspec.field(name="bn", default="")
    group: str = msgspec.field(name="c")
    distances: tuple[Int32, ...] | None = msgspec.field(name="d", default=None)
    """Of each message from the start offset.  None: the messages follow each other."""
    invisible_ms: Int64 = msgspec.field(name="it")
    count: Int32 = msgspec.field(name="n")
    pop_ms: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    revive_ms: Int64 = msgspec.field(name="reviveTime", default=0)
    revive_offset: Int64 = msgspec.field(name="ro", default=0)
    put_again: str | None = msgspec.field(name="rp", default=None)
    start_offset: Int64 = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")

    @property
    def key(self) -> PopKey:
        return PopKey(
            self.topic, self.group, self.queue_id, self.start_offset, self.pop_ms, self.broker
        )

    @property
    def due_ms(self) -> int:
        """When its messages come back."""
        return self.pop_ms + self.invisible_ms

    @property
    def unique_key(self) -> str:
        return (
            f"{self.topic}@{self.queue_id}@{self.start_offset}@{self.group}@{self.pop_ms}"
            f"@{self.broker}@{CHECKPOINT_TAG}"
        )

    @property
    def offsets(self) -> list[QueueOffset]:
        """Of all its messages, in order."""
        distances = self.distances or range(self.count)
        return [QueueOffset(self.start_offset + distance) for distance in distances]

    @property
    def acked(self) -> int:
        """The acknowledged messages as bits, bit 0 the first message."""
        return self.bit_map & _BITS_32

    @property
    def unacked_offsets(self) -> list[QueueOffset]:
        bits = self.acked
        return [
            offset for index, offset in enumerate(self.offsets) if not bits >> min(index, 63) & 1
        ]


class AckRecord(Body, frozen=True, kw_only=True):
    """A record with `ACK_TAG` or `BATCH_ACK_TAG`."""

    offset: Int64 = msgspec.field(name="ao", default=NO_SINGLE_OFFSET)
    offsets: tuple[Int64, ...] | None = msgspec.field(name="aol", default=None)
    broker: str = msgspec.field(name="bn", default="")
    group: str = msgspec.field(name="c")
    pop_ms: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    start_offset: Int64 = msgspec.field(name="so")
    topic: str = msgspec.field(name="t")

    @property
    def key(self) -> PopKey:
        return PopKey(
            self.topic, self.group, self.queue_id, self.start_offset, self.pop_ms, self.broker
        )

    @property
    def unique_key(self) -> str:
        return (
            f"{self.topic}@{self.queue_id}@{self.offset}@{self.group}@{self.pop_ms}"
            f"@{self.broker}@{ACK_TAG}"
        )

    @property
    def tag(self) -> str:
        return ACK_TAG if self.offsets is None else BATCH_ACK_TAG

    def to_body(self) -> bytes:
        """The compact form; one is written for every message, so that of one is put together."""
        if self.offsets is not None:
            return Body.to_body(self)
        return (
            f'{{"ao":{self.offset},"bn":{encode_basestring(self.broker)},'
            f'"c":{encode_basestring(self.group)},"pt":{self.pop_ms},"q":{self.queue_id},'
            f'"so":{self.start_offset},"t":{encode_basestring(self.topic)}}}'
        ).encode("utf-8", "replace")

    def acked_offsets(self) -> Iterator[QueueOffset]:
        for offset in (self.offset,) if self.offsets is None else self.offsets:
            yield QueueOffset(offset)


def checkpoint_of(
    key: PopKey, offsets: Iterable[int], invisible_ms: int, *, acked: int = 0
) -> CheckpointRecord:
    """The checkpoint of a pop; bit ``i`` of ``acked`` is the message ``offsets[i]``."""
    distances = tuple(offset - key.start_offset for offset in offsets)
    return CheckpointRecord(
        bit_map=acked - (1 << 32) if acked & _SIGN else acked,
        broker=key.broker,
        group=key.group,
        distances=distances,
        invisible_ms=invisible_ms,
        count=len(distances),
        pop_ms=key.pop_ms,
        queue_id=key.queue_id,
        revive_ms=key.pop_ms + invisible_ms,
        start_offset=key.start_offset,
        topic=key.topic,
    )


def ack_of(key: PopKey, offsets: Iterable[int]) -> AckRecord:
    """The acknowledgement of one or several messages of a pop."""
    acked = tuple(offsets)
    return AckRecord(
        offset=acked[0] if len(acked) == 1 else NO_SINGLE_OFFSET,
        offsets=None if len(acked) == 1 else acked,
        broker=key.broker,
        group=key.group,
        pop_ms=key.pop_ms,
        queue_id=key.queue_id,
        start_offset=key.start_offset,
        topic=key.topic,
    )
