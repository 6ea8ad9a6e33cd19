"""Notices when the loop is blocked: counts it, and says in the log what ran.

    a read or a turn took longer than 20 ms ─► counted, with its name
    a timer fired later than that           ─► counted, for whatever nobody measured

At rest it costs ten wakeups a second.  One line in ten seconds is logged at most, and it tells
how many it stands for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from flintmq.logs import logger

log = logger(__name__)

STALL_S = 0.020
"""The longest time for which the loop may serve nobody else."""

LOGGED_S = 0.100
"""What is logged: five times as long, which clients begin to notice."""

LOG_EVERY_S = 10.0
"""One line in this time, so that a busy hour does not fill the log."""

BEAT_S = 0.100
"""How often the timer looks."""


class Stalls:
    """How often the loop was blocked, and for how long at most."""

    __slots__ = ("_logged_s", "_unlogged", "count", "explained_s", "longest_s")

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0
        self.explained_s = 0.0
        """Blocked time with a name since the timer last looked."""
        self._logged_s = -LOG_EVERY_S
        self._unlogged = 0

    def record(self, took_s: float, what: str, code: int = 0) -> None:
        """The loop was blocked by something; shorter than `STALL_S` does not count."""
        if took_s < STALL_S:
            return
        self.count += 1
        self.longest_s = max(self.longest_s, took_s)
        self.explained_s += took_s
        if took_s < LOGGED_S:
            return
        self._unlogged += 1
        now_s = perf_counter()
        if now_s - self._logged_s >= LOG_EVERY_S:
            of = f", request {code}" if code else ""
            log.warning(
                "the loop was blocked for %d ms by %s%s; %d times since the last such line",
                took_s * 1000,
                what,
                of,
                self._unlogged,
            )
            self._logged_s, self._unlogged = now_s, 0


class LoopWatch:
    """A timer that sees how late it is.  It belongs to the loop it was made on."""

    def __init__(self, stalls: Stalls, clock: Callable[[], float] = perf_counter) -> None:
        self.stalls = stalls
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self.stalls.explained_s = 0.0
        self._due_s = self._clock() + BEAT_S
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        late_s = self._clock() - self._due_s
        self.stalls.record(late_s - self.stalls.explained_s, "something that is not measured")
        self._wait()
