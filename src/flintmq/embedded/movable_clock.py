"""Clocks that can be moved while servers and clients go by them.

Each goes on by itself, as the system's does; moving only shifts it.  Whoever moves the clock of
servers tells them, see `Servers.advance`: those who are alive must not look silent for a time
that never passed for them.  A client has a `MovableTiming` of its own, which moves on the loop
the client lives on: between two steps of the client, never within one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from flintmq.client.engine.timing import Timing
from flintmq.net.clock import monotonic_ms, wall_ms


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


class MovableTiming(Timing):
    """The clock of one client: the system's time and what a test added to it."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self._ahead_ms = ahead_ms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: set[_Timer] = set()
        self._carriers: list[Callable[[int], None]] = []
        self._lock = threading.Lock()

    def clock(self) -> int:
        return monotonic_ms() + self._ahead_ms

    def wall(self) -> int:
        return wall_ms() + self._ahead_ms

    def call_later(self, wait_ms: float, act: Callable[[], object]) -> _Timer:
        with self._lock:
            self._loop = asyncio.get_running_loop()
        return _Timer(self, self._loop, self._timers, self.clock() + wait_ms, act)

    def sleep(self, wait_ms: float) -> Awaitable[None]:
        return self._sleep(wait_ms)

    async def _sleep(self, wait_ms: float) -> None:
        over = asyncio.Event()
        timer = self.call_later(wait_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def limit(self, wait_ms: float | None) -> AbstractAsyncContextManager[object]:
        return self._limit(wait_ms)

    @asynccontextmanager
    async def _limit(self, wait_ms: float | None) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as limit:
            if wait_ms is None:
                yield
                return
            timer = self.call_later(wait_ms, lambda: limit.reschedule(0))
            try:
                yield
            finally:
                timer.cancel()

    def on_move(self, carry: Callable[[int], None]) -> None:
        self._carriers.append(carry)

    def advance(self, delta_ms: int) -> None:
        """Move it, from any thread: at once, or when the client's loop comes to it."""
        with self._lock:
            if self._loop is not None and not self._loop.is_closed():
                try:
                    self._loop.call_soon_threadsafe(self._move, delta_ms)
                except RuntimeError:  # closed just now
                    pass
                else:
                    return
            self._ahead_ms += delta_ms

    def _move(self, delta_ms: int) -> None:
        for carry in self._carriers:
            carry(delta_ms)
        self._ahead_ms += delta_ms
        for timer in list(self._timers):
            timer.rearm()


class _Timer:
    """Something to do at a time of a clock that may be moved."""

    def __init__(
        self,
        timing: MovableTiming,
        loop: asyncio.AbstractEventLoop,
        alive: set[_Timer],
        due_ms: float,
        act: Callable[[], object],
    ) -> None:
        self._timing = timing
        self._loop = loop
        self._alive = alive
        self._due_ms = due_ms
        self._act = act
        self._handle: asyncio.Handle | None = None
        alive.add(self)
        self.rearm()

    def rearm(self) -> None:
        """Wait for what is left, or do it in a moment."""
        if self._handle is not None:
            self._handle.cancel()
        wait_ms = max(0, self._due_ms - self._timing.clock())
        self._handle = self._loop.call_later(wait_ms / 1000, self._fire)

    def cancel(self) -> None:
        self._alive.discard(self)
        if self._handle is not None:
            self._handle.cancel()

    def _fire(self) -> None:
        self._alive.discard(self)
        self._act()
