"""Work that comes round: what to do, how often, and when next."""

from __future__ import annotations

from collections.abc import Callable


class Chore:
    """One kind of work.  It is first due one interval after ``now_ms``."""

    __slots__ = ("due_ms", "interval_ms", "run")

    def __init__(self, interval_ms: int, run: Callable[[int], object], now_ms: int) -> None:
        self.interval_ms = interval_ms
        self.run = run
        self.due_ms = now_ms + interval_ms

    def run_if_due(self, now_ms: int) -> None:
        """Rounds that were missed, because the clock jumped, are not made up for."""
        if now_ms >= self.due_ms:
            self.due_ms = now_ms + self.interval_ms
            self.run(now_ms)
        elif self.due_ms - now_ms > self.interval_ms:  # the clock went back
            self.due_ms = now_ms + self.interval_ms
