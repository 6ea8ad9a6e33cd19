"""The commit log puts every record whole into one file, as RocketMQ does, and shows it only
when its turn has succeeded.

The fillers follow the worked examples in the description of the format.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import decode_record
from flintmq.store.files.disk import Disk
from flintmq.store.log.commit_log import CommitLog
from support.store.refusing_disk import RefusingDisk
from support.store.stored import Draft, draft_of

FILE_BYTES = 1024


def log_at(path: Path, disk: Disk | None = None, end: int = 0) -> CommitLog:
    log = CommitLog(disk or Disk(), path, FILE_BYTES)
    log.load()
    log.open_at(LogOffset(end))
    return log


def stage(log: CommitLog, draft: Draft, queue_offset: QueueOffset, store_ms: int) -> LogOffset:
    log_offset = log.reserve(len(draft.octets()))
    log.stage(draft.octets(queue_offset, log_offset, store_ms), store_ms)
    return LogOffset(log_offset)


def append(log: CommitLog, *sizes: int) -> list[int]:
    """One turn with records of these sizes; where they went."""
    offsets = [stage(log, draft_of(size), QueueOffset(0), 1) for size in sizes]
    log.write()
    log.commit()
    return [int(offset) for offset in offsets]


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def test_a_record_that_leaves_no_room_for_a_filler_goes_to_the_next_file(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 500, 450)

    offsets = append(log, 95)

    files = contents(tmp_path)
    assert offsets == [1024]
    assert list(files) == ["00000000000000000000", "00000000000000001024"]
    assert files["00000000000000000000"][950:958].hex() == "0000004acbd43194"
    assert files["00000000000000000000"][958:] == bytes(66)
    assert log.end_offset == 1024 + 95


def test_a_record_that_leaves_just_the_filler_fits_and_the_next_one_rolls(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 500, 420)

    offsets = append(log, 96, 100)

    assert offsets == [920, 1024]
    assert contents(tmp_path)["00000000000000000000"][1016:].hex() == "00000008cbd43194"


@pytest.mark.parametrize(("size", "place"), [(116, 900), (117, 1024), (124, 1024)])
def test_eight_bytes_stay_free_behind_a_record(tmp_path: Path, size: int, place: int) -> None:
    log = log_at(tmp_path)
    append(log, 400, 500)

    assert append(log, size) == [place]


def test_every_file_is_made_at_full_size(tmp_path: Path) -> None:
    log = log_at(tmp_path)

    append(log, 600, 600, 600)

    assert {name: len(octets) for name, octets in contents(tmp_path).items()} == {
        f"{start:020d}": FILE_BYTES for start in (0, 1024, 2048)
    }


def test_a_batch_is_reserved_as_one(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 700)

    log.reserve(400)

    assert append(log, 200, 200) == [1024, 1224]


def test_a_record_holds_the_place_reserved_for_it(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 100)

    stage(log, draft_of(120), QueueOffset(7), 1_700_000_000_001)
    log.write()
    log.commit()

    view = log.read_view(LogOffset(100), 120)
    assert view is not None
    record = decode_record(view)
    assert (record.queue_offset, record.log_offset, record.store_ms) == (7, 100, 1_700_000_000_001)


def test_nothing_is_seen_before_the_turn_is_committed(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 100)

    stage(log, draft_of(100), QueueOffset(1), 1)
    log.write()

    assert log.end_offset == 100
    assert log.read_view(LogOffset(100), 100) is None


def test_reading_stops_at_the_end_of_a_file_and_of_the_log(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 600, 600)

    assert log.read_view(LogOffset(1000), 100) is None
    assert log.read_view(LogOffset(1024), 601) is None
    assert log.read_view(LogOffset(-1), 4) is None
    assert log.read_view(LogOffset(0), -1) is None
    assert log.read_view(LogOffset(99_999), 1) is None
    assert log.read_view(LogOffset(1024), 600) is not None


def test_the_log_opens_again_at_its_end(tmp_path: Path) -> None:
    append(log_at(tmp_path), 600, 600)

    log = log_at(tmp_path, end=1624)

    assert append(log, 100) == [1624]
    assert [segment.start for segment in log.segments] == [0, 1024]


def test_what_lies_behind_the_end_is_wiped_on_opening(tmp_path: Path) -> None:
    append(log_at(tmp_path), 600, 300, 600)

    log = log_at(tmp_path, end=600)

    assert list(contents(tmp_path)) == ["00000000000000000000"]
    assert contents(tmp_path)["00000000000000000000"][600:] == bytes(424)
    assert [segment.start for segment in log.segments] == [0]


def test_fewer_than_eight_bytes_at_the_end_of_a_file_are_left_alone(tmp_path: Path) -> None:
    append(log_at(tmp_path), 1000)
    log = log_at(tmp_path, end=1020)

    offsets = append(log, 100)

    assert offsets == [1024]
    assert contents(tmp_path)["00000000000000000000"][1000:] == bytes(24)


@pytest.mark.parametrize("changes", range(5))
@pytest.mark.parametrize("torn_bytes", [0, 50, 700])
def test_a_turn_that_fails_leaves_nothing_behind(
    tmp_path: Path, changes: int, torn_bytes: int
) -> None:
    disk = RefusingDisk()
    log = log_at(tmp_path, disk)
    append(log, 500)
    before = contents(tmp_path)
    for size in (300, 600, 600):
        stage(log, draft_of(size), QueueOffset(0), 1)
    disk.changes_left, disk.torn_bytes = changes, torn_bytes

    with pytest.raises(DiskFailed):
        log.write()
    log.undo()
    disk.changes_left = None
    log.mend()

    assert log.end_offset == 500
    assert contents(tmp_path) == before
    assert append(log, 300, 600, 600) == [500, 1024, 2048]


def test_a_first_turn_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    disk = RefusingDisk()
    log = log_at(tmp_path, disk)
    stage(log, draft_of(300), QueueOffset(0), 1)
    disk.changes_left, disk.torn_bytes = 1, 100
    with pytest.raises(DiskFailed):
        log.write()
    log.undo()

    disk.changes_left = None
    log.mend()

    assert append(log, 200) == [0]
    assert contents(tmp_path)["00000000000000000000"][200:] == bytes(824)


def test_mending_is_tried_again_until_the_disk_lets_it(tmp_path: Path) -> None:
    disk = RefusingDisk()
    log = log_at(tmp_path, disk)
    append(log, 500)
    stage(log, draft_of(300), QueueOffset(0), 1)
    disk.changes_left, disk.torn_bytes = 0, 100
    with pytest.raises(DiskFailed):
        log.write()
    log.undo()

    with pytest.raises(DiskFailed):
        log.mend()
    still_torn = log.is_torn
    disk.changes_left = None
    log.mend()

    assert (still_torn, log.is_torn) == (True, False)
    assert contents(tmp_path)["00000000000000000000"][500:] == bytes(524)


def test_an_undone_turn_that_wrote_nothing_needs_no_mending(tmp_path: Path) -> None:
    log = log_at(tmp_path)

    log.undo()

    assert not log.is_torn


def test_removing_the_oldest_file_moves_the_start(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 600, 600, 600)
    view = log.read_view(LogOffset(0), 600)
    assert view is not None
    octets = bytes(view)

    log.remove_first()

    assert log.min_offset == 1024
    assert log.read_view(LogOffset(0), 600) is None
    assert log.segment_at(LogOffset(0)) is None
    assert not (tmp_path / "00000000000000000000").exists()
    assert bytes(view) == octets


def test_bytes_are_written_once_more_after_a_failed_sync(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 600, 300, 600)
    before = contents(tmp_path)
    log.dirty.drain()

    log.write_again(LogOffset(600))

    assert contents(tmp_path) == before
    assert {path.name for path in log.dirty.files} == set(before)


def test_files_and_their_directory_wait_for_a_sync(tmp_path: Path) -> None:
    log = log_at(tmp_path / "commitlog")

    append(log, 600, 600)

    taken = log.dirty.drain()
    assert [path.name for path in taken.files] == [f"{start:020d}" for start in (0, 1024)]
    assert tmp_path / "commitlog" in taken.directories


def test_a_filler_is_all_that_is_written_behind_the_last_record(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    append(log, 800)

    stage(log, draft_of(500), QueueOffset(0), 1)
    log.write()
    log.commit()

    first = contents(tmp_path)["00000000000000000000"]
    assert struct.unpack(">iI", first[800:808]) == (224, 0xCBD43194)
    assert not any(first[808:])
