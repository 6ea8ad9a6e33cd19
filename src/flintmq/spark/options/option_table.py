"""Options of the source and of the sink: what there is, what each takes, and reading them.

An `Option` says its name, its default, how its text is read and, in one line, what it is for; a
`OptionTable` holds those of one side.  The same table reads what a user gave and is what the
reference page is checked against.

Names are matched whatever their case, because Spark hands them over in lower case.  What Spark
itself adds is let through.  Any other name is `InvalidSetting`, which says the nearest one we
have; a value that cannot be used says what is allowed.

Invariant: every value of `OptionValues` was made by the option's ``parse``, or is its default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from flintmq.errors import InvalidName, InvalidSetting

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

SPARKS_OWN: Final = frozenset(
    {
        "path",  # load(PATH), save(PATH), start(PATH)
        "paths",  # load([PATH, …])
        "checkpointlocation",  # of writeStream, whatever the sink
        "queryname",  # of writeStream.queryName
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        # What CREATE TABLE … USING rocketmq adds to the options of the statement.
        "location",
        "owner",
        "provider",
        "comment",
        "external",
        "collation",
    }
)
"""What arrives at a data source without being meant for it, as seen with pyspark 4.3."""

SPARKS_PREFIX: Final = "option."
"""CREATE TABLE repeats every option with this before its name."""

TRUE_OR_FALSE: Final = {"true": True, "false": False}

WHOLE_MAX: Final = 2**63 - 1
"""Spark and RocketMQ count in 64 bits."""

SHOWN_CHARACTERS_MAX: Final = 80
"""How much of a refused value is repeated."""

DURATION_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DURATION = re.compile(r"([0-9]{1,12}) *([a-z]*)")


class NotAllowed(ValueError):
    """What a ``parse`` raises; its text says what is allowed."""


@dataclass(frozen=True)  # no slots: Python 3.11 cannot make a generic one by Option[int](…)
class Option(Generic[T]):
    """One option.  ``about`` is its line of documentation, ``takes`` the form of its value."""

    name: str
    parse: Callable[[str], T]
    default: T
    takes: str
    about: str
    secret: bool = False
    """Its value is never repeated."""

    def read(self, text: str) -> T:
        """Its value, or `InvalidSetting` that says what is allowed."""
        try:
            return self.parse(text)
        except NotAllowed as error:
            raise InvalidSetting(self.name, self.shown(text), str(error)) from None
        except (InvalidSetting, InvalidName) as error:
            raise InvalidSetting(self.name, self.shown(text), error.reason) from None

    def shown(self, text: str) -> str:
        if self.secret:
            return "…"
        long = len(text) > SHOWN_CHARACTERS_MAX
        return text[: SHOWN_CHARACTERS_MAX - 1] + "…" if long else text


@dataclass(frozen=True, slots=True)
class OptionTable:
    """The options of one side, in the order of its documentation.

    ``instead`` says, for options of other sources that people bring along, what to do here.  Its
    keys are in lower case; one that ends in a dot stands for all that start with it.
    """

    options: tuple[Option[Any], ...]
    instead: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Option[Any]]:
        return iter(self.options)

    def by_key(self) -> dict[str, Option[Any]]:
        """The options by their name in lower case."""
        found = {option.name.lower(): option for option in self.options}
        assert len(found) == len(self.options), "two options have one name"
        return found

    def hint(self, name: str) -> str:
        """What somebody who wrote this name probably wants."""
        key = name.lower()
        for start, instead in self.instead.items():
            if key == start or (start.endswith(".") and key.startswith(start)):
                return instead
        known = self.by_key()
        near = get_close_matches(key, known, 1, cutoff=0.5)
        return f"did you mean {known[near[0]].name}?" if near else "there is no such option"


class OptionValues:
    """What was read: a value for every option of the table."""

    def __init__(self, table: OptionTable, texts: Mapping[str, str]) -> None:
        known = table.by_key()
        self._texts = {known[key].name: text for key, text in texts.items()}
        self._values: dict[str, Any] = {
            option.name: option.read(self._texts[option.name])
            if option.name in self._texts
            else option.default
            for option in table
        }

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self._values[option.name]
        return value

    def __contains__(self, option: Option[Any]) -> bool:
        """Whether the option was given."""
        return option.name in self._texts

    def refuse(self, option: Option[Any], reason: str) -> InvalidSetting:
        """The error for a value that does not fit to the others."""
        return InvalidSetting(option.name, option.shown(self._texts.get(option.name, "")), reason)

    def at_most_one(self, *options: Option[Any]) -> None:
        """Raise `InvalidSetting` when more than one of them was given."""
        given = [option for option in options if option in self]
        if len(given) > 1:
            others = " and ".join(option.name for option in given[1:])
            raise self.refuse(given[0], f"contradicts {others}: give one of them")

    def needs(self, option: Option[Any], *needed: Option[Any]) -> None:
        """Raise `InvalidSetting` when one was given without any of those it is for."""
        if option in self and not any(other in self for other in needed):
            names = " or ".join(other.name for other in needed)
            raise self.refuse(option, f"has no meaning without {names}")


def read_options(given: Mapping[str, str], table: OptionTable, *, what: str) -> OptionValues:
    """Read what a user gave.  ``what`` is whose options they are: "the source", "the sink"."""
    known = table.by_key()
    texts: dict[str, str] = {}
    for name, text in given.items():
        key = name.lower()
        if key in known:
            texts[key] = text
        elif key not in SPARKS_OWN and not key.startswith(SPARKS_PREFIX):
            raise InvalidSetting(name, "…", f"{what} has no such option: {table.hint(name)}")
    return OptionValues(table, texts)


def text(given: str) -> str:
    """Any text but none."""
    if not given.strip():
        raise NotAllowed("must not be empty")
    return given.strip()


def exact(given: str) -> str:
    """Any text but none, with its blanks: for secrets."""
    if not given:
        raise NotAllowed("must not be empty")
    return given


def true_or_false(given: str) -> bool:
    value = TRUE_OR_FALSE.get(given.strip().lower())
    if value is None:
        raise NotAllowed("give true or false")
    return value


def whole(least: int, most: int = WHOLE_MAX) -> Callable[[str], int]:
    """A whole number within bounds."""

    def parse(given: str) -> int:
        digits = given.strip().removeprefix("-")
        number = int(given) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
        if number is None or not least <= number <= most:
            bounds = f"from {least} on" if most == WHOLE_MAX else f"from {least} to {most}"
            raise NotAllowed(f"give a whole number {bounds}")
        return number

    return parse


def one_of(kind: type[E]) -> Callable[[str], E]:
    """One of the words of an enumeration."""

    def parse(given: str) -> E:
        try:
            return kind(given.strip().lower())
        except ValueError:
            raise NotAllowed(f"give one of {', '.join(kind)}") from None

    return parse


def names(given: str) -> tuple[str, ...]:
    """Names with commas between them, each once."""
    found = tuple(name.strip() for name in given.split(","))
    if not all(found):
        raise NotAllowed("give names with commas between them")
    twice = [name for name in found if found.count(name) > 1]
    if twice:
        raise NotAllowed(f"{twice[0]} is there twice")
    return found


def duration_ms(given: str) -> int:
    """``15m``, ``10s``, ``500ms``; a bare number counts milliseconds, as with Kafka's source."""
    found = _DURATION.fullmatch(given.strip().lower())
    unit_ms = DURATION_UNITS_MS.get(found[2] or "ms") if found else None
    if found is None or unit_ms is None:
        raise NotAllowed(f"give a duration such as 15m or 10s, in {', '.join(DURATION_UNITS_MS)}")
    return int(found[1]) * unit_ms
