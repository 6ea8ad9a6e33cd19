"""The messages of one queue that were pulled and not yet handed out, batch by batch.

A consumer that is asked for messages gives away what a pull brought as it came, so nothing is
kept message by message.  `core.consumer.process_queue` is for those who settle single messages.

Invariant: batches leave in the order they came, and no offset is in two of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter, lt
from typing import NamedTuple

from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset

_offset_of = itemgetter(ReceivedMessage._fields.index("queue_offset"))
_body_of = itemgetter(ReceivedMessage._fields.index("body"))


class _Held(NamedTuple):
    """One batch, in the order of its offsets."""

    messages: Sequence[ReceivedMessage]
    size_bytes: int

    @property
    def first(self) -> QueueOffset:
        return self.messages[0].queue_offset


class CachedBatches:
    """The cached batches of one queue."""

    __slots__ = ("_batches", "_is_late", "count", "highest", "size_bytes")

    def __init__(self) -> None:
        self._batches: deque[_Held] = deque()
        self._is_late = False  # whether some batch has offsets below one before it
        self.highest: QueueOffset | None = None
        """The last offset that was ever put, handed out or not."""
        self.count = 0
        self.size_bytes = 0
        """Of all bodies, as RocketMQ counts."""

    def __repr__(self) -> str:
        return f"<CachedBatches of {self.count} messages, {self.size_bytes} bytes>"

    @property
    def lowest(self) -> QueueOffset | None:
        """The first offset that was not handed out."""
        if not self._batches:
            return None
        if self._is_late:
            return min(held.first for held in self._batches)
        return self._batches[0].first

    @property
    def span(self) -> int:
        """How far apart the first and the last cached offsets are."""
        lowest = self.lowest
        return 0 if lowest is None or self.highest is None else self.highest - lowest

    def put(self, messages: Sequence[ReceivedMessage]) -> Sequence[ReceivedMessage]:
        """Cache what is not cached yet as one batch; give it back in order."""
        offsets: list[QueueOffset] = list(map(_offset_of, messages))
        in_order = all(map(lt, offsets, islice(offsets, 1, None)))
        first = offsets[0] if offsets and in_order else min(offsets, default=None)
        is_late = first is not None and self.highest is not None and first <= self.highest
        if is_late or not in_order:
            messages = self._new_of(messages)
            self._is_late = self._is_late or is_late
        if not messages:
            return messages
        held = _Held(messages, sum(map(len, map(_body_of, messages))))
        self._batches.append(held)
        self.count += len(messages)
        self.size_bytes += held.size_bytes
        last = messages[-1].queue_offset
        self.highest = last if self.highest is None else max(self.highest, last)
        return messages

    def take(self) -> None:
        """The oldest batch is handed out."""
        held = self._batches.popleft()
        self.count -= len(held.messages)
        self.size_bytes -= held.size_bytes
        self._is_late = self._is_late and bool(self._batches)

    def _new_of(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Messages out of order, twice, or before others."""
        cached = {offset for held in self._batches for offset in map(_offset_of, held.messages)}
        new = {m.queue_offset: m for m in messages if m.queue_offset not in cached}
        return [new[offset] for offset in sorted(new)]
