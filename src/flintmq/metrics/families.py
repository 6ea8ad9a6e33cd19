"""What a metric is called, what it means, and its values at one moment.

Invariant: a sample has one value for each label of its family; a distribution has one count for
each of its bounds, and one for what is above them all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Kind(Enum):
    """How a value may change."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.  A counter is named with its ``_total``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """The upper ends of a histogram's buckets, without the last one, which has none."""


def counter(name: str, help_text: str, *labels: str) -> Family:
    assert name.endswith("_total"), name
    return Family(name, Kind.COUNTER, help_text, labels)


def gauge(name: str, help_text: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, help_text, labels)


def histogram(name: str, help_text: str, bounds: Sequence[float], *labels: str) -> Family:
    return Family(name, Kind.HISTOGRAM, help_text, labels, tuple(bounds))


class Distribution:
    """How many values fell between which bounds, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value that came ``times`` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    def copy(self) -> Distribution:
        made = Distribution(self.bounds)
        made.counts = list(self.counts)
        made.sum = self.sum
        return made


Value: TypeAlias = "float | Distribution"


@dataclass(slots=True)
class Samples:
    """The values of a family at one moment."""

    family: Family
    rows: list[tuple[tuple[str, ...], Value]] = field(default_factory=list)

    def add(self, value: Value, *labels: str) -> None:
        assert len(labels) == len(self.family.labels), (self.family.name, labels)
        if isinstance(value, Distribution):
            value = value.copy()  # it is written in another thread
        self.rows.append((labels, value))


Work: TypeAlias = Iterator["Samples | None"]
"""Makes samples; between any two of its steps, a millisecond at most, others may be served."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All samples of one server at one moment, and the labels they have in common."""

    common: Mapping[str, str]
    samples: Sequence[Samples]


def truth(value: bool) -> str:
    """A label that says yes or no, as RocketMQ writes it."""
    return "true" if value else "false"
