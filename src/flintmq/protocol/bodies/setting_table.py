"""The settings of a server under RocketMQ's names: read from a file, shown, and changed by peers.

A table ties each key of broker.conf or namesrv.conf to a field of a frozen dataclass.  The same
table reads the file, shows the settings to admin tools and takes the changes they ask for.

A key with a value that makes no sense is `InvalidSetting`, which names key, value and what is
allowed; Java would go on with the default.  So is a value that promises something the server does
not do.

Invariant: over the wire only keys marked ``live`` change, and numbers stay in their range for
peers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeVar

from flintmq.errors import InvalidSetting

D = TypeVar("D")

INT32_MAX = 2**31 - 1

SHOWN_CHARACTERS_MAX = 80
"""How much of a key or value from a peer or a file an error shows."""


class Setting(NamedTuple):
    """How a key becomes a field, and the field the key again."""

    path: str
    """Field names with dots between them."""
    read: Callable[[str], object]
    """Raises `ValueError` with what is allowed, or `InvalidSetting`."""
    show: Callable[[Any], str] = str
    live: bool = False
    read_live: Callable[[str], object] | None = None
    """What a peer may set, where that is less than what the file may."""


def truth(path: str, *, live: bool = False) -> Setting:
    """True or false."""

    def read(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("it must be true or false")
        return text.lower() == "true"

    return Setting(path, read, lambda value: "true" if value else "false", live)


def number(
    path: str,
    low: int,
    high: int = INT32_MAX,
    *,
    unit: int = 1,
    step: int = 1,
    live: tuple[int, int] | None = None,
) -> Setting:
    """A whole number in a range.  ``unit`` is what one of it means in the field's own unit.

    A number between two steps counts as the next one.  ``live`` is the range for peers.
    """

    def reader(low: int, high: int) -> Callable[[str], int]:
        def read(text: str) -> int:
            if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) or not low <= int(text) <= high:
                raise ValueError(f"it must be a number from {low} to {high}")
            return -(-int(text) // step) * step * unit

        return read

    read_live = None if live is None else reader(*live)
    return Setting(
        path, reader(low, high), lambda value: str(value // unit), live is not None, read_live
    )


def words(path: str) -> Setting:
    """Any text but none."""

    def read(text: str) -> str:
        if not text:
            raise ValueError("it must not be empty")
        return text

    return Setting(path, read)


@dataclass(frozen=True, slots=True)
class SettingTable:
    """All keys of one server.  ``only`` are served with the values given there and no others."""

    settings: Mapping[str, Setting]
    only: Mapping[str, tuple[str, ...]]

    def __contains__(self, key: str) -> bool:
        return key in self.settings or key in self.only

    def read(self, texts: Mapping[str, str]) -> dict[str, object]:
        """The fields that these keys of a file set, by path."""
        changes: dict[str, object] = {}
        for key, text in texts.items():
            setting = self.settings.get(key)
            changes |= self._read(key, text, None if setting is None else setting.read)
        return changes

    def read_live(self, texts: Mapping[str, str]) -> dict[str, object]:
        """The fields that a peer sets, by path; `InvalidSetting` for a key it may not change."""
        changes: dict[str, object] = {}
        for key, text in texts.items():
            setting = self.settings.get(key)
            if setting is None or not setting.live:
                raise invalid(key, text, "it cannot be changed while running")
            changes |= self._read(key, text.strip(), setting.read_live or setting.read)
        return changes

    def show(self, value: object) -> dict[str, str]:
        """Every key in order of names, without those whose field is None."""
        shown = {key: values[0] for key, values in self.only.items()}
        for key, setting in self.settings.items():
            field = value
            for name in setting.path.split("."):
                field = getattr(field, name)
            if field is not None:
                shown[key] = setting.show(field)
        return dict(sorted(shown.items()))

    def _read(self, key: str, text: str, read: Callable[[str], object] | None) -> dict[str, object]:
        if read is None:
            if text.lower() not in (value.lower() for value in self.only[key]):
                raise invalid(key, text, f"only {' or '.join(self.only[key])} is served")
            return {}
        try:
            return {self.settings[key].path: read(text)}
        except InvalidSetting as error:
            raise invalid(key, text, error.reason) from None
        except ValueError as error:
            raise invalid(key, text, str(error)) from None


def invalid(key: str, text: str, reason: str) -> InvalidSetting:
    """The error for a key and its value, which may be as long as a peer likes."""
    return InvalidSetting(key[:SHOWN_CHARACTERS_MAX], text[:SHOWN_CHARACTERS_MAX], reason)


def changed(value: D, changes: Mapping[str, object]) -> D:
    """A frozen dataclass with the fields of these dotted paths replaced, all at once."""
    assert is_dataclass(value)
    replaced: dict[str, object] = {}
    for one in fields(value):
        inner = {
            path.partition(".")[2]: new
            for path, new in changes.items()
            if path.partition(".")[0] == one.name
        }
        if "" in inner:
            replaced[one.name] = inner[""]
        elif inner:
            replaced[one.name] = changed(getattr(value, one.name), inner)
    result: D = replace(value, **replaced)  # type: ignore[type-var]  # asserted above
    return result
