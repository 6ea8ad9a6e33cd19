"""One sync for all who wait.

Records are written many times between two syncs, and a sync brings all of them to the
disk.  So there is one at a time, it runs wherever the owner likes, and what is written
meanwhile waits for the next.

    begin()        what to sync now, or nothing to do; at most one plan is under way
    plan.run()     the syncs themselves, in any thread; keeps its failure to itself
                   of many files at once: one for the whole file system, if there is such a thing
    finish(plan)   takes note of what is durable now, or raises the failure

A file that is not there any more needs no sync if we removed it; if somebody else did, what was
written to it is lost, and that is a failure.

Invariant: ``durable_to`` never passes a byte for which no sync has returned.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk

MANY_FILES = 256
"""Files that are synced by one sync of their file system; each for itself they take 20 ms."""

Each: TypeAlias = Callable[[Callable[[Path], None], Iterable[Path]], Iterable[None]]
"""Does something to each of several paths; whoever goes through what it gives sees errors."""


@dataclass(slots=True, eq=False)
class SyncPlan:
    """What one sync covers: the log, and perhaps queues and index beside it."""

    disk: Disk
    stop: LogOffset
    parts: list[tuple[DirtyFiles, DirtyFiles]]
    """Whose files they are, and which."""
    failure: DiskFailed | None = field(default=None, init=False)
    missing: list[tuple[Path, DiskFailed]] = field(default_factory=list, init=False)
    """What was not there; `GroupCommit.finish` knows whether that is as it should be."""

    def run(self, each: Each = map) -> None:
        """Sync every file, then every directory in which names changed.  Never raises.

        ``each`` is `map`, or that of an executor: syncs at the same time share what they cost.
        """
        files = [path for _, dirty in self.parts for path in dirty.files]
        directories = sorted({path for _, dirty in self.parts for path in dirty.directories})
        try:
            device = self.disk.sync_file_system() if len(files) >= MANY_FILES else None
            if device is not None:
                files = [path for path in files if not self._is_on(device, path)]
                directories = [path for path in directories if not self._is_on(device, path)]
            for _ in each(partial(self._sync, self.disk.sync), files):
                pass
            for _ in each(partial(self._sync, self.disk.sync_directory), directories):
                pass
        except DiskFailed as failure:
            self.failure = failure

    def _sync(self, sync: Callable[[Path], None], path: Path) -> None:
        try:
            sync(path)
        except DiskFailed as failure:
            if failure.number != errno.ENOENT:
                raise
            self.missing.append((path, failure))

    def _is_on(self, device: int, path: Path) -> bool:
        """Whether a sync of a file system was one of this path; notes a path that is gone."""
        try:
            return self.disk.identity(path)[0] == device
        except DiskFailed as failure:
            if failure.number != errno.ENOENT:
                raise
            self.missing.append((path, failure))
            return True

    def outcome(self) -> DiskFailed | None:
        """What went wrong, seen by the thread that removes files."""
        if self.failure is not None:
            return self.failure
        for path, failure in self.missing:
            if not any(owner.knows_gone(path) for owner, _ in self.parts):
                return failure
        return None


class GroupCommit:
    """The syncs of one store, and how far they got."""

    def __init__(self, disk: Disk, durable_to: LogOffset) -> None:
        self._disk = disk
        self._under_way: SyncPlan | None = None
        self.durable_to = durable_to

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None

    def has_begun(self, plan: SyncPlan) -> bool:
        return plan is self._under_way

    def begin(
        self,
        log: DirtyFiles,
        stop: LogOffset,
        others: Iterable[DirtyFiles] | None = None,
    ) -> SyncPlan | None:
        """Plan to sync the log up to ``stop``, and the others for a thorough sync."""
        if self._under_way is not None or (stop == self.durable_to and others is None):
            return None
        owners = [log, *(others or ())]
        parts = [(owner, owner.drain()) for owner in owners]
        self._under_way = SyncPlan(self._disk, stop, parts)
        return self._under_way

    def finish(self, plan: SyncPlan) -> None:
        """Take note of what a plan did.  Its failure is raised, and its files are dirty again."""
        assert plan is self._under_way, plan
        self._under_way = None
        failure = plan.outcome()
        if failure is not None:
            for owner, dirty in plan.parts:
                owner.put_back(dirty)
            raise failure
        for owner, _ in plan.parts:
            owner.settled()
        self.durable_to = max(self.durable_to, plan.stop)
