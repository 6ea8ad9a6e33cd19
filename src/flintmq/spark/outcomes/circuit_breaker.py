"""The circuit breaker of a run: a listener that raises in call after call ends it.

    in a task       calls that raised in a row, of one listener ──at the limit──► `CircuitOpen`
    in the driver   the same over micro-batches that are too small for that ──► the run is stopped

A call that does not raise begins the count anew, also one that asks for a retry: the listener
decides then.  Without a limit nothing is counted.

A task that reaches the limit fails, and its micro-batch with it, so no offset of it is committed.
The calls of the page that raised last are not sent back yet: those messages come again as they
are.  Where Spark tries a task again, the listener is called again, as often at most.

Invariant: at most ``failures_max`` calls in a row of one task raise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from flintmq.core.group.listener_results import shown
from flintmq.errors import CircuitOpen

FAILURES_BOUNDS: Final = (1, 1_000_000)
"""What ``failures_max`` may be."""

_SENTENCE: Final = re.compile(
    r"listener (?P<listener>\S+) of topic '(?P<topic>[^']*)' in group '(?P<group>[^']*)' raised in "
    r"(?P<failures>\d+) calls in a row, the last time (?P<error>.*); the run is stopped"
)
"""What `CircuitOpen` says: an error comes back from a task of Spark as text."""


class FailureStreak:
    """The calls of one task that raised in a row, by topic."""

    def __init__(self, group: str, failures_max: int | None) -> None:
        self._group = group
        self._failures_max = failures_max
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        """Whether anything is counted."""
        return self._failures_max is not None

    def raised(self, topic: str, listener: object, error: BaseException) -> None:
        """A call raised; `CircuitOpen` when that were too many."""
        if self._failures_max is None:
            return
        count = self._counts[topic] = self._counts.get(topic, 0) + 1
        if count >= self._failures_max:
            name = listener_name(listener)
            raise CircuitOpen(self._group, topic, name, count, shown(error)) from error

    def ended(self, topic: str) -> None:
        """A call did not raise."""
        self._counts.pop(topic, None)


class CircuitBreaker:
    """The calls of a run that raised in a row, over its micro-batches, by topic."""

    def __init__(self, group: str, names: Mapping[str, str], failures_max: int) -> None:
        """``names`` are the listeners by topic."""
        self._group = group
        self._names = names
        self._failures_max = failures_max
        self._counts: dict[str, int] = {}
        self.opened: CircuitOpen | None = None
        """What a task of a micro-batch that failed said."""

    def batch_failed(self, text: str) -> None:
        """A micro-batch failed, and Spark says so much of it."""
        self.opened = read_circuit_open(text) or self.opened

    def batch_ended(
        self, calls: Mapping[str, int], raised: Mapping[str, tuple[int, str]]
    ) -> CircuitOpen | None:
        """Calls of a micro-batch by topic, and those that raised, with the last error."""
        for topic, count in calls.items():
            failed, error = raised.get(topic, (0, ""))
            if failed < count:
                self._counts.pop(topic, None)
            elif failed:
                total = self._counts[topic] = self._counts.get(topic, 0) + failed
                if total >= self._failures_max:
                    name = self._names.get(topic, "")
                    return CircuitOpen(self._group, topic, name, total, error)
        return None


def listener_name(listener: object) -> str:
    """How an error names a listener."""
    return str(getattr(listener, "__qualname__", None) or type(listener).__qualname__)


def read_circuit_open(text: str) -> CircuitOpen | None:
    """The `CircuitOpen` of a task in what Spark says of a query that failed."""
    found = _SENTENCE.search(text)
    if found is None:
        return None
    return CircuitOpen(
        found["group"], found["topic"], found["listener"], int(found["failures"]), found["error"]
    )
