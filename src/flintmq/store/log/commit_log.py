"""The commit log: every record of the store, one after the other, in files of equal size.

No record lies in two files.  One that does not fit, with the eight bytes of a filler kept
free behind it, goes to the next file, and the filler says that the rest of the old one is
empty.  A batch is placed as one.

    reserve(size)   the log offset of the next records; nothing is written yet
    stage(octets)   those records, which hold their log offsets
    write()         one write per file; readers see nothing new
    commit()        the turn succeeded: readers see them
    undo()          the turn failed: the bytes go back to zeros

A `Segment` is one file.  It is made at its full size, so that it is mapped once, and it is read
through that map only; it is written through `Disk`, and the map shows what was written.  A
process that may not map a file cannot serve what is in it.  So room for all files is asked for
when a store is opened, and a new file is mapped before its first record is acknowledged.  A
segment that is deleted loses its name.  Whoever holds a view of it reads on, and the system
frees the space when the last view is released.

What records say is not known here, only how large they are.

Invariant: bytes at and past ``end_offset`` are zeros, or belong to the turn under way, or
``is_torn`` says that they have to be wiped first.
"""

from __future__ import annotations

import errno
from pathlib import Path

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset
from flintmq.protocol.records.record import FILLER_BYTES_MIN, encode_filler
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk
from flintmq.store.files.file_sequence import FileRow
from flintmq.store.files.layout import file_name, file_start


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


COPY_BYTES = 1024 * 1024
"""How much is written again at once after a failed sync."""


