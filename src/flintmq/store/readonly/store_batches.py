"""Queues of topics that keep batches, read beside a broker that may be at work.

A page is made of whole records; one that begins before the page or ends behind it stays in it, and
whoever takes the page apart leaves out the messages that are not its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from flintmq.model.queue import Extent, LogOffset, QueueOffset
from flintmq.store.files.disk import Disk
from flintmq.store.queues.batch_queue import BatchQueue, BatchUnit
from flintmq.store.queues.consume_queue import Bound
from flintmq.store.readonly.store_files import LogFiles
from flintmq.store.readonly.store_records import PAGE_BYTES, Gathered

CHUNK_UNITS: Final = 1_400
"""Units read at once: 64,000 bytes."""


class BatchQueueFiles:
    """The units of one queue."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        topic: str,
        queue_id: int,
        file_bytes: int,
        log: LogFiles,
    ) -> None:
        self._queue = BatchQueue(disk, directory, topic, queue_id, file_bytes)
        self._log = log

    def refresh(self) -> Extent:
        """Where the queue begins and ends now."""
        self._queue.load()
        self._queue.correct_min(LogOffset(self._log.min_offset))
        return Extent(self._queue.min_offset, self._queue.max_offset)

    def offset_at(self, time_ms: int) -> QueueOffset:
        """The first offset whose record was stored at a time or later, or the end."""
        extent, queue = self.refresh(), self._queue
        if extent.start == extent.stop or queue.unit(queue.unit_stop - 1).store_ms < time_ms:
            return extent.stop
        return queue.offset_by_time(time_ms, Bound.LOWER)

    def gather(self, start: int, stop: int, tags_codes: frozenset[int] | None) -> Gathered:
        """Records from the one with offset ``start`` on; counts are of offsets before ``stop``."""
        queue, reach, size_bytes = self._queue, start, 0
        records: list[memoryview] = []
        for fields in queue.units(queue.number_at(QueueOffset(start)), CHUNK_UNITS).tolist():
            unit = BatchUnit(*fields)
            if reach >= stop or unit.base_offset > reach:
                break
            if tags_codes is None or unit.tags_code in tags_codes:
                record = self._record(unit)
                if record is None:
                    lost = min(unit.stop_offset, stop) - reach
                    return Gathered(b"".join(records), reach - start, lost)
                if records and size_bytes + len(record) > PAGE_BYTES:
                    return Gathered(b"".join(records), reach - start, 0)
                records.append(record)
                size_bytes += len(record)
            reach = min(unit.stop_offset, stop)
        lost = 0
        if reach == start:  # no unit has it
            after = queue.number_at(QueueOffset(start))
            behind = queue.unit(after).base_offset if after < queue.unit_stop else stop
            lost = min(behind, stop) - start
        return Gathered(b"".join(records), reach - start, lost)

    def _record(self, unit: BatchUnit) -> memoryview | None:
        """The record of a unit; None when none of that queue and offset stands there."""
        return self._log.record(
            unit.log_offset, unit.size_bytes, self._queue.queue_id, unit.base_offset
        )
