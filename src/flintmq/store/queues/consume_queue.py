"""One queue of a topic: a row of 20-byte units that point into the commit log.

The unit of queue offset n lies at byte 20·n.  A unit is good when its log offset is 0 or
more and its size above 0; behind the last good one there are only zeros.  `FILL_UNIT` is
good too, but stands for no record: it keeps the place of what is missing.

    write(first, units)     bytes go to disk; readers see nothing new
    advance(stop, …)        the turn succeeded: readers see them
    undo()                  the turn failed: the bytes become zeros again

    hold(units, …)          their records are in the log: readers see them, from memory
    flush()                 what is held goes to disk; when that fails it is held still

Held units lie behind all written ones.  A crash may take them: `recovery` makes them again.

There may be 10,000 queues, so a queue is a few numbers: it reads with one `pread` and
writes with one `pwrite` per file.  Nothing is verified against the log here; `recovery`
does that.

The smallest offset is the first unit that points at or past the start of the log, wherever
in the queue it is, and the largest offset when no unit does.  (RocketMQ 4.9 looks into the
first file only and may keep a smallest offset whose record is long gone.)

Invariant: every unit in [min_offset, max_offset) is good, and written or held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from flintmq.errors import CorruptRecord
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Buffer, Disk
from flintmq.store.files.file_sequence import FileRow
from flintmq.store.files.layout import FILL_SIZE, FILL_UNIT, UNIT, UNIT_BYTES

SCANNED_FILES = 3
"""How many of the last files are read on load to find the end, as RocketMQ does."""

CHUNK_UNITS = 3_200
"""Units read at once while looking for something: 64,000 bytes."""

CHUNK_GROWTH = 16
"""The first chunk may be smaller, as most queues are short; the next ones grow by this."""

GAP_UNITS_MAX = 10_000_000
"""The widest hole that is filled (200 MB).  A record further off has a damaged offset."""

Units: TypeAlias = npt.NDArray[np.void]
Mask: TypeAlias = npt.NDArray[np.bool_]
StoreTime: TypeAlias = Callable[[LogOffset, int], int | None]
"""Store time of the record at a log offset with a size, or nothing when it cannot be read."""

_NO_UNITS: Units = np.empty(0, UNIT)
_NOTHING = bytearray()  # for all queues that hold nothing; never changed


class Bound(Enum):
    """Which offset answers a question by time."""

    LOWER = "lower"  # the first at or after the time, or else the end of the queue
    UPPER = "upper"  # the last at or before the time, or else the first


class ConsumeQueue:
    """``directory`` is the queue's own.  Call `load` when it may exist already."""

    __slots__ = (
        "_held",
        "_pending_min",
        "_row",
        "_units_per_file",
        "_written",
        "is_broken",
        "log_stop",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self, disk: Disk, directory: Path, topic: str, queue_id: int, file_bytes: int
    ) -> None:
        assert file_bytes % UNIT_BYTES == 0, file_bytes
        self._row = FileRow(disk, directory, file_bytes)
        self._units_per_file = file_bytes // UNIT_BYTES
        self.topic = topic
        self.queue_id = queue_id
        self._reset()

    def _reset(self) -> None:
        self.min_offset = QueueOffset(0)
        self.max_offset = QueueOffset(0)
        self.log_stop = LogOffset(0)
        self._written = QueueOffset(0)  # max_offset without the held ones, and with those of a turn
        self._held = _NOTHING  # units from `_written` on
        self._pending_min: QueueOffset | None = None
        self.is_broken = False  # files are missing, or have the wrong size

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} [{self.min_offset}, {self.max_offset})>"

    def load(self) -> list[str]:
        """Find the files and the last good unit; tell what is wrong with the files.

        Reads only.  What lies behind the last good unit stays until `truncate`.
        """
        self._reset()
        row = self._row
        complaints = row.load()
        self.is_broken = row.has_strays
        stop = self._good_stop()
        if stop * UNIT_BYTES < row.stop_byte - row.file_bytes:
            complaints.append(f"{row.directory}: units end at {stop}, yet more files follow")
            self.is_broken = True
        self.max_offset = self._written = stop
        self.min_offset = self.first_offset
        self.correct_min(LogOffset(0))
        self.log_stop = self._log_stop_before(stop)
        return complaints

    @property
    def first_offset(self) -> QueueOffset:
        """Where the oldest file begins; whatever is before it is gone."""
        return QueueOffset(self._row.first_byte // UNIT_BYTES)

    def _good_stop(self) -> QueueOffset:
        """Where good units end, looked for from the third last file on, or from further back."""
        row = self._row
        start = max(row.first_byte, row.stop_byte - SCANNED_FILES * row.file_bytes)
        while start > row.first_byte and not _good(self._read(start // UNIT_BYTES - 1, 1)).any():
            start -= row.file_bytes
        stop = start // UNIT_BYTES
        for units in self._chunks(stop, row.stop_byte // UNIT_BYTES, count=200):
            good = _good(units)
            if not good.all():
                return QueueOffset(stop + int(np.argmin(good)))
            stop += len(units)
        return QueueOffset(stop)

    # Reading

    def units(self, start: QueueOffset, count_max: int) -> Units:
        """Up to ``count_max`` units from ``start`` on, of one file; none outside the queue."""
        count = min(count_max, self.max_offset - start)
        return self._read(start, count) if count > 0 else _NO_UNITS

    def octets(self, start: QueueOffset, count_max: int) -> bytes:
        """Up to ``count_max`` units as bytes of one file; of the last one a part may be missing."""
        count = min(count_max, self.max_offset - start)
        return self._octets(start, count) if count > 0 else b""

    def offset_by_time(self, time_ms: int, bound: Bound, store_time: StoreTime) -> QueueOffset:
        """The offset for a time, by binary search over the store times of the records."""
        low, high = self.min_offset, self.max_offset
        found = self.max_offset if bound is Bound.LOWER else self.min_offset
        while low < high:
            middle = QueueOffset((low + high) // 2)
            probe = self._timed(middle, high, store_time)
            if probe is None:
                high = middle
                continue
            offset, stored_ms = probe
            if stored_ms < time_ms or (stored_ms == time_ms and bound is Bound.UPPER):
                low = QueueOffset(offset + 1)
                found = offset if bound is Bound.UPPER else found
            else:
                high = middle
                found = offset if bound is Bound.LOWER else found
        return found

    def _timed(
        self, start: QueueOffset, stop: QueueOffset, store_time: StoreTime
    ) -> tuple[QueueOffset, int] | None:
        """The first record of a span whose store time can be read, and that time."""
        at = int(start)
        for units in self._chunks(start, stop, count=1):
            for index in np.flatnonzero(_real(units)).tolist():
                log_offset, size, _ = units[index].item()
                stored_ms = store_time(LogOffset(log_offset), size)
                if stored_ms is not None:
                    return QueueOffset(at + index), stored_ms
            at += len(units)
        return None

    def _read(self, start: int, count: int) -> Units:
        data = self._octets(start, count)
        return np.frombuffer(data, UNIT, len(data) // UNIT_BYTES)

    def _octets(self, start: int, count: int) -> bytes:
        if self._held and start + count > self._written:
            return self._read_held(start, count)
        return self._row.read(start * UNIT_BYTES, count * UNIT_BYTES)

    def _read_held(self, start: int, count: int) -> bytes:
        """Units as bytes, where some are held in memory and not written yet."""
        count = min(count, self._units_per_file - start % self._units_per_file)
        before = max(min(self._written - start, count), 0)
        first, stop = start + before - self._written, start + count - self._written
        data = self._row.read(start * UNIT_BYTES, before * UNIT_BYTES) if before else b""
        if before < count and len(data) == before * UNIT_BYTES:
            data += self._held[first * UNIT_BYTES : stop * UNIT_BYTES]
        return data

    def _chunks(self, start: int, stop: int, count: int = CHUNK_UNITS) -> Iterator[Units]:
        """All units of a span, some at a time, each time of one file."""
        while start < stop:
            units = self._read(start, min(count, stop - start))
            if not len(units):
                return
            yield units
            start += len(units)
            count = min(count * CHUNK_GROWTH, CHUNK_UNITS)

    def place(self, offset: QueueOffset) -> tuple[Path, int]:
        """Which file has a unit, and at which byte."""
        return self._row.place(offset * UNIT_BYTES)

    def first_byte_behind(self) -> tuple[Path, int] | None:
        """The first byte behind the last unit that is not zero: file and place."""
        byte = self._row.first_written(self.max_offset * UNIT_BYTES)
        return None if byte is None else self._row.place(byte)

    # Writing

    def write(self, first: QueueOffset, units: Buffer) -> None:
        """Put units at ``first`` and after.  Nothing is seen of them before `advance`.

        A hole between the end of the queue and ``first`` is filled; so is, in a new queue,
        the part of the file before ``first``.  Writing before the end replaces units.
        """
        assert not self._held, self
        if first > self._written or self._row.is_empty:
            self._fill_to(first)
        stop = QueueOffset(first + len(units) // UNIT_BYTES)
        self._written = max(self._written, stop)  # first, for a write may fail half-way
        self._row.write(first * UNIT_BYTES, units)

    def _fill_to(self, first: QueueOffset) -> None:
        begin = int(self._written)
        if self._row.is_empty:
            begin = first - first % self._units_per_file
            self._pending_min = first
        elif first - begin > GAP_UNITS_MAX:
            reason = f"queue offset {first} is far past the end of the queue at {begin}"
            raise CorruptRecord(str(self._row.directory), begin * UNIT_BYTES, reason)
        while begin < first:
            count = min(first - begin, CHUNK_UNITS)
            self._written = QueueOffset(begin + count)
            self._row.write(begin * UNIT_BYTES, FILL_UNIT * count)
            begin += count

    def advance(self, stop: QueueOffset, log_stop: LogOffset) -> None:
        """Show readers what was written, up to ``stop``."""
        assert self.max_offset <= stop <= self._written, (stop, self)
        if self._pending_min is not None:
            self.min_offset = self._pending_min
            self._pending_min = None
        self.max_offset = stop
        self.log_stop = log_stop

    def undo(self) -> None:
        """Take back what was written since the last `advance`.  May be called again."""
        if self._pending_min is not None:
            self.clear()
            return
        stop_byte = min(self._written * UNIT_BYTES, self._row.stop_byte)
        self._row.wipe(self.max_offset * UNIT_BYTES, stop_byte)
        self._written = self.max_offset

    def hold(self, units: bytearray, stop: QueueOffset, log_stop: LogOffset) -> None:
        """Show readers the next units, up to ``stop``, and keep them to be written later."""
        assert self.max_offset + len(units) // UNIT_BYTES == stop, (stop, self)
        if self._held:
            self._held += units
        else:
            self._held = units
        self.max_offset = stop
        self.log_stop = log_stop

    def flush(self) -> None:
        """Write what is held.  After a `DiskFailed` it can be tried again."""
        if self._held:
            self._row.write(self._written * UNIT_BYTES, self._held)
            self._held = _NOTHING
            self._written = self.max_offset

    # Shortening

    def truncate(self, stop: QueueOffset) -> None:
        """Cut every unit from ``stop`` on, and any bytes and files behind.  May be repeated."""
        assert self.first_offset <= stop <= self._written, (stop, self)
        if stop == 0:
            self.clear()
            return
        self._row.cut(stop * UNIT_BYTES)
        self.max_offset = self._written = stop
        self.min_offset = min(self.min_offset, stop)
        self.log_stop = self._log_stop_before(stop)

    def clear(self) -> None:
        """Remove every file: the queue begins anew."""
        self._row.clear()
        self._reset()

    def correct_min(self, log_min: LogOffset) -> None:
        """Move the smallest offset up to the first unit at or past the start of the log."""
        at = int(self.min_offset)
        while at < self.max_offset:
            file_stop = at - at % self._units_per_file + self._units_per_file
            if file_stop < self.max_offset and _is_before(self._read(file_stop - 1, 1), log_min):
                at = file_stop
                continue
            for units in self._chunks(at, min(file_stop, self.max_offset), count=1):
                alive = _real(units) & (units["log_offset"] >= log_min)
                if alive.any():
                    self.min_offset = QueueOffset(at + int(np.argmax(alive)))
                    return
                at += len(units)
            at = file_stop
        self.min_offset = self.max_offset

    def remove_files_before(self, log_min: LogOffset) -> int:
        """Remove files whose records are all gone, never the last one; tell how many."""
        row = self._row
        removed = 0
        while row.first_byte + row.file_bytes < self._written * UNIT_BYTES and (
            self._is_file_gone(log_min)
        ):
            row.remove_first()
            removed += 1
        self.min_offset = max(self.min_offset, self.first_offset)
        self.correct_min(log_min)
        return removed

    def _is_file_gone(self, log_min: LogOffset) -> bool:
        """True when no unit of the first file points at or past ``log_min``."""
        first = self.first_offset
        last = self._read(first + self._units_per_file - 1, 1)
        if _real(last).any():
            return _is_before(last, log_min)
        chunks = self._chunks(first, first + self._units_per_file)
        return not any((_real(units) & (units["log_offset"] >= log_min)).any() for units in chunks)

    def _log_stop_before(self, stop: QueueOffset) -> LogOffset:
        """Where the last record before a queue offset ends in the log; 0 without one."""
        count_max = 1
        while stop > self.first_offset:
            in_file = (stop - 1) % self._units_per_file + 1
            count = min(in_file, count_max)
            count_max = CHUNK_UNITS
            units = self._read(stop - count, count)
            real = np.flatnonzero(_real(units))
            if len(real):
                log_offset, size, _ = units[real[-1]].item()
                return LogOffset(log_offset + size)
            stop = QueueOffset(stop - count)
        return LogOffset(0)

    @property
    def dirty(self) -> DirtyFiles:
        """What a sync has to bring to disk."""
        return self._row.dirty


def found_queues(disk: Disk, root: Path) -> Iterator[tuple[str, int]]:
    """The queues that have a directory under ``consumequeue`` (or its extension)."""
    for topic in disk.names(root):
        for name in disk.names(root / topic) if disk.is_directory(root / topic) else ():
            if name.isascii() and name.isdigit() and name == str(int(name)):
                yield topic, int(name)


def is_fill(units: Units) -> Mask:
    """Which units stand for no record."""
    mask: Mask = (units["size"] == FILL_SIZE) & (units["log_offset"] == 0)
    return mask


def _good(units: Units) -> Mask:
    mask: Mask = (units["log_offset"] >= 0) & (units["size"] > 0)
    return mask


def _real(units: Units) -> Mask:
    return _good(units) & ~is_fill(units)


def _is_before(units: Units, log_min: LogOffset) -> bool:
    before: Any = _real(units) & (units["log_offset"] < log_min)
    return bool(before.all())
