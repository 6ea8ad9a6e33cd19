"""A thorough sync in parts: which files of queues and index it has yet to cover.

When all of them are covered, everything stored before the round began is on disk, and
a checkpoint says so.  What is stored meanwhile is for the next round.

    few queues     each sync of the log covers some of them
    many queues    one sync beside those of the log covers all: it may have to wait for bytes of
                   others, and whoever waits for the log must not.  The index comes after it,
                   with a sync of the log.
"""

from __future__ import annotations

from flintmq.model.queue import LogOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.group_commit import MANY_FILES, GroupCommit, SyncPlan
from flintmq.store.recovery.parts import StoreParts


class SyncRound:
    """The round of one store.  It is under way while ``left`` is not empty."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._ms = 0
        self._beside = GroupCommit(parts.disk, LogOffset(0))
        self.left: list[DirtyFiles] = []

    @property
    def may_begin(self) -> bool:
        """Whether nothing of the last one is under way, even if that was given up."""
        return not self.left and not self._beside.is_under_way

    def begin(self) -> None:
        self._ms = self._parts.last_store_ms
        self.left = [*self._parts.queues.take_changed(), self._parts.index.dirty]

    def next_part(self, files_max: int | None) -> list[DirtyFiles]:
        """What the next sync of the log covers too.  Without ``files_max`` all of it."""
        if files_max is None:
            assert not self._beside.is_under_way
            return self.left
        return self.left[:files_max] if len(self.left) <= MANY_FILES else []

    def begin_beside(self) -> SyncPlan | None:
        """Plan a sync of all queues, if they are many, to be run beside those of the log."""
        if len(self.left) <= MANY_FILES:
            return None
        first, *others = self.left[:-1]
        return self._beside.begin(first, LogOffset(0), others)

    def finish(self, plan: SyncPlan) -> bool:
        """Take note of a plan of `begin_beside`; False: it is one of the log."""
        if not self._beside.has_begun(plan):
            return False
        self._beside.finish(plan)
        del self.left[: len(plan.parts)]  # nothing if it was given up
        return True

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
