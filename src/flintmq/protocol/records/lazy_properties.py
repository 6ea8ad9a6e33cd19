"""Properties of the messages of one answer: parsed when somebody looks, and what repeats once.

Many consumers read bodies alone, so a message has its properties as `LaterProperties`, a mapping
that parses its string at the first look.

Messages of a topic mostly differ in nothing but their unique id.  The string without it is parsed
once; every further message that has the same one gets a copy.  It gives what `parse_properties`
gives, for a third of the cost where strings repeat.

Invariant: at most `KNOWN_MAX` strings are remembered, and no longer than messages of their answer.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Final, TypeVar, overload

import msgspec

from flintmq.model.properties import UNIQ_KEY
from flintmq.protocol.records.properties import parse_properties

KNOWN_MAX: Final = 64
"""Where more differ, remembering them does not pay."""

_START = UNIQ_KEY.encode() + b"\x01"
_START_BYTES = len(_START)
_SEPARATOR = 2

T = TypeVar("T")


class PropertyMemo:
    """The memory for one answer.  ``more`` is added to the properties of every message."""

    __slots__ = ("_known", "_more")

    def __init__(self, more: dict[str, str]) -> None:
        self._more = more
        self._known: dict[bytes, dict[str, str]] = {}

    def parse(self, octets: bytes) -> dict[str, str]:
        """Every property of the string; the caller owns the result."""
        at = octets.find(_START)
        if at < 0 or (at > 0 and octets[at - 1] != _SEPARATOR):
            return self._parse(octets)
        stop = octets.find(_SEPARATOR, at)
        if stop < 0:
            stop = len(octets)
        rest = octets[:at] + octets[stop + 1 :]
        known = self._known.get(rest)
        if known is None:
            if len(self._known) >= KNOWN_MAX or _START in rest:
                return self._parse(octets)
            known = self._known[rest] = self._parse(rest)
        found = known.copy()
        unique_id = octets[at + _START_BYTES : stop]
        if unique_id:
            found[UNIQ_KEY] = str(unique_id, "utf-8", "replace")
        return found

    def _parse(self, octets: bytes) -> dict[str, str]:
        found = parse_properties(octets)
        found.update(self._more)
        return found


def _unique_id(octets: bytes) -> str | None:
    """The unique id alone, which many ask for and nothing else; None where it is not plain."""
    at = octets.find(_START)
    if at < 0 or (at > 0 and octets[at - 1] != _SEPARATOR):
        return None
    stop = octets.find(_SEPARATOR, at)
    if stop < 0:
        stop = len(octets)
    elif octets.find(_START, stop) >= 0:
        return None
    return str(octets[at + _START_BYTES : stop], "utf-8", "replace")


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
            unique_id = _unique_id(self._octets)
            if unique_id:
                return unique_id
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
