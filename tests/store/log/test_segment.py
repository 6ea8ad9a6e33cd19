"""A segment shows what is written to its file, and goes on showing it after the file is gone."""

from __future__ import annotations

import errno
from contextlib import closing
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset
from flintmq.store.files.disk import Disk
from flintmq.store.log.commit_log import Segment
from support.store.stored import SMALL, bodies, open_store, store


class CountingDisk(Disk):
    maps = 0

    def map(self, path: Path) -> memoryview:
        self.maps += 1
        return super().map(path)


def test_a_segment_is_named_by_its_first_byte(tmp_path: Path) -> None:
    segment = Segment(Disk(), tmp_path, LogOffset(6_000_000), 4096)

    assert segment.path == tmp_path / "00000000000006000000"
    assert (segment.start, segment.stop, segment.size_bytes) == (6_000_000, 6_004_096, 4096)
    assert repr(segment) == "<Segment [6000000, 6004096)>"


def test_the_map_is_made_when_it_is_needed_and_then_kept(tmp_path: Path) -> None:
    disk = CountingDisk()
    segment = Segment(disk, tmp_path, LogOffset(0), 4096)
    disk.create(segment.path, 4096)
    assert disk.maps == 0

    first, second = segment.view, segment.view

    assert first is second
    assert disk.maps == 1


def test_the_view_shows_what_is_written_later(tmp_path: Path) -> None:
    disk = Disk()
    segment = Segment(disk, tmp_path, LogOffset(0), 4096)
    disk.create(segment.path, 4096)
    view = segment.view

    disk.write(segment.path, 100, (b"later",))

    assert bytes(view[100:105]) == b"later"


def test_the_view_outlives_the_file(tmp_path: Path) -> None:
    disk = Disk()
    segment = Segment(disk, tmp_path, LogOffset(0), 4096)
    disk.create(segment.path, 4096)
    disk.write(segment.path, 0, (b"kept",))
    view = segment.view

    disk.remove(segment.path)
    del segment

    assert bytes(view[:4]) == b"kept"


class NarrowDisk(Disk):
    """The disk of a process that may map only so many files."""

    def __init__(self, maps_max: int) -> None:
        super().__init__()
        self._maps_max = maps_max
        self._maps = 0

    def map(self, path: Path) -> memoryview:
        if self._maps == self._maps_max:
            raise DiskFailed(str(path), "map", "Cannot allocate memory", errno.ENOMEM)
        self._maps += 1
        return super().map(path)

    def can_map(self, size_bytes: int) -> bool:
        return size_bytes <= self._maps_max * SMALL.commit_log_file_bytes


def test_a_store_is_not_opened_when_its_files_cannot_all_be_mapped(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as log:
        while log.end_offset <= 2 * SMALL.commit_log_file_bytes:
            store(log, b"x" * 1000)

    with pytest.raises(DiskFailed, match=r"ulimit -v.*mappedFileSizeCommitLog"):
        open_store(tmp_path, disk=NarrowDisk(2))

    open_store(tmp_path, disk=NarrowDisk(3)).close()


def test_what_is_in_a_file_that_cannot_be_mapped_is_not_acknowledged(tmp_path: Path) -> None:
    log = open_store(tmp_path, disk=NarrowDisk(1))
    for _ in range(3):
        store(log, b"x" * 1000)

    with pytest.raises(DiskFailed, match="cannot map"):
        store(log, b"for the next file" + b"x" * 1000)

    assert len(bodies(log)) == 3
