"""Queues, and the two kinds of offset that must never be mixed up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, NewType

QueueOffset = NewType("QueueOffset", int)
"""Position in one queue.  Counts messages."""

LogOffset = NewType("LogOffset", int)
"""Position in the commit log.  Counts bytes."""


@dataclass(frozen=True, slots=True, order=True)
class QueueRef:
    """The name of one queue in the cluster.

    The order (topic, broker, queue id) is the one every client of a group must
    sort by before it allocates queues, or two members take the same one.
    """

    topic: str
    broker: str
    queue_id: int

    def __post_init__(self) -> None:
        if not self.topic:
            raise ValueError("a queue needs a topic")
        if self.queue_id < 0:
            raise ValueError(f"queue_id must be 0 or more, not {self.queue_id}")

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id}"


ANY_QUEUE: Final = -1
"""In place of a queue id where messages are popped: whichever queue has some."""


class PopSource(NamedTuple):
    """Where messages are popped: one queue, or every queue of a topic on one broker."""

    topic: str
    broker: str
    queue_id: int = ANY_QUEUE

    def __str__(self) -> str:
        queue = "any" if self.queue_id == ANY_QUEUE else self.queue_id
        return f"{self.topic}/{self.broker}/{queue}"


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open run of messages in one queue: ``start`` is in, ``stop`` is out.

    Invariant: ``0 <= start <= stop``.  An empty span is legal and reads nothing.
    """

    queue: QueueRef
    start: QueueOffset
    stop: QueueOffset

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"not a span: [{self.start}, {self.stop})")

    def __len__(self) -> int:
        return self.stop - self.start

    def split(self, count_max: int) -> list[Span]:
        """Cut into consecutive spans of at most ``count_max`` messages."""
        if count_max < 1:
            raise ValueError(f"count_max must be 1 or more, not {count_max}")
        starts = range(self.start, self.stop, count_max)
        return [
            Span(self.queue, QueueOffset(s), QueueOffset(min(s + count_max, self.stop)))
            for s in starts
        ]


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a queue: from its oldest offset to the one that the next message gets."""

    start: QueueOffset
    stop: QueueOffset
