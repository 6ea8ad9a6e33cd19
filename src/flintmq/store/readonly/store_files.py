"""The files of a store directory, for somebody who only looks: no lock, no recovery, no change.

A broker may have the directory open and go on writing, ours or a Java one: a queue's unit is
written after the record it points to, so what a queue shows is in the log.  What the files do
not hold up is told, not mended; `flintmq store check` says more.

Files of the log may be shorter than they were made, as copies sometimes are.  Queues in RocksDB
and other things that the broker does not serve either are `StoreRefused`.

Invariant: nothing is written, created or locked.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from flintmq.errors import DiskFailed, StoreRefused
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.queue import Extent, QueueOffset
from flintmq.protocol.records.record import store_time_ms
from flintmq.store.files.disk import Disk
from flintmq.store.files.file_sequence import FileRow
from flintmq.store.files.layout import (
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    UNIT,
    UNIT_BYTES,
    file_name,
    file_start,
    queue_directory,
)
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.queues.consume_queue import Units, is_fill
from flintmq.store.queues.verify_units import is_own_record
from flintmq.store.recovery.survey import survey

OPEN_FILES_MAX: Final = 256
"""Descriptors kept open at once."""

BROKEN_TAIL_MAX: Final = 10_000
"""Units at the end of a queue that may point at nothing, as a crash leaves them."""

Mask: TypeAlias = npt.NDArray[np.bool_]


class StoreFiles:
    """One directory.  `StoreRefused` when it is no store, or one that cannot be read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = Disk(OPEN_FILES_MAX)
        parts = (COMMIT_LOG_DIRECTORY, CONFIG_DIRECTORY)  # the one comes with the first message
        if not any(self.disk.is_directory(directory / part) for part in parts):
            inner = directory / "store"
            hint = f"; is it {inner}?" if self.disk.is_directory(inner) else ""
            raise StoreRefused(str(directory), f"has no {COMMIT_LOG_DIRECTORY}{hint}")
        config = survey(self.disk, directory, StoreConfig()).config
        self._queue_file_bytes = config.queue_file_bytes
        self.batch_queue_file_bytes = config.batch_queue_file_bytes
        self.log = LogFiles(self.disk, directory, config.commit_log_file_bytes)

    def queue(self, topic: str, queue_id: int) -> QueueFiles:
        """The files of a queue of a topic that does not keep batches."""
        path = queue_directory(self.directory / CONSUME_QUEUE_DIRECTORY, topic, queue_id)
        return QueueFiles(self.disk, path, queue_id, self._queue_file_bytes, self.log)

    def refresh(self) -> None:
        """See what changed; queues have to look for themselves."""
        self.disk.close()  # a file that was deleted and made anew has to be opened anew
        self.log.refresh()

    def close(self) -> None:
        self.disk.close()


class LogFiles:
    """The files of the commit log, mapped as they are needed."""

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        self._disk = disk
        self._directory = directory / COMMIT_LOG_DIRECTORY
        self.file_bytes = file_bytes
        self._views: dict[int, memoryview] = {}
        self.min_offset = 0
        self.refresh()

    def refresh(self) -> None:
        """See which files there are now."""
        found = (file_start(name) for name in self._disk.names(self._directory))
        starts = [start for start in found if start is not None]
        self.min_offset = min(starts, default=0)
        for start in self._views.keys() - set(starts):
            del self._views[start]

    def view(self, start: int) -> memoryview | None:
        """All bytes of the file that begins at ``start``; None when there is no such file."""
        view = self._views.get(start)
        if view is None:
            path = self._directory / file_name(start)
            try:
                if not self._disk.is_file(path) or not self._disk.size_bytes(path):
                    return None
                view = self._views[start] = self._disk.map(path)
            except DiskFailed as error:
                if error.number == errno.ENOENT:  # removed just now
                    return None
                raise
        return view

    def record(
        self, log_offset: int, size_bytes: int, queue_id: int, queue_offset: int
    ) -> memoryview | None:
        """The record that a unit of a queue leads to; None when it is not at this log offset."""
        start = log_offset - log_offset % self.file_bytes
        view = self.view(start)
        at = log_offset - start
        if view is None:
            return None
        if not is_own_record(view, at, log_offset, size_bytes, queue_id, queue_offset):
            return None
        return view[at : at + size_bytes]


