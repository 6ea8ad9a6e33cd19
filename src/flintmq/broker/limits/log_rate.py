"""When to say again what happens again and again, so that peers cannot fill the log."""

from __future__ import annotations

SAID_AGAIN_MS = 60_000
"""How long the log is silent about what it has just said."""


class Seldom:
    """Counts events; the first is said at once, later ones together."""

    __slots__ = ("_due_ms", "_silent_count")

    def __init__(self) -> None:
        self._due_ms: int | None = None
        self._silent_count = 0

    def happened(self, now_ms: int) -> int:
        """How many events there were since something was said; 0 when it is too soon to say it."""
        self._silent_count += 1
        due_ms = self._due_ms
        if due_ms is not None and due_ms - SAID_AGAIN_MS <= now_ms < due_ms:
            return 0
        count, self._silent_count = self._silent_count, 0
        self._due_ms = now_ms + SAID_AGAIN_MS
        return count
