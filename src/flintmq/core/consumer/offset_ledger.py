"""The offset of a group in each queue, and what of it has to be committed to the offset store.

    settled ──► ``settled_to`` ──due──► commit ──► ``told``
                   ▲                      │ failed
                   └──────────────────────┘

Invariant: ``settled_to`` of a queue never goes back, unless somebody reset it; and nothing is
committed that was not settled.  A queue that is not ours any more is forgotten, since whoever
has it now knows better.
"""

from __future__ import annotations

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.model.queue import QueueOffset, QueueRef


class Position:
    """The offset of the group in one queue.

    ``told`` is what was committed last, None while the store may hold something else.
    """

    __slots__ = ("_cached", "_settled_to", "told")

    def __init__(self, settled_to: QueueOffset, told: QueueOffset | None = None) -> None:
        self._settled_to = settled_to
        self._cached: ProcessQueue | None = None
        self.told = told

    @property
    def settled_to(self) -> QueueOffset:
        """Everything before it is settled."""
        if self._cached is not None:
            settled_to = self._cached.settled_to
            if settled_to is not None:
                self.advance(settled_to)
        return self._settled_to

    def advance(self, offset: QueueOffset) -> None:
        """Everything before ``offset`` is settled.  Less than is known already changes nothing."""
        if offset > self._settled_to:
            self._settled_to = offset

    def follow(self, cached: ProcessQueue) -> None:
        """From now on advance with what is cached, whenever somebody asks."""
        self._cached = cached


class OffsetLedger:
    """The offsets of all queues that this member owns."""

    def __init__(self) -> None:
        self._positions: dict[QueueRef, Position] = {}

    def __contains__(self, queue: QueueRef) -> bool:
        return queue in self._positions

    def __len__(self) -> int:
        return len(self._positions)

    def begin(self, queue: QueueRef, start: QueueOffset, *, is_stored: bool) -> Position:
        """A queue is ours from ``start`` on.

        A start that nobody has stored yet is: whoever comes after us must not decide anew, or
        what arrives in between is lost to a group that starts at the end.
        """
        position = self._positions[queue] = Position(start, told=start if is_stored else None)
        return position

    def find(self, queue: QueueRef) -> Position | None:
        return self._positions.get(queue)

    def reset(self, queue: QueueRef, offset: QueueOffset) -> None:
        """Somebody decided where to go on, forward or back; the store has to know."""
        self._positions[queue] = Position(offset)

    def forget(self, queue: QueueRef) -> None:
        self._positions.pop(queue, None)

    def next_commits(self) -> list[tuple[QueueRef, QueueOffset]]:
        """The offsets to commit now; they count as committed from here on."""
        found = []
        for queue, position in self._positions.items():
            settled_to = position.settled_to
            if position.told != settled_to:
                position.told = settled_to
                found.append((queue, settled_to))
        return found

    def next_commit(self, queue: QueueRef) -> QueueOffset | None:
        """The offset to commit for one queue, None when there is nothing new."""
        position = self._positions.get(queue)
        settled_to = None if position is None else position.settled_to
        if position is None or position.told == settled_to:
            return None
        position.told = settled_to
        return settled_to

    def failed(self, queue: QueueRef) -> None:
        """A commit did not arrive: try again next time."""
        if queue in self._positions:
            self._positions[queue].told = None

    def offsets(self) -> dict[QueueRef, QueueOffset]:
        """The offset of every queue."""
        return {queue: position.settled_to for queue, position in self._positions.items()}
