"""Callers of a channel that wait because its peer has not read what was sent before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from flintmq.errors import Overloaded


class WriteWaiters:
    """Those who wait, in order of arrival.  They belong to the loop they wait on."""

    def __init__(self, waiters_max: int) -> None:
        self._waiters_max = waiters_max
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait_while(self, is_full: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until there is room.  Raises `TimeoutError` when the time is over before."""
        if len(self._waiting) >= self._waiters_max:
            raise Overloaded("calls waiting to be sent", self._waiters_max, "calls_max")
        async with asyncio.timeout(timeout_ms / 1000):
            while is_full():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting[waiter] = None
                try:
                    await waiter
                finally:
                    del self._waiting[waiter]

    def wake(self) -> None:
        """There may be room, or the channel is closed: let all of them look again."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
