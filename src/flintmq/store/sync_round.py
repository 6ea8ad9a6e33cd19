"""A thorough sync in parts: which files of queues and index it has yet to cover.

When all of them are covered, everything stored before the round began is on disk, and
a checkpoint says so.  What is stored meanwhile is for the next round.
"""

from __future__ import annotations

from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.recovery.parts import StoreParts


class SyncRound:
    """The round of one store.  It is under way while ``left`` is not empty."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._ms = 0
        self.left: list[DirtyFiles] = []

    def begin(self) -> None:
        self._ms = self._parts.last_store_ms
        self.left = [self._parts.index.dirty, *self._parts.queues.take_changed()]

    def covered(self, count: int) -> None:
        """The next ``count`` are on disk."""
        if count:
            del self.left[:count]
            if not self.left:
                self._parts.mark(self._ms)

    def give_up(self) -> None:
        """What it has not covered is as changed as it was."""
        for owner in self.left:
            if owner is not self._parts.index.dirty:
                self._parts.queues.note_changed(owner)
        self.left = []