class _Known(NamedTuple):
    """What was found the last time; ``log_min`` is where the log began then."""

    extent: Extent
    log_min: int


class QueueFiles:
    """The units of one queue."""

    def __init__(
        self, disk: Disk, directory: Path, queue_id: int, file_bytes: int, log: LogFiles
    ) -> None:
        self.queue_id = queue_id
        self._row = FileRow(disk, directory, file_bytes)
        self._file_units = file_bytes // UNIT_BYTES
        self._log = log
        self._known = _Known(Extent(QueueOffset(0), QueueOffset(0)), -1)

    def refresh(self) -> Extent:
        """Where the queue begins and ends now."""
        self._row.load()
        first, end = self._row.first_byte // UNIT_BYTES, self._row.stop_byte // UNIT_BYTES
        known, log_min = self._known, self._log.min_offset
        stop = self._stop(first, end, int(known.extent.stop))
        start = int(known.extent.start)
        if known.log_min != log_min or not first <= start <= stop:
            start = self._start(max(first, start if start <= stop else 0), stop, log_min)
        extent = Extent(QueueOffset(start), QueueOffset(stop))
        self._known = _Known(extent, log_min)
        return extent

    def units(self, start: int, count_max: int) -> Units:
        """Units from ``start`` on, fewer at the end of a file."""
        octets = self._row.read(start * UNIT_BYTES, count_max * UNIT_BYTES)
        return np.frombuffer(octets, UNIT, len(octets) // UNIT_BYTES)

    def offset_at(self, time_ms: int) -> QueueOffset:
        """The first offset whose record was stored at a time or later, or the end."""
        extent = self.refresh()
        low, high = int(extent.start), int(extent.stop)
        while low < high:
            middle = (low + high) // 2
            probe = self._first_timed(middle, high)
            if probe is not None and probe[1] < time_ms:
                low = probe[0] + 1
            else:
                high = middle
        return QueueOffset(low)

    def _stop(self, first: int, end: int, known: int) -> int:
        """Behind the last unit that was written: good ones come first, then there are zeros."""
        low = known if first < known <= end and self._is_good(known - 1) else first
        high, step = low, self._file_units
        while high < end and self._is_good(high):  # so the end is found near what is known
            low, high = high + 1, min(end, high + step)
        while low < high:
            middle = (low + high) // 2
            if self._is_good(middle):
                low = middle + 1
            else:
                high = middle
        return self._without_broken_tail(first, low)

    def _without_broken_tail(self, first: int, stop: int) -> int:
        for at in range(stop - 1, max(first, stop - BROKEN_TAIL_MAX) - 1, -1):
            log_offset, size_bytes, _ = self.units(at, 1)[0].item()
            if log_offset < self._log.min_offset:
                return at + 1
            if self._log.record(log_offset, size_bytes, self.queue_id, at) is not None:
                return at + 1
        return stop

    def _start(self, at: int, stop: int, log_min: int) -> int:
        """The first unit whose record the log still has."""
        while at < stop:
            file_stop = min(at - at % self._file_units + self._file_units, stop)
            units = self.units(at, file_stop - at)
            alive = real(units) & (units["log_offset"] >= log_min)
            if alive.any():
                return at + int(np.argmax(alive))
            at = file_stop
        return stop

    def _first_timed(self, start: int, stop: int) -> tuple[int, int] | None:
        """The first record of a span that can be read, and when it was stored."""
        for at in range(start, stop):
            log_offset, size_bytes, _ = self.units(at, 1)[0].item()
            view = self._log.record(log_offset, size_bytes, self.queue_id, at)
            if view is not None:
                return at, store_time_ms(view, 0)
        return None

    def _is_good(self, offset: int) -> bool:
        units = self.units(offset, 1)
        return bool(len(units) and units["log_offset"][0] >= 0 and units["size"][0] > 0)


def real(units: Units) -> Mask:
    """Which units stand for a record."""
    mask: Mask = (units["size"] >= RECORD_BYTES_MIN) & ~is_fill(units)
    return mask
