"""Back-pressure: how many messages the next micro-batch has, so that listeners take a given time.

    program          a micro-batch ended, its listeners took so long ──► control file ``pace``
    source process   its tasks begin ──► the next one is planned ◄── `BatchPace` ◄──────┘

The time of listeners is that of the tasks, or of all their calls together if that is less: what
Spark needs for a micro-batch is there however few messages it has.

A micro-batch that took too long makes the next one smaller at once.  One that was quick makes it
larger only if it was full: a small one says nothing about what listeners could do.  The first has
`FIRST` messages.

The program looks four times a second.  The next micro-batch is not planned before its report came,
if the last one may have taken too long.

Invariant: a micro-batch has at least one message, and never more than the limit of the run.
"""

from __future__ import annotations

import time
from typing import Final

from flintmq.net.clock import Clock, monotonic_ms
from flintmq.spark.source.control_files import ControlFiles

PACE: Final = "pace"
"""The control file."""

FIRST: Final = 1_000
"""Messages of the first micro-batch: how long a listener takes is not known yet."""

GROWTH_MAX: Final = 4.0
"""By how much a micro-batch may be larger than the one before."""

FULL: Final = 0.5
"""A micro-batch with this part of the messages that it might have had says what is possible."""

TARGET_S_MAX: Final = 3_600
"""An hour."""

REPORT_MS: Final = 1_000
"""How long the report of the program is waited for: it looks four times in that time."""

LOOK_S: Final = 0.02


class BatchPace:
    """The size of the next micro-batch, for one that takes about ``target_ms``."""

    def __init__(self, target_ms: int) -> None:
        self._target_ms = target_ms
        self.size = FIRST

    def ended(self, messages: int, took_ms: int) -> None:
        """A micro-batch with so many messages took so long."""
        if not messages:
            return
        factor = self._target_ms / max(took_ms, 1)
        if factor < 1:
            self.size = max(1, min(self.size, round(messages * factor)))
        elif messages >= self.size * FULL:
            self.size = max(1, round(min(messages * factor, self.size * GROWTH_MAX)))


class PaceFile:
    """The size of micro-batches, in the source process; without a target it limits nothing."""

    def __init__(
        self, files: ControlFiles, target_ms: int | None, clock: Clock = monotonic_ms
    ) -> None:
        self._files = files
        self._clock = clock
        self._target_ms = target_ms
        self._pace = None if target_ms is None else BatchPace(target_ms)
        self._running: tuple[int, int] | None = None

    def started(self, messages: int) -> None:
        """The tasks of a micro-batch with so many messages begin."""
        self._running = (messages, self._clock())

    def limit(self, count_max: int | None, number: int) -> int | None:
        """The size of the micro-batch after the one with this number."""
        if self._pace is None:
            return count_max
        if self._running is not None:
            messages, since_ms = self._running
            self._running = None
            took_ms = self._took_ms(number, since_ms)
            if took_ms is not None:
                self._pace.ended(messages, took_ms)
        size = self._pace.size
        return size if count_max is None else min(size, count_max)

    def _took_ms(self, number: int, since_ms: int) -> int | None:
        """How long the micro-batch took; None where nobody says."""
        assert self._target_ms is not None
        elapsed_ms = self._clock() - since_ms
        deadline_ms = self._clock() + REPORT_MS
        while True:
            told = self._files.read(PACE)
            if told is not None and told["number"] == number:
                return int(told["took_ms"])
            if elapsed_ms <= self._target_ms:
                return elapsed_ms
            if self._clock() >= deadline_ms:
                return None
            time.sleep(LOOK_S)


def report_pace(files: ControlFiles, number: int, tasks_ms: int, calls_ms: float) -> None:
    """In the program: the tasks of a micro-batch took so long, and all calls of listeners."""
    files.write(PACE, {"number": number, "took_ms": min(tasks_ms, round(calls_ms))})
