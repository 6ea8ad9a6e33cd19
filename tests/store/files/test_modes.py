"""What a store makes is for its owner alone, and what others made keeps its mode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from support.store.stored import SMALL, bodies, open_store, store


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def fill(directory: Path, topic: str) -> None:
    """Every kind of file a store has."""
    disk = Disk()
    with closing(open_store(directory, disk=disk)) as log:
        store(log, b"secret", topic, keys=("k",))
        log.delete_topic("nobody")
        for _ in range(2):  # the second time with a backup
            Tables(disk, directory).consumer_offsets.save(ConsumerOffsets())


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_everything_a_store_makes_is_for_its_owner_alone(tmp_path: Path, mask: int) -> None:
    directory = tmp_path / "a" / "b" / "store"
    with umask(mask):
        fill(directory, "T")

    made = [tmp_path / "a", tmp_path / "a" / "b", directory, *directory.rglob("*")]

    assert len(made) > 12
    assert {mode(path) for path in made if path.is_dir()} == {0o700}
    assert {mode(path) for path in made if path.is_file()} == {0o600}


def test_a_directory_that_others_may_read_is_opened_and_keeps_its_modes(tmp_path: Path) -> None:
    fill(tmp_path, "T")
    before = {}
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        before[path] = mode(path)
    replaced = {"abort", "checkpoint", "lock"}

    fill(tmp_path, "U")

    log = open_store(tmp_path, SMALL)
    assert bodies(log, "T") == bodies(log, "U") == [b"secret"]
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.name not in replaced and path.parent.name != "config":
            usual = 0o700 if path.is_dir() else 0o600
            assert mode(path) == before.get(path, usual), path
