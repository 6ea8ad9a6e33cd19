"""When to look at each of many things again.

An item is on the agenda at most once that counts: the earliest time that was asked for.  Others
stay in the heap until they come up and are passed over.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Items by the time they are due.  Items are compared by identity or hash."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._due: dict[T, int] = {}
        self._serial = 0

    def schedule(self, item: T, due_ms: int | None) -> None:
        """Have ``item`` due at a time, unless it is due sooner.  None changes nothing."""
        if due_ms is None:
            return
        known_ms = self._due.get(item)
        if known_ms is not None and known_ms <= due_ms:
            return
        self._due[item] = due_ms
        self._serial += 1
        heapq.heappush(self._heap, (due_ms, self._serial, item))

    def drop(self, item: T) -> None:
        self._due.pop(item, None)

    def pop_due(self, now_ms: int) -> list[T]:
        """Remove and return the items that are due."""
        heap, due, found = self._heap, self._due, []
        while heap and heap[0][0] <= now_ms:
            due_ms, _, item = heapq.heappop(heap)
            if due.get(item) == due_ms:
                del due[item]
                found.append(item)
        return found

    def next_due_ms(self) -> int | None:
        heap = self._heap
        while heap:
            due_ms, _, item = heap[0]
            if self._due.get(item) == due_ms:
                return due_ms
            heapq.heappop(heap)
        return None
