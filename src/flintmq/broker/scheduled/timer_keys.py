"""Timer messages as numbers that sort by time, then by queue offset."""

from __future__ import annotations

from typing import Final

OFFSET_BITS: Final = 44
"""Of a key, for the queue offset; the time is above them."""

OFFSETS: Final = (1 << OFFSET_BITS) - 1


def key_of(due_ms: int, offset: int) -> int:
    return (due_ms << OFFSET_BITS) | (offset & OFFSETS)


def keys_up_to(heap: list[int], last: int) -> list[int]:
    """The keys of a heap that are not above ``last``; no others are looked at."""
    found = []
    places = [0]
    while places:
        place = places.pop()
        if place < len(heap) and heap[place] <= last:
            found.append(heap[place])
            places += (2 * place + 1, 2 * place + 2)
    return found
