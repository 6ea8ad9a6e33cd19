"""How far a group is in each queue, and what of that has to be told to its offset store.

    settled ──► ``settled_to`` ──due──► commit ──► ``told``
                   ▲                      │ failed
                   └──────────────────────┘

Invariant: ``settled_to`` of a queue never goes back, unless somebody reset it; and nothing is
committed that was not settled.  A queue that is not ours any more is forgotten, since whoever
has it now knows better.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.model.queue import QueueOffset, QueueRef


@dataclass(slots=True)
class Position:
    """Where the group is in one queue."""

    settled_to: QueueOffset
    told: QueueOffset | None = None
    """What the store was told last; None while it may hold something else."""

    def advance(self, offset: QueueOffset) -> None:
        """Everything before ``offset`` is settled.  Less than is known already changes nothing."""
        if offset > self.settled_to:
            self.settled_to = offset


class OffsetLedger:
    """All queues we have."""

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

    def untold(self) -> list[tuple[QueueRef, QueueOffset]]:
        """What has to be committed now; it counts as told from here on."""
        found = []
        for queue, position in self._positions.items():
            if position.told != position.settled_to:
                position.told = position.settled_to
                found.append((queue, position.settled_to))
        return found

    def tell(self, queue: QueueRef) -> QueueOffset | None:
        """The same for one queue, None when there is nothing new."""
        position = self._positions.get(queue)
        if position is None or position.told == position.settled_to:
            return None
        position.told = position.settled_to
        return position.settled_to

    def failed(self, queue: QueueRef) -> None:
        """A commit did not arrive: try again next time."""
        if queue in self._positions:
            self._positions[queue].told = None

    def offsets(self) -> dict[QueueRef, QueueOffset]:
        """Where we are, for those who ask."""
        return {queue: position.settled_to for queue, position in self._positions.items()}
