"""Values that were worked out from texts of peers, remembered by the text.

Peers choose the texts, so both their number and their length are limited.  A text that is asked
for stays; one that nobody asked for while half of the room was filled is forgotten.

Invariant: the characters kept are never more than ``characters_max``, and a text counts for at
least `ENTRY_CHARACTERS`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")

ENTRY_CHARACTERS = 128
"""What a short text counts for: its place in the table and the value behind it."""


class TextCache(Generic[V]):
    """Two tables: what was asked for lately, and what was before that."""

    def __init__(self, characters_max: int) -> None:
        self._half = characters_max // 2
        self._young: dict[str, V] = {}
        self._old: dict[str, V] = {}
        self._young_characters = 0
        self._old_characters = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __contains__(self, text: str) -> bool:
        return text in self._young or text in self._old

    @property
    def characters(self) -> int:
        """How many are kept."""
        return self._young_characters + self._old_characters

    def get(self, text: str) -> V | None:
        found = self._young.get(text)
        if found is None and (found := self._old.pop(text, None)) is not None:
            self._old_characters -= _weight(text)
            self._add(text, found)
        return found

    def put(self, text: str, value: V) -> None:
        """Remember a value, unless its text alone would fill the room."""
        if text not in self and _weight(text) <= self._half:
            self._add(text, value)

    def _add(self, text: str, value: V) -> None:
        if self._young_characters + _weight(text) > self._half:
            self._old, self._old_characters = self._young, self._young_characters
            self._young, self._young_characters = {}, 0
        self._young[text] = value
        self._young_characters += _weight(text)


def _weight(text: str) -> int:
    return len(text) + ENTRY_CHARACTERS
