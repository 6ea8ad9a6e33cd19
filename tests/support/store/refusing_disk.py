"""A disk that can be told to refuse."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from flintmq.errors import DiskFailed
from flintmq.store.files.disk import Buffer, Disk


class RefusingDisk(Disk):
    """The real disk until ``changes_left`` runs out; then it is full.

    Of a refused write the first ``torn_bytes`` reach the file all the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changes_left: int | None = None
        self.torn_bytes = 0

    def write(self, path: Path, at: int, chunks: Sequence[Buffer]) -> None:
        try:
            self._spend(path, "write")
        except DiskFailed:
            torn = b"".join(chunks)[: self.torn_bytes]
            if torn:
                super().write(path, at, (torn,))
            raise
        super().write(path, at, chunks)

    def create(self, path: Path, size_bytes: int) -> None:
        self._spend(path, "create")
        super().create(path, size_bytes)

    def replace(self, path: Path, content: bytes) -> None:
        self._spend(path, "replace")
        super().replace(path, content)

    def remove(self, path: Path) -> None:
        self._spend(path, "remove")
        super().remove(path)

    def sync(self, path: Path) -> None:
        self._spend(path, "sync")
        super().sync(path)

    def sync_file_system(self) -> int | None:
        self._spend(Path(), "sync")
        return super().sync_file_system()

    def _spend(self, path: Path, operation: str) -> None:
        if self.changes_left is None:
            return
        if self.changes_left == 0:
            raise DiskFailed(str(path), operation, "No space left on device", errno.ENOSPC)
        self.changes_left -= 1
