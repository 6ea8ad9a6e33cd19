"""A server of gRPC: its methods, its connections, and what they may take together.

Invariant: `stop` ends within its limit, and leaves neither calls nor connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

from flintmq.net.channels.partial_frames import PartialFrames
from flintmq.net.channels.unread_bytes import UnreadBytes
from flintmq.net.http2.call_server import GrpcMethod, H2Limits
from flintmq.net.http2.h2_connection import H2Connection
from flintmq.net.limits import CUT_MS, LIMITS

LOOK_S: Final = 1.0
"""How often deadlines, limits a second and idle connections are looked at."""

LOOKS_AT_ONCE: Final = 1_000
"""Connections that are looked at in one turn: half a millisecond."""

ADDRESS_CALLS_MIN: Final = 1_000
"""Calls at once that one address always may have."""


class GrpcServer:
    """Serves calls by their path.  It belongs to the loop it was made on."""

    def __init__(
        self,
        methods: Mapping[str, GrpcMethod],
        limits: H2Limits,
        calls_max: int,
        *,
        partial: PartialFrames | None = None,
        unread: UnreadBytes | None = None,
    ) -> None:
        self.limits = limits
        self.partial = partial or PartialFrames()
        self.unread = unread or UnreadBytes(LIMITS.write_bytes_max)
        self.call_count = 0
        self._calls_of: dict[str, int] = {}
        self._methods = methods
        self._calls_max = calls_max
        self._address_calls_max = max(ADDRESS_CALLS_MIN, calls_max // 2)
        self._connections: set[H2Connection] = set()
        self._looking: asyncio.Task[None] | None = None
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self._is_leaving = False

    def connection(self, peer: str) -> H2Connection:
        """What serves a connection from there."""
        made = H2Connection(self, peer)
        self._connections.add(made)
        made.ended.add_done_callback(lambda _: self._connections.discard(made))
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look())
        if self._is_leaving:
            made.leave()
        return made

    async def stop(self, timeout_s: float) -> None:
        """Begin no more calls, let those that were begun end, and close all."""
        self._is_leaving = True
        for connection in self._connections:
            connection.leave()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_ended.wait()
        except TimeoutError:
            pass
        finally:
            if self._looking is not None:
                self._looking.cancel()
            self.partial.stop()
            for connection in list(self._connections):
                connection.close()
        if self._connections:  # what was said last is on its way
            ends = [connection.ended for connection in self._connections]
            await asyncio.wait(ends, timeout=CUT_MS / 1000)

    # For connections

    def method(self, path: str) -> GrpcMethod | None:
        return self._methods.get(path)

    def begin_call(self, host: str) -> bool:
        """Nobody gets more than half of them, so that others are served too."""
        count = self._calls_of.get(host, 0)
        if self.call_count >= self._calls_max or count >= self._address_calls_max:
            return False
        self._calls_of[host] = count + 1
        self.call_count += 1
        self._all_ended.clear()
        return True

    def end_call(self, host: str) -> None:
        self.call_count -= 1
        self._calls_of[host] -= 1
        if not self._calls_of[host]:
            del self._calls_of[host]
        if not self.call_count:
            self._all_ended.set()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = monotonic()
            for place, connection in enumerate(list(self._connections), 1):
                connection.look(now_s)
                if not place % LOOKS_AT_ONCE:
                    await asyncio.sleep(0)