class CommitLog:
    """``directory`` is ``commitlog`` of a store.  `load`, then `open_at`, then the rest."""

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        self._disk = disk
        self._row = FileRow(disk, directory, file_bytes)
        self._segments: dict[int, Segment] = {}  # by start
        self.file_bytes = file_bytes
        self.end_offset = LogOffset(0)
        self._placed = 0  # end_offset, and further while a turn is under way
        self._file_stop = 0  # of the file that `_placed` is in
        self._staging = bytearray()  # the last of the stretches
        self.staged_ms = 0
        """Store time of the last record that was staged."""
        self._stretches: list[tuple[int, bytearray]] = []  # where, and what
        self.is_torn = False
        self._begin_turn()

    def __repr__(self) -> str:
        return f"<CommitLog [{self.min_offset}, {self.end_offset})>"

    # Loading

    def load(self) -> list[str]:
        """Find the files; tell what does not belong.  Reads only."""
        complaints = self._row.load()
        row = self._row
        self._segments = {
            start: self._segment(start)
            for start in range(row.first_byte, row.stop_byte, self.file_bytes)
        }
        return complaints

    def open_at(self, end: LogOffset) -> None:
        """Append from ``end`` on.  What lies behind is wiped, later files are removed."""
        assert self.min_offset <= end <= self._row.stop_byte, (end, self)
        if not self._row.is_empty:
            self._row.cut(end)
        for start in [start for start in self._segments if start >= self._row.stop_byte]:
            del self._segments[start]
        self.end_offset = end
        self._begin_turn()

    @property
    def min_offset(self) -> LogOffset:
        """The first byte that is still there."""
        return LogOffset(self._row.first_byte)

    @property
    def dirty(self) -> DirtyFiles:
        """What waits for a sync."""
        return self._row.dirty

    @property
    def segments(self) -> list[Segment]:
        """The files, oldest first."""
        return list(self._segments.values())

    def _segment(self, start: int) -> Segment:
        return Segment(self._disk, self._row.directory, LogOffset(start), self.file_bytes)

    def _begin_turn(self) -> None:
        inside = self.end_offset % self.file_bytes
        self._placed = self.end_offset
        self._file_stop = self.end_offset + (self.file_bytes - inside if inside else 0)
        self._staging = bytearray()
        self._stretches = [(self.end_offset, self._staging)]
        self._made: dict[int, Segment] = {}  # files that came with the turn

    # Reading

    def segment_at(self, log_offset: LogOffset) -> Segment | None:
        return self._segments.get(log_offset - log_offset % self.file_bytes)

    def next_file(self, log_offset: LogOffset) -> LogOffset:
        """Where the file after the one with ``log_offset`` begins."""
        return LogOffset(log_offset - log_offset % self.file_bytes + self.file_bytes)

    def read_view(self, log_offset: LogOffset, size_bytes: int) -> memoryview | None:
        """Written bytes of one file, or nothing when they are not all there."""
        segment = self.segment_at(log_offset)
        stop = log_offset + size_bytes
        if segment is None or size_bytes < 0 or stop > self.end_offset or stop > segment.stop:
            return None
        return segment.view[log_offset - segment.start : stop - segment.start]

    # A turn

    @property
    def staged_bytes(self) -> int:
        """How much the turn under way takes."""
        return self._placed - self.end_offset

    def reserve(self, size_bytes: int) -> int:
        """Where the next records of ``size_bytes`` in all go, which all go into one file."""
        if self._placed + size_bytes + FILLER_BYTES_MIN > self._file_stop:
            assert size_bytes + FILLER_BYTES_MIN <= self.file_bytes, size_bytes
            self._roll()
        return self._placed

    @property
    def records_stop(self) -> int:
        """Where records of the file under way have to end."""
        return self._file_stop - FILLER_BYTES_MIN

    def stage(self, octets: bytes | bytearray, store_ms: int) -> None:
        """Take records into the turn that know the place which was reserved for them."""
        self._staging += octets
        self._placed += len(octets)
        self.staged_ms = store_ms

    def stage_copy(self, octets: memoryview, store_ms: int) -> None:
        """Take bytes of another log, which continue this one and end in the file they begin in."""
        if self._placed == self._file_stop:
            self._roll()
        assert self._placed + len(octets) <= self._file_stop, (len(octets), self)
        self._staging += octets
        self._placed += len(octets)
        self.staged_ms = store_ms or self.staged_ms  # a filler has none

    @property
    def room_bytes(self) -> int:
        """How much the file that is written next still takes."""
        return self._file_stop - self._placed or self.file_bytes

    def begin_at(self, start: LogOffset) -> None:
        """Begin a log without files at the start of any file, as a copy of another log does."""
        assert self._row.is_empty, self
        assert not self.staged_bytes, self
        assert start % self.file_bytes == 0, start
        self.end_offset = start
        self._begin_turn()

    @property
    def has_files(self) -> bool:
        return not self._row.is_empty

    def _roll(self) -> None:
        left = self._file_stop - self._placed
        if left >= FILLER_BYTES_MIN:
            self._staging += encode_filler(left)
        self._placed = self._file_stop
        self._file_stop += self.file_bytes
        self._staging = bytearray()
        self._stretches.append((self._placed, self._staging))

    def write(self) -> None:
        """Write what was staged.  After a `DiskFailed` call `undo`."""
        for at, octets in self._stretches:
            if octets:
                if at == self._row.stop_byte and not self._row.is_empty:
                    # After a crash no file may be there without the one before it.
                    self._disk.sync_directory(self._row.directory)
                self._row.write(at, octets)
                self._map(at - at % self.file_bytes)

    def _map(self, start: int) -> None:
        """See that what is acknowledged can be read: a new file is mapped before that."""
        if start not in self._segments and start not in self._made:
            segment = self._segment(start)
            segment.map()
            self._made[start] = segment

    def commit(self) -> None:
        """Show readers what `write` wrote."""
        self._segments.update(self._made)
        self.end_offset = LogOffset(self._placed)
        self._begin_turn()

    def undo(self) -> None:
        """Forget the turn.  `mend` has to bring the files back before the next one."""
        self.is_torn = self.is_torn or any(octets for _, octets in self._stretches)
        self._begin_turn()

    def mend(self) -> None:
        """Wipe what a failed turn left behind.  A `DiskFailed` leaves it to be tried again."""
        if self.is_torn:
            self._row.cut(self.end_offset)
            self.is_torn = False

    def write_again(self, start: LogOffset) -> None:
        """Write the bytes from ``start`` to the end once more, because a sync of them failed.

        The system may have marked them as clean when it could not write them, and then a
        second sync would promise what is not so.
        """
        at = start
        while at < self.end_offset:
            stop = LogOffset(min(at + COPY_BYTES, self.end_offset, self.next_file(at)))
            view = self.read_view(at, stop - at)
            assert view is not None, (at, self)
            self._row.write(at, bytes(view))
            at = stop

    def rewrite(self, start: LogOffset, octets: bytes) -> None:
        """Write bytes that were damaged once more; readers see them at once."""
        assert self.min_offset <= start <= start + len(octets) <= self.end_offset, (start, self)
        self._row.write(start, octets)

    # Old files

    def remove_first(self) -> None:
        """Remove the oldest file.  Views of it stay readable."""
        assert len(self._segments) > 1, self
        first = self._row.first_byte
        self._row.remove_first()
        self._disk.sync_directory(self._row.directory)  # before the next one goes
        del self._segments[first]
