"""One file of the commit log.

It is made at its full size, so that it is mapped once and never again, and it is read
through that map only.  It is written through `Disk`; the map shows what was written.

A process that may not map a file cannot serve what is in it.  So room for all files is asked for
when a store is opened, and a new file is mapped before its first record is acknowledged.

A segment that is deleted loses its name.  Whoever holds a view of it reads on, and the
system takes the room back when the last view is gone.
"""

from __future__ import annotations

import errno
from pathlib import Path

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset
from flintmq.store.disk import Disk
from flintmq.store.layout import file_name, file_start


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
        return self.map() if self._view is None else self._view

    def map(self) -> memoryview:
        """Make it readable now; `DiskFailed` when the process may not map so much."""
        if self._view is None:
            self._view = self._disk.map(self.path)
        return self._view


def require_mappable(disk: Disk, directory: Path, file_bytes: int) -> None:
    """`DiskFailed` when the files of a log, or the first one, cannot all be mapped at once."""
    count = max(1, sum(file_start(name) is not None for name in disk.names(directory)))
    if not disk.can_map(count * file_bytes):
        reason = (
            f"the process may not have {count * file_bytes} bytes of address space more; raise its "
            "limit (ulimit -v), or begin a new directory with a smaller mappedFileSizeCommitLog"
        )
        raise DiskFailed(str(directory), "map", reason, errno.ENOMEM)
