"""Properties of the messages of one pull answer: parsed at first use, repeated strings only once.

Many consumers read bodies alone, so a message has its properties as `LaterProperties`, a mapping
that parses its string when it is first used.

Messages of a topic mostly differ in nothing but their unique id.  The string without it is parsed
once; every further message that has the same one gets a copy.  It gives what `parse_properties`
gives, for a third of the cost where strings repeat.

Invariant: at most `KNOWN_MAX` strings are kept, and no longer than the messages of their answer.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Final, TypeVar, overload

import msgspec

from flintmq.model.properties import UNIQ_KEY
from flintmq.protocol.records.properties import parse_properties, split_unique_id

KNOWN_MAX: Final = 64
"""Strings kept for one answer; where more differ, keeping them does not pay."""

T = TypeVar("T")


class PropertyMemo:
    """The cache for one answer.  ``more`` is added to the properties of every message."""

    __slots__ = ("_known", "_more")

    def __init__(self, more: dict[str, str]) -> None:
        self._more = more
        self._known: dict[bytes, dict[str, str]] = {}

    def parse(self, octets: bytes) -> dict[str, str]:
        """Every property of the string; the caller owns the result."""
        parts = split_unique_id(octets)
        if parts is None:
            return self._parse(octets)
        before, unique_id, after = parts
        rest = before + after
        known = self._known.get(rest)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                return self._parse(octets)
            known = self._known[rest] = self._parse(rest)
        found = known.copy()
        if unique_id:
            found[UNIQ_KEY] = str(unique_id, "utf-8", "replace")
        return found

    def _parse(self, octets: bytes) -> dict[str, str]:
        found = parse_properties(octets)
        found.update(self._more)
        return found


class LaterProperties(msgspec.Struct, gc=False, eq=False):
    """A read-only mapping of names to texts.  A struct, since no other object is made as fast."""

    _octets: bytes
    _memo: PropertyMemo
    _found: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        found = self._found
        if found is None:  # threads that look at the same time find the same
            found = self._found = self._memo.parse(self._octets)
        return found

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: T) -> str | T: ...
    def get(self, name: str, default: object = None) -> object:
        if self._found is None and name == UNIQ_KEY:
            parts = split_unique_id(self._octets)  # many callers ask for nothing else
            if parts is not None and parts[1]:
                return str(parts[1], "utf-8", "replace")
        return self._all().get(name, default)

    def keys(self) -> KeysView[str]:
        return self._all().keys()

    def values(self) -> ValuesView[str]:
        return self._all().values()

    def items(self) -> ItemsView[str, str]:
        return self._all().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self._all() == dict(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a dict

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        return self._all() | dict(other)

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        return dict(other) | self._all()

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled is a plain dict."""
        return dict, (self._all(),)


Mapping.register(LaterProperties)
