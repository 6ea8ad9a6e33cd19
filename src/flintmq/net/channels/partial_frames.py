"""What all connections of a server hold of frames that are not yet whole.

One connection holds one of them at most.  Together they may hold ``bytes_max``: above it the
connection that holds the most is closed, of equals the one that has held it longest.  And a
frame that grows too slowly is given up: a peer cannot keep memory by sending a byte now and then.

Invariant: the total is the sum over the connections in the table, and who is closed is not in it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from flintmq.logs import logger
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.refusals import Refusals

log = logger(__name__)

PARTIAL_BYTES_MAX = 512 * 1024 * 1024
"""Thirty-two of the largest frames, or two thousand sends of 256 kB under way at once."""

GROW_MS = 60_000
"""Within this time a frame must be whole or grow by `GROW_BYTES`, …"""

GROW_BYTES = 64 * 1024
"""… which is a kilobyte a second: slower than any line that can carry the heartbeats."""

SWEEP_MS = 15_000
"""How often that is looked at, while anything is held."""


ALL = "partialFrameBytesMax"
SLOW = "GROW_MS"


class Reader(Protocol):
    """A connection, as it is seen here."""

    @property
    def peer(self) -> str: ...

    def abort(self, reason: str) -> None: ...


class _Unfinished:
    __slots__ = ("bytes", "then_bytes", "then_ms")

    def __init__(self, held_bytes: int, now_ms: int) -> None:
        self.bytes = self.then_bytes = held_bytes
        self.then_ms = now_ms


class PartialFrames:
    """The budget of one server.  It belongs to the loop it was made on."""

    def __init__(
        self,
        bytes_max: int = PARTIAL_BYTES_MAX,
        clock: Clock = monotonic_ms,
        refusals: Refusals | None = None,
    ) -> None:
        self._refusals = refusals or Refusals()
        self.total_bytes = 0
        self.closed_count = 0
        """Connections that were closed for what they held."""
        self._bytes_max = bytes_max
        self._clock = clock
        self._held: dict[Reader, _Unfinished] = {}  # the oldest frame first
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def update(self, holder: Reader, held_bytes: int, *, is_new: bool) -> None:
        """A connection read something and holds so much of a frame, a new one or the same."""
        held = self._held.get(holder)
        if held is not None and not is_new:
            self.total_bytes += held_bytes - held.bytes
            held.bytes = held_bytes
        else:
            self.forget(holder)
            if not held_bytes:
                return
            self._held[holder] = _Unfinished(held_bytes, self._clock())
            self.total_bytes += held_bytes
            if self._timer is None:
                self._wait()
        while self.total_bytes > self._bytes_max:
            largest = max(self._held, key=lambda each: self._held[each].bytes)
            reason = f"all unfinished frames together are over {self._bytes_max} bytes"
            self._close(largest, reason, ALL)

    def forget(self, holder: Reader) -> None:
        """A connection holds nothing any more."""
        held = self._held.pop(holder, None)
        if held is not None:
            self.total_bytes -= held.bytes

    def sweep(self) -> None:
        """Close connections whose frame does not grow.  The timer calls it, and tests may."""
        now_ms = self._clock()
        for holder, held in list(self._held.items()):
            if held.bytes - held.then_bytes >= GROW_BYTES:
                held.then_bytes, held.then_ms = held.bytes, now_ms
            elif now_ms - held.then_ms >= GROW_MS:
                reason = f"its frame did not grow for {now_ms - held.then_ms} ms"
                self._close(holder, reason, SLOW)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, holder: Reader, reason: str, limit: str) -> None:
        held_bytes = self._held[holder].bytes
        self.forget(holder)
        self.closed_count += 1
        self._refusals.count(limit)
        log.warning(
            "%s: closed, it holds %d bytes of an unfinished frame and %s",
            holder.peer,
            held_bytes,
            reason,
        )
        holder.abort(f"an unfinished frame of {held_bytes} bytes: {reason}")

    def _wait(self) -> None:
        self._timer = self._loop.call_later(SWEEP_MS / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.sweep()
        if self._held:
            self._wait()
