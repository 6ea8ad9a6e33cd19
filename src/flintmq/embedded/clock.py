"""A wall clock that can be moved while servers run by it.

It goes on by itself, as the system's does; `advance` only shifts it.  Whoever moves it tells the
servers, see `Servers.advance`: those who are alive must not look silent for a time that never
passed for them.
"""

from __future__ import annotations

from collections.abc import Callable

from flintmq.net.clock import wall_ms


class MovableClock:
    """Milliseconds since 1970, and what was added to them."""

    def __init__(self, wall: Callable[[], int] = wall_ms) -> None:
        self.ahead_ms = 0
        """How far it is ahead of the system's clock."""
        self._wall = wall

    def __call__(self) -> int:
        return self._wall() + self.ahead_ms

    def advance(self, delta_ms: int) -> None:
        """Move it forward, or back by a negative number."""
        self.ahead_ms += delta_ms
