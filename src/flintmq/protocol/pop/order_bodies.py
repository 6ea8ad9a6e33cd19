"""Ordered pops as they are saved: what a group has of each queue, and what became of it.

``config/consumerOrderInfo.json`` is that of 5.3.3.  `OrderRecord` is this broker's own: the same
for one queue, written to the journal between two saves, with a tag that RocketMQ passes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.fields import Int32, Int64

ORDER_TAG: Final = "flintmqOrder"


class OrderedPop(Body, frozen=True, kw_only=True):
    """The last ordered pop of one queue."""

    attempt_id: str | None = msgspec.field(name="a", default=None)
    acked: Int64 = msgspec.field(name="cm", default=0)
    """Bit ``i`` is the message at entry ``i`` of ``o``."""
    invisible_ms: Int64 = msgspec.field(name="i", default=0)
    consumed_ms: Int64 = msgspec.field(name="l", default=0)
    distances: list[Int64] = msgspec.field(name="o", default_factory=list)
    """The first offset, then how far the others are from it."""
    delivered_before: dict[int, Int32] | None = msgspec.field(name="oc", default=None)
    visible_ms: dict[int, Int64] | None = msgspec.field(name="ot", default=None)
    pop_time: Int64 = 0

    @property
    def offsets(self) -> list[QueueOffset]:
        if not self.distances:
            return []
        first = self.distances[0]
        return [QueueOffset(first), *(QueueOffset(first + more) for more in self.distances[1:])]

    @property
    def unacked(self) -> list[QueueOffset]:
        return [offset for index, offset in enumerate(self.offsets) if not self.acked >> index & 1]

    @property
    def next_offset(self) -> int:
        """The first message that is not acknowledged, or what follows all of them."""
        unacked = self.unacked
        return unacked[0] if unacked else self.offsets[-1] + 1

    @property
    def hidden_until_ms(self) -> list[int]:
        """When each message that is not acknowledged becomes visible."""
        until_ms = self.pop_time + self.invisible_ms
        changed = self.visible_ms or {}
        return [changed.get(offset, until_ms) for offset in self.unacked]

    @property
    def free_ms(self) -> int:
        """When nothing of it is hidden any more."""
        return max(self.hidden_until_ms, default=0)


def distances_of(offsets: Sequence[int]) -> list[int]:
    """Offsets as they are saved."""
    return [offsets[0], *(offset - offsets[0] for offset in offsets[1:])]


class OrderedPops(Body, frozen=True, kw_only=True):
    """``consumerOrderInfo.json``: by ``topic@group`` and queue."""

    table: dict[str, dict[int, OrderedPop]] = msgspec.field(default_factory=dict)


class OrderRecord(Body, frozen=True, kw_only=True):
    """A record with `ORDER_TAG`: an ordered pop, and the group's offset, as they became."""

    group: str = msgspec.field(name="c")
    pop: OrderedPop = msgspec.field(name="i")
    offset: Int64 = msgspec.field(name="o")
    queue_id: Int32 = msgspec.field(name="q")
    topic: str = msgspec.field(name="t")

    @property
    def unique_key(self) -> str:
        return f"{self.topic}@{self.queue_id}@{self.group}@{ORDER_TAG}"
