"""Limits how often a repeated event is logged, so that peers cannot fill the log."""

from __future__ import annotations

SAID_AGAIN_MS = 60_000
"""How long an event that was just logged is not logged again."""


class Seldom:
    """Counts events; the first is logged at once, later ones together."""

    __slots__ = ("_due_ms", "_silent_count")

    def __init__(self) -> None:
        self._due_ms: int | None = None
        self._silent_count = 0

    def happened(self, now_ms: int) -> int:
        """How many events there were since the last line; 0 when it is too soon for another."""
        self._silent_count += 1
        due_ms = self._due_ms
        if due_ms is not None and due_ms - SAID_AGAIN_MS <= now_ms < due_ms:
            return 0
        count, self._silent_count = self._silent_count, 0
        self._due_ms = now_ms + SAID_AGAIN_MS
        return count
