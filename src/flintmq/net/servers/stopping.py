"""A stop that ends within its limit: step by step, and what hangs is cut and named.

A step that does not end in time is cancelled and not waited for, so that even work which
ignores its cancellation, or a thread that hangs in the system, holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from flintmq.logs import logger
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.reasons import why

log = logger(__name__)


class Stopping:
    """The stop of a server, with one time limit over all its steps."""

    def __init__(self, what: str, limit_ms: int, clock: Clock = monotonic_ms) -> None:
        self.cut: list[str] = []
        """Steps that did not end in time."""
        self.failures: list[Exception] = []
        self._what = what
        self._clock = clock
        self._end_ms = clock() + limit_ms

    async def step(
        self, name: str, work: Coroutine[Any, Any, object], limit_ms: int | None = None
    ) -> bool:
        """Run one step for what is left of the time, or less; say whether it ended well."""
        left_ms = max(0, self._end_ms - self._clock())
        limit_ms = left_ms if limit_ms is None else min(limit_ms, left_ms)
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task], timeout=limit_ms / 1000)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            self.cut.append(name)
            log.error("%s: %s did not end within %d ms and was cut", self._what, name, limit_ms)
            return False
        if task.cancelled():
            return False
        error = task.exception()
        if isinstance(error, Exception):
            self.failures.append(error)
            log.error("%s: %s failed: %s", self._what, name, why(error))
        return error is None
