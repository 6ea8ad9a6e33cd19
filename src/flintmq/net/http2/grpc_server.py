"""A server of gRPC: its methods, its connections, and what they may take together.

Invariant: `stop` ends within its limit, and leaves neither calls nor connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

from flintmq.net.channels.partial_frames import PartialFrames
from flintmq.net.http2.call_server import GrpcMethod, H2Limits
from flintmq.net.http2.h2_connection import H2Connection
from flintmq.protocol.http2.h2_frames import H2Error

IDLE_S: Final = 120.0
"""A connection without a call is closed after this time, as RocketMQ's proxy does."""

LOOK_S: Final = 1.0
"""How often deadlines and idle connections are looked at."""


class GrpcServer:
    """Serves calls by their path.  It belongs to the loop it was made on."""

    def __init__(self, methods: Mapping[str, GrpcMethod], limits: H2Limits, calls_max: int) -> None:
        self.limits = limits
        self.partial = PartialFrames()
        self.call_count = 0
        self._methods = methods
        self._calls_max = calls_max
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

    # For connections

    def method(self, path: str) -> GrpcMethod | None:
        return self._methods.get(path)

    def begin_call(self) -> bool:
        if self.call_count >= self._calls_max:
            return False
        self.call_count += 1
        self._all_ended.clear()
        return True

    def end_call(self) -> None:
        self.call_count -= 1
        if not self.call_count:
            self._all_ended.set()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = monotonic()
            for connection in list(self._connections):
                connection.churn_count = 0
                if connection.calls:
                    connection.expire(now_s)
                elif now_s - connection.idle_since_s > IDLE_S:
                    connection.close(H2Error.NO_ERROR, "max_idle")
