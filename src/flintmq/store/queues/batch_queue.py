"""One queue of a topic that keeps batches: a row of 46-byte units, one for each record.

A record holds one message or several (RocketMQ 5.x: ``queue.type=BatchCQ``).  Its unit says at
which queue offset the first one is and how many there are, so units stand side by side in the
order of the log, and a queue offset is found by binary search.  Offsets whose records were lost
have no unit; who asks for one gets the next.

Units are held in memory until `flush`, as those of `consume_queue` are; a crash may take them, and
`recovery` makes them again.  Nothing is verified against the log here.

Invariant: places in the log and queue offsets rise from unit to unit, and no two units share an
offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk
from flintmq.store.files.file_sequence import FileRow
from flintmq.store.files.layout import (
    BATCH_UNIT,
    BATCH_UNIT_BYTES,
    BATCH_UNIT_STRUCT,
    NOT_COMPACTED,
)
from flintmq.store.queues.consume_queue import SCANNED_FILES, Bound

CHUNK_UNITS = 1_400
"""Units read at once while looking for the end: 64,000 bytes."""

BatchUnits: TypeAlias = npt.NDArray[np.void]

_NO_UNITS: BatchUnits = np.empty(0, BATCH_UNIT)


class BatchUnit(NamedTuple):
    """One unit: ``messages`` from ``base_offset`` on are in the record at ``log_offset``."""

    log_offset: int
    size_bytes: int
    tags_code: int
    store_ms: int
    base_offset: int
    messages: int
    compacted: int = NOT_COMPACTED
    reserved: int = 0

    @property
    def stop_offset(self) -> QueueOffset:
        return QueueOffset(self.base_offset + self.messages)

    def octets(self) -> bytes:
        return BATCH_UNIT_STRUCT.pack(*self)


class BatchQueue:
    """``directory`` is the queue's own.  Call `load` when it may exist already.

    Units are numbered; the first one that is there has the number `first_unit`.
    """

    __slots__ = (
        "_held",
        "_row",
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
        assert file_bytes % BATCH_UNIT_BYTES == 0, file_bytes
        self._row = FileRow(disk, directory, file_bytes)
        self.topic = topic
        self.queue_id = queue_id
        self._reset()

    def _reset(self) -> None:
        self.min_offset = QueueOffset(0)
        self.max_offset = QueueOffset(0)
        self.log_stop = LogOffset(0)
        self._written = 0  # units on disk
        self._held = bytearray()  # units behind them
        self.is_broken = False  # files are missing, or have the wrong size

    def __repr__(self) -> str:
        return f"<BatchQueue {self.topic}/{self.queue_id} [{self.min_offset}, {self.max_offset})>"

    def load(self) -> list[str]:
        """Find the files and the last good unit; tell what is wrong.  Reads only."""
        self._reset()
        row = self._row
        complaints = row.load()
        self.is_broken = row.has_strays
        self._written = self._good_stop()
        if self._written * BATCH_UNIT_BYTES < row.stop_byte - row.file_bytes:
            complaints.append(
                f"{row.directory}: units end at {self._written}, yet more files follow"
            )
            self.is_broken = True
        self._note_end()
        self.correct_min(LogOffset(0))
        return complaints

    def _good_stop(self) -> int:
        """Where good units end, looked for from the third last file on, or from further back."""
        row = self._row
        start = max(row.first_byte, row.stop_byte - SCANNED_FILES * row.file_bytes)
        while start > row.first_byte:
            if _is_good(self._read(start // BATCH_UNIT_BYTES - 1, 1)).any():
                break
            start -= row.file_bytes
        stop = start // BATCH_UNIT_BYTES
        while len(units := self._read(stop, CHUNK_UNITS)):
            good = _is_good(units)
            if not good.all():
                return stop + int(np.argmin(good))
            stop += len(units)
        return stop

    def _note_end(self) -> None:
        """Learn the end of the queue from its last unit."""
        self.max_offset, self.log_stop = QueueOffset(0), LogOffset(0)
        if self.unit_stop > self.first_unit:
            last = self.unit(self.unit_stop - 1)
            self.max_offset = last.stop_offset
            self.log_stop = LogOffset(last.log_offset + last.size_bytes)

    # Reading

    @property
    def first_unit(self) -> int:
        """The number of the first unit that is there."""
        return self._row.first_byte // BATCH_UNIT_BYTES

    @property
    def unit_stop(self) -> int:
        """The number the next unit will have."""
        return self._written + len(self._held) // BATCH_UNIT_BYTES

    def units(self, start: int, count_max: int) -> BatchUnits:
        """Up to ``count_max`` units from number ``start`` on, of one file or of those held."""
        count = min(count_max, self.unit_stop - start)
        return self._read(start, count) if count > 0 and start >= self.first_unit else _NO_UNITS

    def unit(self, number: int) -> BatchUnit:
        return BatchUnit(*BATCH_UNIT_STRUCT.unpack(self._octets(number, 1)))

    def units_in_file(self, number: int) -> int:
        """How many units there may be from this one on in its file."""
        per_file = self._row.file_bytes // BATCH_UNIT_BYTES
        return per_file - number % per_file

    def number_at(self, offset: QueueOffset) -> int:
        """The unit that has a queue offset, or the first one behind it."""
        numbers = range(self.first_unit, self.unit_stop)
        after = bisect_right(numbers, int(offset), key=lambda at: self.unit(at).base_offset)
        if after and self.unit(numbers[after - 1]).stop_offset > offset:
            after -= 1
        return self.first_unit + after

    def number_from(self, log_offset: LogOffset) -> int:
        """The first unit whose record is at or behind a place of the log."""
        numbers = range(self.first_unit, self.unit_stop)
        place = int(log_offset)
        return numbers.start + bisect_left(numbers, place, key=lambda at: self.unit(at).log_offset)

    def offset_by_time(self, time_ms: int, bound: Bound) -> QueueOffset:
        """Where the batch for a time begins, by the store times in the units.

        Where none is so late, `Bound.LOWER` gives the last one, as RocketMQ does here.
        """
        first, stop = self.number_at(self.min_offset), self.unit_stop
        if first == stop:
            return self.max_offset
        find = bisect_left if bound is Bound.LOWER else bisect_right
        found = find(range(first, stop), time_ms, key=lambda number: self.unit(number).store_ms)
        if bound is Bound.UPPER:
            found -= 1
        return QueueOffset(self.unit(first + min(max(found, 0), stop - first - 1)).base_offset)

    def _read(self, start: int, count: int) -> BatchUnits:
        data = self._octets(start, count)
        return np.frombuffer(data, BATCH_UNIT, len(data) // BATCH_UNIT_BYTES)

    def _octets(self, start: int, count: int) -> bytes:
        if self._held and start >= self._written:
            at = (start - self._written) * BATCH_UNIT_BYTES
            return bytes(self._held[at : at + count * BATCH_UNIT_BYTES])
        if self._held:
            count = min(count, self._written - start)
        return self._row.read(start * BATCH_UNIT_BYTES, count * BATCH_UNIT_BYTES)

    def place(self, number: int) -> tuple[Path, int]:
        """Which file has a unit, and at which byte."""
        return self._row.place(number * BATCH_UNIT_BYTES)

    def first_byte_behind(self) -> tuple[Path, int] | None:
        """The first byte behind the last unit that is not zero: file and place."""
        byte = self._row.first_written(self.unit_stop * BATCH_UNIT_BYTES)
        return None if byte is None else self._row.place(byte)

    # Writing

    def hold(self, units: bytearray, stop: QueueOffset, log_stop: LogOffset) -> None:
        """Show readers the next units, up to ``stop``, and keep them to be written later."""
        if units and self.unit_stop == self.first_unit:
            self.min_offset = QueueOffset(BATCH_UNIT_STRUCT.unpack_from(units)[4])
        self._held += units
        self.max_offset = stop
        self.log_stop = log_stop

    def flush(self) -> None:
        """Write what is held.  After a `DiskFailed` it can be tried again."""
        if self._held:
            self._row.write(self._written * BATCH_UNIT_BYTES, self._held)
            self._written = self.unit_stop
            self._held = bytearray()

    # Shortening

    def truncate(self, stop: int) -> None:
        """Cut every unit from number ``stop`` on, and any bytes behind.  May be repeated."""
        assert not self._held, self
        assert self.first_unit <= stop <= self._written, (stop, self)
        if stop == self.first_unit:  # no unit is left to tell which offsets there were
            self.clear()
            return
        self._row.cut(stop * BATCH_UNIT_BYTES)
        self._written = stop
        self._note_end()
        self.min_offset = min(self.min_offset, self.max_offset)

    def clear(self) -> None:
        """Remove every file: the queue begins anew."""
        self._row.clear()
        self._reset()

    def correct_min(self, log_min: LogOffset) -> None:
        """Make the first unit at or past the start of the log the smallest offset."""
        number = self.number_from(log_min)
        self.min_offset = self.max_offset
        if number < self.unit_stop:
            self.min_offset = QueueOffset(self.unit(number).base_offset)

    def remove_files_before(self, log_min: LogOffset) -> int:
        """Remove files whose records are all gone, never the last one; tell how many."""
        row = self._row
        per_file = row.file_bytes // BATCH_UNIT_BYTES
        removed = 0
        while (
            self.first_unit + per_file < self._written
            and self.unit(self.first_unit + per_file - 1).log_offset < log_min
        ):
            row.remove_first()
            removed += 1
        self.correct_min(log_min)
        return removed

    @property
    def dirty(self) -> DirtyFiles:
        """What a sync has to bring to disk."""
        return self._row.dirty


def _is_good(units: BatchUnits) -> npt.NDArray[np.bool_]:
    good: npt.NDArray[np.bool_] = (units["log_offset"] >= 0) & (units["size"] > 0)
    return good & (units["base_offset"] >= 0) & (units["count"] > 0)
