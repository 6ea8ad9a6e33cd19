"""When an address that failed may be tried again.

The first failure costs a short wait, each further one twice as much up to a cap, and chance
takes up to half off so that clients of one dead broker do not come back in step.  Callers in
between are refused at once with the last reason: they may have another broker to turn to.

    tried ──failed──► waiting ──due──► tried again
      └────worked────► no wait
"""

from __future__ import annotations

import random
from collections.abc import Callable

from flintmq.errors import Unreachable

FIRST_MS = 50
"""Long enough to spare a peer that is starting, short enough not to be noticed."""

MAX_MS = 500
"""A peer that came back is found again within this time."""


class Backoff:
    """The connection failures of one address, and when the next attempt may be made."""

    def __init__(self, address: str, chance: Callable[[], float] = random.random) -> None:
        self._address = address
        self._chance = chance
        self._failures = 0
        self._reason = ""
        self._due_ms = 0

    def failed(self, reason: str, now_ms: int) -> None:
        wait_ms = min(MAX_MS, FIRST_MS << min(self._failures, 16))
        self._failures += 1
        self._reason = reason
        self._due_ms = now_ms + round(wait_ms * (1 - self._chance() / 2))

    def worked(self) -> None:
        self._failures = 0
        self._due_ms = 0

    def check(self, now_ms: int) -> None:
        """Raise `Unreachable` while it is too early for another attempt."""
        if now_ms < self._due_ms:
            wait_ms = self._due_ms - now_ms
            raise Unreachable(self._address, f"{self._reason} (next attempt in {wait_ms} ms)")
