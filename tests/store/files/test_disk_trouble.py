"""When the disk refuses, a turn is there as a whole or not at all, reads go on, nothing half
written is ever shown.  The store works again as soon as a full disk does; after any other failure
it acknowledges nothing more until it is opened again.
"""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.store.mending import MEND_INTERVAL_MS
from flintmq.store.message_log import MessageLog
from support.store.failing_disk import FailingDisk
from support.store.refusing_disk import RefusingDisk
from support.store.stored import SMALL, START_MS, bodies, draft, draft_of, open_store, store

EXTENDED = replace(SMALL, extended_queues=True)
"""Queues that are written with each turn."""

PASSING = [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EMFILE]
LASTING = [errno.EIO, errno.EROFS, errno.ENOENT, errno.EFBIG]
WHERE = pytest.mark.parametrize("where", ["commitlog", "consumequeue", "consumequeue_ext/B"])


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of log and queues that has anything in it."""
    paths = [*directory.glob("commitlog/*"), *directory.glob("consumequeue*/*/*/*")]
    files = {str(path.relative_to(directory)): path.read_bytes() for path in paths}
    return {name: octets for name, octets in files.items() if any(octets)}


def turn(log: MessageLog, *messages: tuple[str, bytes], now_ms: int = START_MS) -> None:
    for topic, body in messages:
        log.append(*draft(body, topic), keys=(body.decode(),), now_ms=now_ms)
    log.write()


def later(times: int = 1) -> int:
    """When the next attempt to mend is due."""
    return START_MS + times * MEND_INTERVAL_MS


@pytest.mark.parametrize("number", [*PASSING, *LASTING])
@WHERE
def test_a_turn_that_fails_anywhere_never_was(tmp_path: Path, where: str, number: int) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, EXTENDED, disk)
    turn(log, ("A", b"a0"), ("B", b"b0"))
    end = log.end_offset
    disk.number, disk.fails_in = number, where

    with pytest.raises(DiskFailed) as failed:
        turn(log, ("A", b"a1"), ("B", b"b1"))

    assert failed.value.number == number
    assert log.why_not is failed.value
    assert log.end_offset == end
    assert (bodies(log, "A"), bodies(log, "B")) == ([b"a0"], [b"b0"])
    assert log.lookup.by_key("A", "a0", 32, 0, 2**62).views
    disk.number = 0
    assert not log.lookup.by_key("A", "a1", 32, 0, 2**62).views


@pytest.mark.parametrize("number", PASSING)
@WHERE
def test_the_store_works_again_when_the_disk_does(tmp_path: Path, where: str, number: int) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, EXTENDED, disk)
    turn(log, ("A", b"a0"), ("B", b"b0"))
    disk.number, disk.fails_in = number, where
    with pytest.raises(DiskFailed):
        turn(log, ("A", b"lost"), ("B", b"lost"))

    disk.number = 0
    turn(log, ("A", b"a1"), ("B", b"b1"), now_ms=later())

    assert log.why_not is None
    assert (bodies(log, "A"), bodies(log, "B")) == ([b"a0", b"a1"], [b"b0", b"b1"])
    log.close()
    log = open_store(tmp_path, EXTENDED)
    assert (bodies(log, "A"), bodies(log, "B")) == ([b"a0", b"a1"], [b"b0", b"b1"])


@pytest.mark.parametrize("number", LASTING)
@WHERE
def test_after_a_failure_that_does_not_pass_nothing_more_is_taken(
    tmp_path: Path, where: str, number: int
) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, EXTENDED, disk)
    turn(log, ("A", b"a0"), ("B", b"b0"))
    disk.number, disk.fails_in = number, where
    with pytest.raises(DiskFailed, match="start again"):
        turn(log, ("A", b"lost"), ("B", b"lost"))

    disk.number = 0
    for times in range(1, 4):
        with pytest.raises(DiskFailed, match="start again"):
            turn(log, ("A", b"lost"), now_ms=later(times))
    assert log.failed is log.why_not is not None
    assert (bodies(log, "A"), bodies(log, "B")) == ([b"a0"], [b"b0"])
    with pytest.raises(DiskFailed, match="start again"):
        log.close()

    log = open_store(tmp_path, EXTENDED)
    turn(log, ("A", b"a1"))
    assert (bodies(log, "A"), bodies(log, "B")) == ([b"a0", b"a1"], [b"b0"])


@pytest.mark.parametrize("torn_bytes", [0, 7, 150, 100_000])
@pytest.mark.parametrize("changes", range(13))  # two files of the log and three queues, two new
def test_wherever_a_turn_fails_no_trace_is_left(
    tmp_path: Path, changes: int, torn_bytes: int
) -> None:
    disk = RefusingDisk()
    log = open_store(tmp_path, EXTENDED, disk)
    store(log, b"first", topic="C")
    before = contents(tmp_path)
    for topic in ("A", "B", "A", "C", "A", "A"):
        log.append(*draft_of(1000, topic), now_ms=START_MS)
    disk.changes_left, disk.torn_bytes = changes, torn_bytes

    with pytest.raises(DiskFailed):
        log.write()
    disk.changes_left = None
    log.append(*draft(b"then", "B"), now_ms=later())

    assert contents(tmp_path) == before
    log.close()
    log = open_store(tmp_path, EXTENDED)
    assert [len(bodies(log, topic)) for topic in "ABC"] == [0, 1, 1]


def test_while_it_cannot_be_mended_every_append_is_told_why(tmp_path: Path) -> None:
    disk = RefusingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"kept")
    disk.changes_left, disk.torn_bytes = 0, 50

    for times in range(4):
        with pytest.raises(DiskFailed) as failed:
            store(log, now_ms=later(times))
        assert failed.value.is_full
        assert log.why_not is not None
        assert bodies(log) == [b"kept"]
    disk.changes_left = None

    assert store(log, b"then", now_ms=later(4)).queue_offset == 1
    assert bodies(log) == [b"kept", b"then"]


def test_a_failed_turn_is_wiped_at_once_when_that_is_possible(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, EXTENDED, disk)
    turn(log, ("A", b"a0"))
    disk.number, disk.fails_in = errno.ENOSPC, "consumequeue"
    with pytest.raises(DiskFailed):
        turn(log, ("A", b"a1"))

    log = open_store(tmp_path, EXTENDED)  # as if the process had died

    assert bodies(log, "A") == [b"a0"]


def test_a_disk_that_fails_again_refuses_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    disk.number, disk.fails_in = errno.ENOSPC, "commitlog"

    for times in range(3):
        with pytest.raises(DiskFailed):
            store(log, now_ms=later(times))
    disk.number = 0

    assert store(log, now_ms=later(3)).queue_offset == 0


def test_mending_is_not_tried_at_every_append(tmp_path: Path) -> None:
    class CountedDisk(FailingDisk):
        wipes = 0

        def wipe(self, path: Path, start: int, stop: int) -> bool:
            self.wipes += 1
            raise DiskFailed(str(path), "write", "refused", errno.EACCES)

    disk = CountedDisk()
    log = open_store(tmp_path, EXTENDED, disk)
    store(log)
    disk.number, disk.fails_in = errno.EACCES, "consumequeue"
    with pytest.raises(DiskFailed):
        store(log)

    for _ in range(5):
        with pytest.raises(DiskFailed):
            log.append(*draft(), now_ms=START_MS)

    assert disk.wipes == 2  # when it failed, and at the first append after that


def test_a_full_index_disk_stops_appends_but_loses_no_key(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a", keys=("k",))
    disk.number, disk.fails_in = errno.ENOSPC, "index"

    log.flush()
    assert log.why_not is not None
    disk.number = 0
    store(log, b"b", keys=("k",), now_ms=later())

    assert len(log.lookup.by_key("T", "k", 32, 0, 2**62).views) == 2


# Syncs


def fail_a_sync(log: MessageLog, disk: FailingDisk) -> None:
    disk.fails_to_sync = True
    plan = log.begin_sync()
    assert plan is not None
    plan.run()
    with pytest.raises(DiskFailed):
        log.finish_sync(plan)


def test_a_failed_sync_makes_nothing_durable_and_stops_appends(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a")

    fail_a_sync(log, disk)

    assert log.durable_to == 0
    assert log.why_not is not None
    assert log.begin_sync() is None
    assert bodies(log) == [b"a"]


def test_after_a_failed_sync_the_bytes_are_written_again_before_the_next(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a")
    fail_a_sync(log, disk)

    disk.fails_to_sync = False
    disk.written.clear()
    end = log.end_offset
    store(log, b"b", now_ms=later())
    plan = log.begin_sync()

    assert disk.written[0] == ("commitlog", 0, end)
    assert plan is not None
    plan.run()
    assert log.finish_sync(plan) == log.end_offset
    assert bodies(log) == [b"a", b"b"]


@pytest.mark.parametrize("number", LASTING)
def test_a_sync_that_failed_for_good_is_never_tried_again_as_if_all_were_clean(
    tmp_path: Path, number: int
) -> None:
    disk = FailingDisk()
    disk.sync_number = number
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a")
    fail_a_sync(log, disk)
    disk.fails_to_sync = False
    disk.written.clear()

    with pytest.raises(DiskFailed, match="start again"):
        store(log, b"b", now_ms=later())
    with pytest.raises(DiskFailed, match="start again"):
        log.begin_sync()

    assert log.durable_to == 0
    assert disk.written == []


def test_bytes_the_system_lost_are_not_written_again_as_if_they_were_there(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a" * 100)
    fail_a_sync(log, disk)
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.write_bytes(bytes(4096))
    disk.fails_to_sync = False

    with pytest.raises(DiskFailed, match="start again"):
        store(log, now_ms=later())


def test_a_failed_thorough_sync_is_complete_the_next_time(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a", keys=("k",))
    disk.fails_to_sync = True
    plan = log.begin_sync(thorough=True)
    assert plan is not None
    plan.run()
    with pytest.raises(DiskFailed):
        log.finish_sync(plan)
    disk.fails_to_sync = False
    store(log, b"b", topic="U", now_ms=later())

    plan = log.begin_sync(thorough=True)

    assert plan is not None
    parts = {path.parent.parent.name for _, dirty in plan.parts for path in dirty.files}
    assert {"T", "U", tmp_path.name} == parts


def test_a_store_that_cannot_be_closed_cleanly_leaves_its_abort_file(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    store(log, b"a")
    disk.fails_to_sync = True

    with pytest.raises(DiskFailed):
        log.close()

    assert (tmp_path / "abort").exists()
    log = open_store(tmp_path)
    assert bodies(log) == [b"a"]


# A directory that was taken away


def taken_away(directory: Path, how: str) -> None:
    if how == "deleted":
        shutil.rmtree(directory)
    elif how == "moved":
        directory.rename(directory.with_name("elsewhere"))
    elif how == "replaced":
        directory.rename(directory.with_name("elsewhere"))
        shutil.copytree(directory.with_name("elsewhere"), directory)
    elif how == "file deleted":
        (directory / "commitlog" / f"{0:020d}").unlink()
    elif how == "file replaced":
        path = directory / "commitlog" / f"{0:020d}"
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)


WAYS = ["deleted", "moved", "replaced", "file deleted", "file replaced"]


@pytest.mark.parametrize("how", WAYS)
def test_nothing_is_durable_in_a_directory_that_was_taken_away(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "store"
    log = open_store(directory, SMALL)
    store(log, b"kept")
    taken_away(directory, how)
    store(log, b"written to a file without a name")

    with pytest.raises(DiskFailed, match="deleted or moved"):
        log.begin_sync()

    assert log.durable_to == 0
    with pytest.raises(DiskFailed, match="deleted or moved"):
        store(log, b"more", now_ms=later())


@pytest.mark.parametrize("how", ["deleted", "moved", "file deleted"])
def test_a_file_that_goes_while_it_is_synced_is_not_durable(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "store"
    log = open_store(directory, SMALL)
    store(log, b"kept")
    plan = log.begin_sync()
    assert plan is not None

    taken_away(directory, how)
    plan.run()

    with pytest.raises(DiskFailed, match="deleted or moved"):
        log.finish_sync(plan)
    assert log.durable_to == 0


def test_a_directory_that_was_deleted_is_not_made_again(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    log = open_store(directory, SMALL)
    store(log, b"kept")
    shutil.rmtree(directory)

    for _ in range(3):
        store(log, b"x" * 1000)
    with pytest.raises(DiskFailed, match="deleted or moved"):
        store(log, b"for the next file" + b"x" * 1000)

    assert not directory.exists()


def test_a_deleted_directory_is_noticed_without_a_write(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    log = open_store(directory, SMALL)
    shutil.rmtree(directory)

    with pytest.raises(DiskFailed, match="deleted or moved"):
        log.begin_sync()


def test_files_we_remove_while_they_are_synced_are_no_failure(tmp_path: Path) -> None:
    log = open_store(tmp_path, EXTENDED)
    turn(log, ("A", b"a0"), ("B", b"b0"))
    while log.end_offset < 3 * SMALL.commit_log_file_bytes:
        store(log, b"x" * 1000, topic="C", keys=("k",))
    plan = log.begin_sync(thorough=True)
    assert plan is not None

    log.delete_topic("A")
    removed = log.retain(START_MS + 10_000 * 3_600_000, due=True)
    plan.run()
    log.finish_sync(plan)

    assert removed > 0
    assert plan.missing
    assert log.failed is None
    assert log.durable_to == log.end_offset
    log.close()
