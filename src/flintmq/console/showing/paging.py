"""Long lists: the rows of one page, chosen on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

ROWS: Final = 50
"""Rows of a page."""


@dataclass(frozen=True, slots=True)
class RowPage(Generic[T]):
    """Some rows of many; pages count from 1."""

    rows: Sequence[T]
    number: int
    total: int

    @classmethod
    def of(cls, rows: Sequence[T], number: int, size: int = ROWS) -> RowPage[T]:
        """The page with this number, or the last one there is."""
        last = max(1, -(-len(rows) // size))
        number = min(max(1, number), last)
        return cls(rows[(number - 1) * size : number * size], number, len(rows))

    @property
    def first(self) -> int:
        return (self.number - 1) * ROWS + 1 if self.total else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.total else 0

    @property
    def has_next(self) -> bool:
        return self.last < self.total
