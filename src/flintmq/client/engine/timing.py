"""The clocks a client goes by, and how it waits by them.

Whatever a client does by itself after a while waits here: rebalancing, renewing, committing,
trying again.  The timeouts of its calls do not: they are the network's, and nobody moves those.

`Timing` is the system's time.  A test gives its clients another one, that it can move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from flintmq.net.clock import monotonic_ms, wall_ms


class Timer(Protocol):
    """Something that will be done, unless it is cancelled."""

    def cancel(self) -> None: ...


class Timing:
    """Time as it passes by itself.  Waits are for the running loop."""

    def clock(self) -> int:
        """Milliseconds that only go forward."""
        return monotonic_ms()

    def wall(self) -> int:
        """The wall clock, in milliseconds since 1970."""
        return wall_ms()

    def call_later(self, wait_ms: float, act: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(wait_ms / 1000, act)

    def sleep(self, wait_ms: float) -> Awaitable[None]:
        return asyncio.sleep(wait_ms / 1000)

    def limit(self, wait_ms: float | None) -> AbstractAsyncContextManager[object]:
        """`TimeoutError` for what takes longer; None is no limit."""
        return asyncio.timeout(None if wait_ms is None else wait_ms / 1000)

    def on_move(self, carry: Callable[[int], None]) -> None:
        """Have ``carry(delta_ms)`` called just before the clock is moved: here, never."""


SYSTEM = Timing()
