"""Long work on the loop in short parts: a few milliseconds in each turn, then others are served.

The work is a function that goes on from where it was.  It is given the question whether its
time is over, and says whether there is more to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import TypeAlias

PART_S = 0.005
"""Time for one part: a quarter of the longest time that the loop may be blocked."""

Work: TypeAlias = Callable[[Callable[[], bool]], bool]
"""Works until the time is over; says whether something is left."""


class InParts:
    """Work that goes on until nothing is left.  It belongs to the loop it was made on."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._is_due = False

    def go_on(self) -> None:
        """There is something to do: begin with it in the next turn."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        end = perf_counter() + PART_S
        if self._work(lambda: perf_counter() >= end):
            self.go_on()
