"""What became of each message so far, whoever consumed it.

An attempt is one message in one call of a listener.  Attempts on Spark arrive with the batch they
were part of, those on threads at once; when they were made is in each of them.

Invariant: a message that counts as consumed was said to be so by its listener.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from flintmq.spark.listeners.outcome_rows import OutcomeKind

SPARK: Final = "Spark"
THREADS: Final = "threads"


class Attempt(NamedTuple):
    """One message in one call of its listener.  ``started_us`` counts from 1970."""

    topic: str
    message_id: str
    outcome: str
    started_us: int


@dataclass(frozen=True, slots=True)
class Totals:
    """How far it is.  ``consumed`` and ``dead`` count messages, the others count attempts."""

    consumed: int
    dead: int
    repeats: int
    sent_back: int
    by: dict[str, int]


class Tally:
    """Counts attempts.  Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._consumed: dict[str, str] = {}
        self._dead: set[str] = set()
        self._repeats = 0
        self._sent_back = 0
        self._by: Counter[str] = Counter()
        self._seconds: dict[str, Counter[int]] = {}

    def take(self, run_by: str, attempts: Iterable[Attempt]) -> None:
        with self._lock:
            for each in attempts:
                self._take(run_by, each)

    def _take(self, run_by: str, attempt: Attempt) -> None:
        if attempt.outcome == OutcomeKind.SENT_BACK:
            self._sent_back += 1
        elif attempt.outcome == OutcomeKind.DEAD:
            self._repeats += attempt.message_id in self._dead
            self._dead.add(attempt.message_id)
        elif attempt.outcome == OutcomeKind.CONSUMED:
            self._repeats += attempt.message_id in self._consumed
            self._consumed.setdefault(attempt.message_id, attempt.topic)
            self._by[run_by] += 1
            seconds = self._seconds.setdefault(run_by, Counter())
            seconds[attempt.started_us // 1_000_000] += 1

    def totals(self) -> Totals:
        with self._lock:
            return Totals(
                len(self._consumed), len(self._dead), self._repeats, self._sent_back, dict(self._by)
            )

    def consumed(self, topic: str | None = None) -> frozenset[str]:
        """The ids of messages that were consumed, of one topic or of all."""
        with self._lock:
            return frozenset(
                message_id
                for message_id, found in self._consumed.items()
                if topic is None or found == topic
            )

    def seconds(self, run_by: str) -> dict[int, int]:
        """How many were consumed in each second since 1970; seconds without any are left out."""
        with self._lock:
            return dict(self._seconds.get(run_by, ()))
