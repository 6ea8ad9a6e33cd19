"""A connection past the loop, for a thread that waits for one answer at a time.

    request of a thread ─► line free? ─► its own socket ─► answer
                               └─ no, or no connection ─► the loop, like everything else

Going to the loop and back wakes two threads, which costs more than a quick request itself.  So
whoever finds the line free asks on its own thread.  Where several threads ask at once all go by
the loop, since there their requests leave together.

The line says nothing of who we are: brokers know us by the connection of the loop.  Where that is
not open, the loop opens it first, so that nobody serves us who does not know us.

Invariant: one thread at a time has the line, and none after it was closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.conversation import Call
from flintmq.errors import Unreachable
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.blocking.blocking_channel import BlockingChannel
from flintmq.protocol.command import Command

T = TypeVar("T")
W = TypeVar("W")


class Runner(Protocol):
    """Runs a coroutine on the loop and waits for it here."""

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...


class DirectLine:
    """The line of one client, for all threads but the loop's."""

    def __init__(
        self, engine: ClientEngine, runner: Runner, mark: Callable[[Command], Command] | None = None
    ) -> None:
        """``mark`` is what a hook of ours does to every request that goes by the loop."""
        config = engine.config
        self._engine = engine
        self._runner = runner
        self._mark = mark
        self._account = config.account
        self._channels = BlockingChannels(
            tls=config.client_tls,
            connect_ms=config.connect_ms,
            clock=engine.stopwatch,
            chance=engine.chance,
        )
        self._line = threading.Lock()
        self._by_loop_now: set[int] = set()  # threads whose requests leave together
        self._is_closed = False

    def acquire(self) -> bool:
        """Have the line until `release`; False where others ask at the same time."""
        return not self._by_loop_now and not self._is_closed and self._line.acquire(blocking=False)

    def release(self) -> None:
        self._line.release()

    def make(self, call: Call) -> Command:
        """Carry out one call of a conversation, for whoever has the line: for `drive`."""
        if self._engine.links.is_open(call.address):
            start_ms = self._engine.stopwatch()
            channel = self._reach(call)
            if channel is not None:
                left_ms = call.timeout_ms - (self._engine.stopwatch() - start_ms)
                request = call.request
                if self._mark is not None:
                    request = self._mark(request)
                if self._account is not None:
                    request = self._account.sign(request)
                return channel.call(request, max(1, left_ms))
        return self._runner.run(self._make(call))

    def by_loop(self, run: Callable[[W], T], work: W) -> T:
        """Have ``run`` do something on the loop; meanwhile nobody gets the line."""
        me = threading.get_ident()
        self._by_loop_now.add(me)
        try:
            return run(work)
        finally:
            self._by_loop_now.discard(me)

    def close(self) -> None:
        """Wait for the request that is under way, if one is, and hang up."""
        self._is_closed = True
        with self._line:
            self._channels.close()

    def _reach(self, call: Call) -> BlockingChannel | None:
        try:
            return self._channels.reach(call.address, call.timeout_ms)
        except Unreachable:
            return None

    async def _make(self, call: Call) -> Command:
        return await self._engine.make(call)
