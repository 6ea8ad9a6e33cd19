"""Who waits at a channel: for an answer, or because its peer has not read what was sent before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from flintmq.errors import Overloaded
from flintmq.protocol.command import Command


class AnswerWaiter(Protocol):
    """Whoever gets the answer to a call.  It is told in a turn of the loop."""

    def answered(self, answer: Command, /) -> None:
        """The peer answered."""

    def failed(self, error: Exception, /) -> None:
        """No answer will come."""


class FutureWaiter:
    """Tells a future, unless its caller is being cancelled."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Command]) -> None:
        self.future = future

    def answered(self, answer: Command, /) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def failed(self, error: Exception, /) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class WaitingCall(msgspec.Struct, frozen=True):
    """A call that was sent, and who gets its answer."""

    waiter: AnswerWaiter
    code: int
    timeout_ms: int


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
