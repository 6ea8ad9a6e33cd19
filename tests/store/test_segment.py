"""A segment shows what is written to its file, and goes on showing it after the file is gone."""

from __future__ import annotations

from pathlib import Path

from flintmq.model.queue import LogOffset
from flintmq.store.disk import Disk
from flintmq.store.segment import Segment


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
