"""Queues that are popped in order: one batch at a time, until it is acknowledged or expires.

    pop ──► blocked ─┬─ every message acknowledged, or visible again ──► free
                     └─ a pop with the same attempt id gets the same messages again

Nothing is written for a batch that expires: the group's offset stays at its first message
that is not acknowledged, and the next pop reads from there, acknowledged ones after it included.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from flintmq.broker.tables.offsets import SEPARATOR
from flintmq.protocol.pop.order_bodies import OrderedPop, OrderedPops, distances_of

UNUSED_MS: Final = 24 * 3_600_000
"""An entry that was not used for so long is left out of the saved table."""

OrderedQueue: TypeAlias = tuple[str, str, int]
"""Topic, group and queue."""


class OrderedQueues:
    """The last ordered pop of every queue and group."""

    def __init__(self, saved: OrderedPops | None = None) -> None:
        self._table: dict[OrderedQueue, OrderedPop] = {}
        self._free: list[tuple[int, OrderedQueue]] = []
        self.is_dirty = False
        for key, queues in (saved.table if saved else {}).items():
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                for queue_id, pop in queues.items():
                    if pop.distances:
                        self.put((topic, group, queue_id), pop)

    def __len__(self) -> int:
        return len(self._table)

    def find(self, queue: OrderedQueue) -> OrderedPop | None:
        return self._table.get(queue)

    def is_blocked(self, queue: OrderedQueue, attempt_id: str | None, now_ms: int) -> bool:
        """Whether messages of the queue are hidden from this attempt."""
        pop = self._table.get(queue)
        if pop is None or (pop.attempt_id is not None and pop.attempt_id == attempt_id):
            return False
        return now_ms < pop.free_ms

    def hidden_count(self, queue: OrderedQueue, now_ms: int) -> int:
        """Messages of the batch that are neither acknowledged nor visible again."""
        pop = self._table.get(queue)
        return 0 if pop is None else sum(now_ms < each for each in pop.hidden_until_ms)

    def popped(
        self,
        queue: OrderedQueue,
        attempt_id: str | None,
        offsets: Sequence[int],
        invisible_ms: int,
        now_ms: int,
    ) -> OrderedPop:
        """The next batch of a queue, with how often its messages were delivered before."""
        before = self._table.get(queue)
        counts: dict[int, int] | None = None
        if before is not None:
            earlier = before.delivered_before or {}
            if attempt_id is not None and attempt_id == before.attempt_id:
                counts = dict(earlier)
            else:
                known = set(before.offsets)
                counts = {
                    offset: earlier.get(offset, 0) + 1 for offset in offsets if offset in known
                }
        pop = OrderedPop(
            attempt_id=attempt_id,
            invisible_ms=invisible_ms,
            consumed_ms=now_ms,
            distances=distances_of(offsets),
            delivered_before=counts,
            pop_time=now_ms,
        )
        self.put(queue, pop)
        return pop

    def acked(self, queue: OrderedQueue, pop: OrderedPop, offset: int) -> OrderedPop | None:
        """A message of the batch is done with; None: it is not in the batch."""
        offsets: list[int] = list(pop.offsets)
        if offset not in offsets:
            return None
        pop = replace(pop, acked=pop.acked | 1 << offsets.index(offset))
        self.put(queue, pop)
        return pop

    def hidden(
        self, queue: OrderedQueue, pop: OrderedPop, offset: int, until_ms: int
    ) -> OrderedPop:
        """A message of the batch becomes visible at another time."""
        pop = replace(pop, visible_ms={**(pop.visible_ms or {}), offset: until_ms})
        self.put(queue, pop)
        return pop

    def put(self, queue: OrderedQueue, pop: OrderedPop) -> None:
        self._table[queue] = pop
        self.is_dirty = True
        free_ms = pop.free_ms
        if free_ms:
            heapq.heappush(self._free, (free_ms, queue))

    def forget(self, queue: OrderedQueue) -> None:
        """The group was moved in the queue: nothing is hidden any more."""
        self.is_dirty |= self._table.pop(queue, None) is not None

    def remove_topic(self, topic: str) -> None:
        for queue in [queue for queue in self._table if queue[0] == topic]:
            self.forget(queue)

    def remove_group(self, group: str) -> None:
        for queue in [queue for queue in self._table if queue[1] == group]:
            self.forget(queue)

    # The clock

    def freed(self, now_ms: int) -> list[OrderedQueue]:
        """Queues that became free because a batch expired."""
        queues = []
        while self._free and self._free[0][0] <= now_ms:
            queue = heapq.heappop(self._free)[1]
            pop = self._table.get(queue)
            if pop is not None and pop.free_ms <= now_ms:
                queues.append(queue)
        return queues

    def next_due_ms(self) -> int | None:
        return self._free[0][0] if self._free else None

    # Saving

    def table(self, now_ms: int, is_known: Callable[[str, str], bool]) -> OrderedPops:
        """All of them but what is unused; ``is_known`` tells whether topic and group are there."""
        table: dict[str, dict[int, OrderedPop]] = {}
        for (topic, group, queue_id), pop in list(self._table.items()):
            if not is_known(topic, group) or now_ms - pop.consumed_ms > UNUSED_MS:
                del self._table[topic, group, queue_id]
            else:
                table.setdefault(f"{topic}{SEPARATOR}{group}", {})[queue_id] = pop
        return OrderedPops(table=table)
