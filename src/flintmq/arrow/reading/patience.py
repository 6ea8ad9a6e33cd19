"""Waits for servers that do not answer: a job may start before them, and brokers are restarted.

    ask ──► answer
     ▲  └── no answer ──► pause, twice as long each time, 2 s at most
     └───────────────────┘  until the time is up; then the last error, with the time in its text

A warning says that it waits: at once, and then every ten seconds.

Refuses to repeat any other error: a missing topic or a refused request does not change by waiting.
Who knows better names the errors that pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from flintmq.errors import FlintError, Unreachable
from flintmq.logs import logger
from flintmq.net.clock import monotonic_ms

T = TypeVar("T")

RETRY_MS: Final = 60_000
"""The default: RocketMQ's brokers start in ten seconds, a machine in a minute."""

FIRST_PAUSE_MS: Final = 100
PAUSE_MS_MAX: Final = 2_000
"""A server that is back is noticed within this time."""

WARN_EVERY_MS: Final = 10_000

_logger = logger(__name__)


class Outage:
    """The time since servers stopped answering, and the pauses between attempts."""

    def __init__(self, what: str, retry_ms: int) -> None:
        self._what = what
        self._retry_ms = retry_ms
        self._since_ms: int | None = None
        self._warned_ms = 0
        self._pause_ms = FIRST_PAUSE_MS

    def wait(self, error: FlintError) -> None:
        """Sleep before the next attempt; raises the error once the time is up."""
        now_ms = monotonic_ms()
        if self._since_ms is None:
            self._since_ms, self._pause_ms = now_ms, FIRST_PAUSE_MS
        left_ms = self._since_ms + self._retry_ms - now_ms
        if left_ms <= 0:
            if self._retry_ms and isinstance(error, Unreachable):
                tried = f"{error.reason}; tried for {self._retry_ms / 1000:g} s"
                raise Unreachable(error.address, tried) from error
            raise error
        if now_ms == self._since_ms or now_ms - self._warned_ms >= WARN_EVERY_MS:
            self._warned_ms = now_ms
            _logger.warning("%s: %s; tried for %d s more", self._what, error, -(-left_ms // 1000))
        time.sleep(min(self._pause_ms, left_ms) / 1000)
        self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)

    def over(self) -> None:
        """A server answered: the next failure is a new outage."""
        self._since_ms = None


def patiently(
    what: str,
    retry_ms: int,
    ask: Callable[[], T],
    passing: tuple[type[FlintError], ...] = (Unreachable,),
) -> T:
    """The result of ``ask``, which is called again while it raises an error that may pass."""
    outage = Outage(what, retry_ms)
    while True:
        try:
            return ask()
        except passing as error:
            outage.wait(error)
