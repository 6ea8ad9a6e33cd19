"""One sync serves all who wait, and nothing counts as durable before a sync has returned."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk
from flintmq.store.files.group_commit import GroupCommit, SyncPlan


class SyncedDisk(Disk):
    """Remembers what was synced, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []
        self.number = 0

    def sync(self, path: Path) -> None:
        if self.number:
            raise DiskFailed(str(path), "sync", "no", self.number)
        self.synced.append(path)

    def sync_directory(self, path: Path) -> None:
        self.sync(path)


def begun(commit: GroupCommit, log: DirtyFiles, stop: int) -> SyncPlan:
    plan = commit.begin(log, LogOffset(stop))
    assert plan is not None
    return plan


def test_a_plan_syncs_the_files_and_then_their_directories() -> None:
    disk = SyncedDisk()
    commit = GroupCommit(disk, LogOffset(0))
    log = DirtyFiles((Path("a"), Path("b")), (Path(),))

    begun(commit, log, 100).run()

    assert disk.synced == [Path("a"), Path("b"), Path()]


def test_nothing_is_durable_before_the_plan_is_finished() -> None:
    commit = GroupCommit(SyncedDisk(), LogOffset(0))
    plan = begun(commit, DirtyFiles((Path("a"),)), 100)

    plan.run()
    assert commit.durable_to == 0
    commit.finish(plan)

    assert commit.durable_to == 100


def test_what_is_written_while_a_sync_is_under_way_waits_for_the_next() -> None:
    disk = SyncedDisk()
    commit = GroupCommit(disk, LogOffset(0))
    log = DirtyFiles((Path("a"),))
    plan = begun(commit, log, 100)
    log.wrote(Path("a"))

    assert commit.begin(log, LogOffset(200)) is None
    plan.run()
    commit.finish(plan)

    assert commit.durable_to == 100
    assert begun(commit, log, 200).parts[0][1].files == (Path("a"),)


def test_there_is_nothing_to_do_when_all_is_durable() -> None:
    commit = GroupCommit(SyncedDisk(), LogOffset(100))

    assert commit.begin(DirtyFiles(), LogOffset(100)) is None


def test_a_thorough_sync_covers_the_others_even_if_the_log_is_durable() -> None:
    disk = SyncedDisk()
    commit = GroupCommit(disk, LogOffset(100))

    plan = commit.begin(DirtyFiles(), LogOffset(100), [DirtyFiles((Path("q"),))])

    assert plan is not None
    plan.run()
    assert disk.synced == [Path("q")]


def test_a_failed_sync_promises_nothing_and_is_due_again() -> None:
    disk = SyncedDisk()
    commit = GroupCommit(disk, LogOffset(0))
    log = DirtyFiles((Path("a"),), (Path(),))
    plan = begun(commit, log, 100)
    disk.number = errno.EIO

    plan.run()
    with pytest.raises(DiskFailed):
        commit.finish(plan)

    assert commit.durable_to == 0
    assert not commit.is_under_way
    assert (log.files, log.directories) == ((Path("a"),), (Path(),))


def test_a_file_we_removed_meanwhile_needs_no_sync() -> None:
    disk = SyncedDisk()
    disk.number = errno.ENOENT
    commit = GroupCommit(disk, LogOffset(0))
    log = DirtyFiles((Path("queue/old"),), (Path("queue"),))
    plan = begun(commit, log, 100)

    plan.run()
    log.removed(Path("queue/old"))
    commit.finish(plan)

    assert commit.durable_to == 100


def test_a_file_somebody_else_removed_is_a_failure() -> None:
    disk = SyncedDisk()
    disk.number = errno.ENOENT
    commit = GroupCommit(disk, LogOffset(0))
    log = DirtyFiles((Path("old"), Path("gone")))
    plan = begun(commit, log, 100)

    plan.run()
    log.removed(Path("old"))
    with pytest.raises(DiskFailed, match="gone"):
        commit.finish(plan)

    assert commit.durable_to == 0
    assert log.files == (Path("gone"),)


def test_a_file_made_again_must_be_there() -> None:
    disk = SyncedDisk()
    commit = GroupCommit(disk, LogOffset(0))
    log = DirtyFiles()
    log.removed(Path("queue/0"))
    log.wrote(Path("queue/0"))
    plan = begun(commit, log, 100)
    disk.number = errno.ENOENT

    plan.run()
    with pytest.raises(DiskFailed):
        commit.finish(plan)

    assert commit.durable_to == 0


class MeetingDisk(SyncedDisk):
    """A sync of a file goes on once another one is under way."""

    def __init__(self) -> None:
        super().__init__()
        self._meeting = threading.Barrier(2, timeout=30)

    def sync(self, path: Path) -> None:
        self._meeting.wait()
        super().sync(path)

    def sync_directory(self, path: Path) -> None:
        self.synced.append(path)


def test_an_executor_runs_syncs_at_the_same_time_and_directories_last() -> None:
    disk = MeetingDisk()
    commit = GroupCommit(disk, LogOffset(0))
    plan = begun(commit, DirtyFiles((Path("a"), Path("b")), (Path(),)), 100)

    with ThreadPoolExecutor(2) as pool:
        plan.run(pool.map)
    commit.finish(plan)

    assert sorted(disk.synced[:2]) == [Path("a"), Path("b")]
    assert disk.synced[2:] == [Path()]
    assert commit.durable_to == 100


def test_a_sync_that_fails_in_an_executor_is_a_failure_of_the_plan() -> None:
    disk = MeetingDisk()
    disk.number = errno.EIO
    commit = GroupCommit(disk, LogOffset(0))
    plan = begun(commit, DirtyFiles((Path("a"), Path("b")), (Path(),)), 100)

    with ThreadPoolExecutor(2) as pool:
        plan.run(pool.map)

    with pytest.raises(DiskFailed):
        commit.finish(plan)
    assert commit.durable_to == 0
    assert disk.synced == []
