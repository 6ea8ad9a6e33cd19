"""Holes of a file are neither read nor filled: a wiped file takes no more room than before."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from flintmq.errors import DiskFailed
from flintmq.store.files import disk as disk_module
from flintmq.store.files.disk import Disk

SIZE_BYTES = 50_000_000


def sparse(tmp_path: Path, disk: Disk) -> Path:
    """A file with a little at its start, in its middle and at its end."""
    path = tmp_path / "sparse"
    disk.create(path, SIZE_BYTES)
    for at in (10, 20_000_000, SIZE_BYTES - 3):
        disk.write(path, at, (b"abc",))
    return path


def test_only_what_was_written_is_read(tmp_path: Path) -> None:
    disk = Disk()
    path = sparse(tmp_path, disk)

    blocks = list(disk.written_blocks(path, 0, SIZE_BYTES))

    assert sum(block.count(b"abc") for _, block in blocks) == 3
    assert sum(len(block) for _, block in blocks) < SIZE_BYTES / 10
    for at, block in blocks:
        assert disk.read(path, at, len(block)) == block


def test_written_zeros_are_left_out_so_a_copy_without_holes_is_looked_at_quickly(
    tmp_path: Path,
) -> None:
    disk = Disk()
    path = tmp_path / "dense"
    path.write_bytes(bytes(200_000) + b"abc" + bytes(200_000))

    blocks = list(disk.written_blocks(path, 0, 400_003, block_bytes=65_536))

    assert [(at, block.strip(b"\0")) for at, block in blocks] == [(196_608, b"abc")]


def test_a_span_is_not_left(tmp_path: Path) -> None:
    disk = Disk()
    path = sparse(tmp_path, disk)

    blocks = list(disk.written_blocks(path, 11, 13, block_bytes=1))

    assert blocks == [(11, b"b"), (12, b"c")]
    assert list(disk.written_blocks(path, SIZE_BYTES, SIZE_BYTES + 9)) == []


def test_a_wipe_makes_zeros_and_tells_whether_there_was_anything(tmp_path: Path) -> None:
    disk = Disk()
    path = sparse(tmp_path, disk)

    wiped = [disk.wipe(path, 11, SIZE_BYTES), disk.wipe(path, 11, SIZE_BYTES)]

    assert wiped == [True, False]
    assert path.read_bytes() == (bytes(10) + b"a").ljust(SIZE_BYTES, b"\0")
    assert path.stat().st_blocks * 512 < 1_000_000


@pytest.mark.parametrize("kind", ["no such call", "no book of holes"])
def test_without_a_book_of_holes_everything_is_looked_at(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    path = tmp_path / "file"
    disk.create(path, 200_000)
    disk.write(path, 150_000, (b"abc",))

    if kind == "no such call":
        monkeypatch.setattr(disk_module, "_SEEK_DATA", None)
    else:
        monkeypatch.setattr(os, "lseek", refuse(errno.EINVAL))
    blocks = list(disk.written_blocks(path, 0, 300_000, block_bytes=65_536))
    disk.wipe(path, 0, 200_000)

    [(at, block)] = blocks
    assert at == 131_072
    assert block == bytes(150_000 - at) + b"abc" + bytes(at + 65_536 - 150_003)
    assert path.read_bytes() == bytes(200_000)


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    path = tmp_path / "file"
    disk.create(path, 10)
    monkeypatch.setattr(os, "lseek", refuse(errno.EIO))

    with pytest.raises(DiskFailed, match="cannot seek"):
        list(disk.written_blocks(path, 0, 10))


def refuse(number: int) -> Any:
    def lseek(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return lseek
