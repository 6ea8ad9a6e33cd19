"""The disk keeps no more descriptors than the process can spare, and files work all the same."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.store.files.disk import OPEN_FILES_MAX, Disk


@pytest.mark.parametrize(
    ("soft", "kept"),
    [
        (256, 128),
        (1_024, 512),
        (20_000, 10_000),
        (1 << 20, OPEN_FILES_MAX),
        (resource.RLIM_INFINITY, OPEN_FILES_MAX),
    ],
)
def test_half_of_what_the_process_may_open_is_kept_open(
    monkeypatch: pytest.MonkeyPatch, soft: int, kept: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))

    assert Disk()._open_files_max == kept


def test_more_files_than_descriptors_can_be_written_and_read(tmp_path: Path) -> None:
    disk = Disk(open_files_max=4)
    paths = [tmp_path / str(number) for number in range(20)]

    for path in paths:
        disk.create(path, 100)
    for number, path in enumerate(paths):
        disk.write(path, 50, (bytes([number]),))
    found = [disk.read(path, 50, 1) for path in paths]

    assert found == [bytes([number]) for number in range(20)]
    assert len(disk._descriptors) == 4


def test_a_file_grows_with_zeros(tmp_path: Path) -> None:
    disk = Disk()
    path = tmp_path / "short"
    path.write_bytes(b"abc")

    disk.resize(path, 10)

    assert path.read_bytes() == b"abc" + bytes(7)


def test_what_the_system_refuses_is_told_with_its_number(tmp_path: Path) -> None:
    disk = Disk()

    with pytest.raises(DiskFailed) as read:
        disk.read(tmp_path / "missing", 0, 1)
    with pytest.raises(DiskFailed) as resized:
        disk.resize(tmp_path / "missing", 1)

    assert read.value.number == resized.value.number == errno.ENOENT
    assert (read.value.operation, resized.value.operation) == ("read", "resize")


def test_the_machine_has_memory() -> None:
    assert Disk().memory_bytes() > 1 << 20
