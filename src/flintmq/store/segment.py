"""One file of the commit log.

It is made at its full size, so that it is mapped once and never again, and it is read
through that map only.  It is written through `Disk`; the map shows what was written.

A segment that is deleted loses its name.  Whoever holds a view of it reads on, and the
system takes the room back when the last view is gone.
"""

from __future__ import annotations

from pathlib import Path

from flintmq.model.queue import LogOffset
from flintmq.store.disk import Disk
from flintmq.store.layout import file_name


class Segment:
    """The log's bytes [start, stop), in a file named by ``start``."""

    __slots__ = ("_disk", "_view", "path", "start", "stop")

    def __init__(self, disk: Disk, directory: Path, start: LogOffset, size_bytes: int) -> None:
        self._disk = disk
        self._view: memoryview | None = None
        self.path = directory / file_name(start)
        self.start = start
        self.stop = LogOffset(start + size_bytes)

    def __repr__(self) -> str:
        return f"<Segment [{self.start}, {self.stop})>"

    @property
    def size_bytes(self) -> int:
        return self.stop - self.start

    @property
    def view(self) -> memoryview:
        """Every byte of the file, written or not.  Mapped when first asked for."""
        if self._view is None:
            self._view = self._disk.map(self.path)
        return self._view
