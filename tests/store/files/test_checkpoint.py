"""The checkpoint is RocketMQ's file, and never promises more than was written into it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import DiskFailed
from flintmq.store.files.checkpoint import Checkpoint, CheckpointFile
from flintmq.store.files.disk import Disk
from support.crash.recording import RecordingDisk, Synced, Wrote
from support.store.real_stores import ALL, stored_messages, unpack_store
from support.store.refusing_disk import RefusingDisk

NUMBER = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("name", ALL)
def test_a_real_checkpoint_is_read_and_written_back_the_same(name: str, tmp_path: Path) -> None:
    path = unpack_store(name, tmp_path) / "checkpoint"
    content = path.read_bytes()
    last_ms = max(m["storeTimestamp"] for m in stored_messages(name) if "storeTimestamp" in m)

    found = CheckpointFile(Disk(), path).read()
    path.unlink()
    CheckpointFile(Disk(), path).write(found)

    assert found.log_ms == found.queues_ms
    assert abs(found.log_ms - last_ms) < 10_000  # an op message may be the last
    assert 0 <= found.index_ms <= found.log_ms
    assert path.read_bytes() == content


@settings(max_examples=50, deadline=None)
@given(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER, NUMBER))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, numbers: tuple[int, ...]
) -> None:
    path = tmp_path_factory.getbasetemp() / "checkpoint"
    CheckpointFile(Disk(), path).write(Checkpoint(*numbers))

    assert CheckpointFile(Disk(), path).read() == Checkpoint(*numbers)
    assert path.read_bytes() == struct.pack(">5q", *numbers).ljust(4096, b"\0")


@pytest.mark.parametrize("content", [None, b"", bytes(39)])
def test_a_missing_or_short_file_promises_nothing_and_is_replaced(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "checkpoint"
    if content is not None:
        path.write_bytes(content)
    file = CheckpointFile(Disk(), path)

    found = file.read()
    file.write(Checkpoint(1, 2, 3))

    assert found == Checkpoint()
    assert path.read_bytes() == struct.pack(">5q", 1, 2, 3, 0, 0).ljust(4096, b"\0")


def test_a_file_of_another_length_is_read_and_made_a_page(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(struct.pack(">5q", 1, 2, 3, 4, 5))
    file = CheckpointFile(Disk(), path)

    found = file.read()
    file.write(found)

    assert found == Checkpoint(1, 2, 3, 4, 5)
    assert len(path.read_bytes()) == 4096


def test_a_change_is_written_in_place_and_synced_and_no_change_is_not(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    CheckpointFile(Disk(), path).write(Checkpoint(1, 2, 3))
    disk = RecordingDisk(tmp_path)
    file = CheckpointFile(disk, path)
    checkpoint = file.read()

    file.write(checkpoint)
    checkpoint.log_ms = 9
    file.write(checkpoint)
    file.write(checkpoint)

    assert disk.notes == [Wrote(path, 0, struct.pack(">5q", 9, 2, 3, 0, 0)), Synced(path)]


def test_a_refused_write_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    disk = RefusingDisk()
    file = CheckpointFile(disk, path)
    file.write(Checkpoint(1, 1, 1))
    disk.changes_left = 1
    with pytest.raises(DiskFailed):
        file.write(Checkpoint(2, 2, 2))
    disk.changes_left = None

    file.write(Checkpoint(1, 1, 1))  # nobody knows what is there: it counts as a change

    assert CheckpointFile(Disk(), path).read() == Checkpoint(1, 1, 1)


@pytest.mark.parametrize(
    ("log_ms", "queues_ms", "index_ms", "safe_ms"),
    [
        (10_000, 20_000, 30_000, 7_000),
        (20_000, 10_000, 30_000, 7_000),
        (10_000, 10_000, 6_000, 6_000),
        (2_000, 9_000, 9_000, 0),
        (0, 0, 0, 0),
    ],
)
def test_what_is_safe_is_three_seconds_before_the_oldest_promise(
    log_ms: int, queues_ms: int, index_ms: int, safe_ms: int
) -> None:
    assert Checkpoint(log_ms, queues_ms, index_ms).min_store_ms() == safe_ms
