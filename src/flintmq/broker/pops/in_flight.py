"""Messages that were popped and are neither acknowledged nor back: in flight.

    add ──► in flight ─┬─ ack of its last message ──► forgotten
                       └─ its time has come ────────► `due`, and back through the retry topic

The log has every pop and every acknowledgement (`scheduled/pop_journal`); this table is what
follows from them.  An offset that a pop has handed out counts at once, and becomes the group's
offset when the checkpoint of the pop is written.

Invariant: a message of the table is in a checkpoint of the log at or after `low_offset`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from flintmq.model.queue import QueueOffset
from flintmq.protocol.pop.journal import PopKey

TIMER_SOURCE: Final = -1
"""The journal of this broker; a number from 0 on is a queue of the revive topic."""

BLOCK: Final = 1_024
"""Journal offsets that are counted together, to know the first that is still needed."""

STALE_MAX: Final = 1_024
"""Entries of the heap beyond twice the number of pops before it is cleaned."""

MESSAGES_MAX: Final = 1_000_000
"""Messages in flight: about 200 MB when every pop takes one."""

Place: TypeAlias = tuple[str, str, int]
"""Topic, group and queue."""


class InFlightPop(msgspec.Struct, gc=False, eq=False):
    """The messages of one pop of one queue.  Compared by identity."""

    key: PopKey
    offsets: tuple[int, ...]
    invisible_ms: int
    revive_queue_id: int
    source: int
    journal_offset: int
    acked: int = 0
    """Bit ``i`` is the message ``offsets[i]``."""
    is_withdrawn: bool = False
    """Whether its checkpoint could not be written."""

    @property
    def due_ms(self) -> int:
        """When its messages come back."""
        return self.key.pop_ms + self.invisible_ms

    def waits_for(self, offset: int) -> bool:
        """Whether a message of it is not acknowledged."""
        offsets = self.offsets
        return offset in offsets and not self.acked >> offsets.index(offset) & 1

    @property
    def unacked_count(self) -> int:
        return len(self.offsets) - self.acked.bit_count()

    @property
    def unacked(self) -> list[QueueOffset]:
        return [
            QueueOffset(offset)
            for index, offset in enumerate(self.offsets)
            if not self.acked >> index & 1
        ]


class InFlight:
    """All messages in flight, by their pop."""

    def __init__(self) -> None:
        self._pops: dict[PopKey, InFlightPop] = {}
        self._heap: list[tuple[int, int, InFlightPop]] = []
        self._serial = 0
        self._blocks: dict[int, dict[int, int]] = {}  # by source: checkpoints of each block
        self._counts: dict[Place, int] = {}  # messages
        self._handed_out: dict[Place, int] = {}
        self.message_count = 0
        """Messages in flight."""
        self.revived_count = 0
        """Messages that came back since the start."""

    def __len__(self) -> int:
        """How many pops have messages in flight."""
        return len(self._pops)

    def __contains__(self, key: PopKey) -> bool:
        return key in self._pops

    def __iter__(self) -> Iterator[InFlightPop]:
        return iter(tuple(self._pops.values()))

    def find(self, key: PopKey) -> InFlightPop | None:
        return self._pops.get(key)

    def add(self, pop: InFlightPop) -> None:
        """Messages were handed out."""
        assert pop.key not in self._pops, pop.key
        self._pops[pop.key] = pop
        self._serial += 1
        heapq.heappush(self._heap, (pop.due_ms, self._serial, pop))
        blocks = self._blocks.setdefault(pop.source, {})
        block = pop.journal_offset // BLOCK
        blocks[block] = blocks.get(block, 0) + 1
        self._count(pop.key, pop.unacked_count)
        if len(self._heap) > 2 * len(self._pops) + STALE_MAX:
            self._heap = [entry for entry in self._heap if self._has(entry[2])]
            heapq.heapify(self._heap)

    def ack(self, key: PopKey, offsets: Iterable[int]) -> list[int]:
        """Messages are done with; tells which of these were in flight."""
        pop = self._pops.get(key)
        if pop is None:
            return []
        fresh = []
        for offset in offsets:
            if offset in pop.offsets:
                bit = 1 << pop.offsets.index(offset)
                if not pop.acked & bit:
                    pop.acked |= bit
                    fresh.append(offset)
        self._count(key, -len(fresh))
        if not pop.unacked_count:
            self._forget(pop)
        return fresh

    def take_back(self, pop: InFlightPop, offsets: Iterable[int]) -> None:
        """An acknowledgement could not be written: these messages are in flight again."""
        if pop.is_withdrawn:
            return
        freed = sum(1 << pop.offsets.index(offset) for offset in offsets)
        pop.acked &= ~freed
        if self._has(pop):
            self._count(pop.key, freed.bit_count())
        else:
            self.add(pop)

    def withdraw(self, pop: InFlightPop) -> None:
        """A checkpoint could not be written: nothing was handed out."""
        pop.is_withdrawn = True
        self.remove(pop)

    def remove(self, pop: InFlightPop) -> None:
        """Its messages are back, or it is written off."""
        if self._has(pop):
            self._count(pop.key, -pop.unacked_count)
            self._forget(pop)

    def of_topic(self, topic: str) -> list[InFlightPop]:
        return [pop for pop in self._pops.values() if pop.key.topic == topic]

    def of_group(self, group: str) -> list[InFlightPop]:
        return [pop for pop in self._pops.values() if pop.key.group == group]

    # The clock

    def due(self, now_ms: int) -> InFlightPop | None:
        """The first pop whose time has come; it stays until it is removed or put off."""
        self._clean()
        if self._heap and self._heap[0][0] <= now_ms:
            return self._heap[0][2]
        return None

    def take_due(self) -> None:
        """The pop that `due` gave is under way."""
        heapq.heappop(self._heap)

    def put_off(self, pop: InFlightPop, until_ms: int) -> None:
        """A pop that was under way is not back: `due` gives it again."""
        if self._has(pop):
            self._serial += 1
            heapq.heappush(self._heap, (until_ms, self._serial, pop))

    def next_due_ms(self) -> int | None:
        self._clean()
        return self._heap[0][0] if self._heap else None

    # What is needed of the journal

    def low_offset(self, source: int) -> int | None:
        """Where the checkpoints begin that are still needed; None: none is."""
        first = next(iter(self._blocks.get(source, ())), None)
        return None if first is None else first * BLOCK

    # Offsets that are handed out in the turn under way

    def hand_out(self, place: Place, next_offset: int) -> None:
        self._handed_out[place] = next_offset

    def handed_out(self, place: Place) -> int | None:
        return self._handed_out.get(place)

    def settle(self, place: Place, next_offset: int) -> None:
        """The turn is over: the group's offset counts again."""
        if self._handed_out.get(place) == next_offset:
            del self._handed_out[place]

    # Counting

    def count_of(self, place: Place) -> int:
        """Messages of a queue in flight for a group."""
        return self._counts.get(place, 0)

    def counts(self) -> Counter[tuple[str, str]]:
        """Messages in flight by topic and group."""
        counts: Counter[tuple[str, str]] = Counter()
        for (topic, group, _), count in self._counts.items():
            counts[topic, group] += count
        return counts

    def _count(self, key: PopKey, more: int) -> None:
        self.message_count += more
        place = key.topic, key.group, key.queue_id
        count = self._counts.get(place, 0) + more
        if count:
            self._counts[place] = count
        else:
            self._counts.pop(place, None)

    def _has(self, pop: InFlightPop) -> bool:
        return self._pops.get(pop.key) is pop

    def _clean(self) -> None:
        heap = self._heap
        while heap and not self._has(heap[0][2]):
            heapq.heappop(heap)

    def _forget(self, pop: InFlightPop) -> None:
        del self._pops[pop.key]
        blocks, block = self._blocks[pop.source], pop.journal_offset // BLOCK
        blocks[block] -= 1
        if not blocks[block]:
            del blocks[block]
