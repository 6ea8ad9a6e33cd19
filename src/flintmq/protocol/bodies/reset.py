"""Offsets that are moved from outside (220, 222), and offsets asked of clients (221, 223)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from flintmq.model.queue import QueueRef
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import Body, custom, wire_fields
from flintmq.protocol.bodies.queue import QueueField, read_queue
from flintmq.protocol.fields import Int32, Int64


class _ListedOffset(Body, frozen=True, kw_only=True):
    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class _OffsetList(Body, frozen=True, kw_only=True):
    offset_table: tuple[_ListedOffset, ...]


def _read_offsets(value: Any) -> dict[QueueRef, int]:
    if isinstance(value, list):
        listed = msgspec.convert(value, list[_ListedOffset], strict=False)
        return {QueueRef(at.topic, at.broker_name, at.queue_id): at.offset for at in listed}
    table = msgspec.convert(value, dict[str, Int64], strict=False)
    return {read_queue(key): offset for key, offset in table.items()}


if TYPE_CHECKING:
    OffsetsField: TypeAlias = dict[QueueRef, int]
else:
    OffsetsField = custom(_read_offsets)


class ResetOffsets(Body, frozen=True, kw_only=True):
    """New offsets by queue.  C++ clients cannot read objects as keys: they get a list."""

    offset_table: OffsetsField = {}

    def to_list_body(self) -> bytes:
        """The list form for C++.  `from_body` reads either."""
        listed = tuple(
            _ListedOffset(
                broker_name=queue.broker, offset=offset, queue_id=queue.queue_id, topic=queue.topic
            )
            for queue, offset in self.offset_table.items()
        )
        return fastjson.write(_OffsetList(offset_table=listed), wire_fields)


class ConsumerStatus(Body, frozen=True, kw_only=True):
    """Answer to 221 (``message_queue_table`` alone) and to 223 (a table for each client)."""

    consumer_table: dict[str, dict[QueueField, Int64]] | None = None
    message_queue_table: dict[QueueField, Int64] = {}
