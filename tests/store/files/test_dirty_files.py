"""What is dirty stays so until a sync of it succeeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.store.files.dirty_files import DirtyFiles
from support.crash.recording import RecordingDisk, Synced, SyncedDirectory
from support.store.refusing_disk import RefusingDisk


def test_a_sync_brings_names_first_and_each_file_once(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    disk.create(tmp_path / "a", 1)
    disk.notes.clear()
    dirty = DirtyFiles()
    dirty.wrote(tmp_path / "a")
    dirty.wrote(tmp_path / "a")
    dirty.renamed(tmp_path, tmp_path.parent)
    dirty.renamed(tmp_path)

    dirty.sync(disk)
    dirty.sync(disk)

    assert disk.notes == [
        SyncedDirectory(tmp_path),
        SyncedDirectory(tmp_path.parent),
        Synced(tmp_path / "a"),
    ]


def test_a_removed_file_is_not_synced_but_its_directory_is(tmp_path: Path) -> None:
    dirty = DirtyFiles()
    dirty.wrote(tmp_path / "a")
    dirty.wrote(tmp_path / "b")

    dirty.removed(tmp_path / "a")

    assert dirty.files == (tmp_path / "b",)
    assert dirty.directories == (tmp_path,)


def test_what_changes_while_a_sync_runs_is_dirty_again(tmp_path: Path) -> None:
    dirty = DirtyFiles()
    dirty.wrote(tmp_path / "a")

    taken = dirty.drain()
    dirty.wrote(tmp_path / "a")

    assert taken.files == dirty.files == (tmp_path / "a",)


def test_a_sync_that_fails_puts_everything_back(tmp_path: Path) -> None:
    disk = RefusingDisk()
    for name in "ab":
        disk.create(tmp_path / name, 1)
    dirty = DirtyFiles()
    dirty.wrote(tmp_path / "a")
    dirty.wrote(tmp_path / "b")
    dirty.renamed(tmp_path)

    disk.changes_left = 1
    with pytest.raises(DiskFailed):
        dirty.sync(disk)

    assert dirty.files == (tmp_path / "a", tmp_path / "b")
    assert dirty.directories == (tmp_path,)
