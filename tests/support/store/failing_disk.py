"""A disk whose writes and syncs fail when told."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from flintmq.errors import DiskFailed
from flintmq.store.files.disk import Buffer, Disk


class FailingDisk(Disk):
    """Fails what it is told to fail, with a number of the system."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.fails_in = ""  # part of the paths that fail
        self.fails_to_sync = False
        self.sync_number = errno.ENOSPC
        self.written: list[tuple[str, int, int]] = []

    def write(self, path: Path, at: int, chunks: Sequence[Buffer]) -> None:
        self._check(path, "write")
        super().write(path, at, chunks)
        self.written.append((path.parent.name, at, sum(map(len, chunks))))

    def create(self, path: Path, size_bytes: int) -> None:
        self._check(path, "create")
        super().create(path, size_bytes)

    def sync(self, path: Path) -> None:
        if self.fails_to_sync:
            raise DiskFailed(str(path), "sync", "refused", self.sync_number)
        super().sync(path)

    def sync_file_system(self) -> int | None:
        if self.fails_to_sync:
            raise DiskFailed("", "sync", "refused", self.sync_number)
        return super().sync_file_system()

    def _check(self, path: Path, operation: str) -> None:
        if self.number and self.fails_in in str(path):
            raise DiskFailed(str(path), operation, "refused", self.number)
