"""Reading the queues of topics that keep batches.

A record with several messages is given as a whole, so an answer begins with the record that has
the offset asked for, and the client passes over what is before it.  Limits count messages: a record
that would go past them ends the answer, unless it is the first.  Tags and SQL92 look at what the
record says of itself, which is what the producer said of the whole batch.

Everything else is as in `queue_reader`: statuses, one file of the queue at a time, and every record
verified before it is shown.
"""

from __future__ import annotations

from flintmq.errors import MalformedRecord
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import measure_record
from flintmq.store.files.layout import BATCH_UNIT_BYTES
from flintmq.store.files.store_config import TransferLimits
from flintmq.store.queues.batch_queue import BatchQueue, BatchUnit
from flintmq.store.queues.queue_reader import (
    READ_BYTES_MAX,
    GetStatus,
    QueueReader,
    ReadResult,
    nothing,
    outside,
)
from flintmq.store.queues.selection import CHUNK_UNITS, Selection
from flintmq.store.queues.verify_units import is_own_record

NO_BATCH = QueueOffset(-1)
"""The smallest offset of a queue that never had a batch, as RocketMQ tells it."""

_HASH_BITS = 32


def read_batches(
    reader: QueueReader,
    queue: BatchQueue | None,
    offset: QueueOffset,
    count_max: int,
    bytes_max: int = READ_BYTES_MAX,
    wanted: Selection | None = None,
    limits: TransferLimits | None = None,
) -> ReadResult:
    """Records from the one with ``offset`` on, up to the end of a file of the queue."""
    if queue is None or not queue.max_offset:
        return nothing(GetStatus.NO_MESSAGE_IN_QUEUE, 0, NO_BATCH, 0)
    first, last = queue.min_offset, queue.max_offset
    if not first <= offset < last:
        return outside(offset, first, last)
    answer = _BatchAnswer(reader, queue, wanted, limits or reader.limits, bytes_max, count_max)
    number = queue.number_at(offset)
    left = queue.units_in_file(number)
    scan_stop = offset + max(reader.scan_bytes_max // BATCH_UNIT_BYTES + 1, count_max)
    while left > 0 and not answer.is_full:
        units = queue.units(number, min(left, CHUNK_UNITS))
        if not len(units):
            break
        number += len(units)
        left -= len(units)
        for fields in units.tolist():
            unit = BatchUnit(*fields)
            if unit.base_offset >= scan_stop or not answer.add_unit(unit):
                answer.is_full = True
                break
    if answer.next_offset < 0:
        return nothing(GetStatus.OFFSET_FOUND_NULL, last, first, last)
    return ReadResult(
        answer.status,
        QueueOffset(answer.next_offset),
        first,
        last,
        answer.views,
        answer.count,
        answer.size_bytes,
        answer.memory_from > 0 and answer.last_log_offset < answer.memory_from,
    )


class _BatchAnswer:
    """The records one read collects."""

    __slots__ = (
        "_bytes_max",
        "_count_max",
        "_limits",
        "_queue",
        "_reader",
        "_topic",
        "_wanted",
        "count",
        "is_full",
        "last_log_offset",
        "memory_from",
        "next_offset",
        "size_bytes",
        "status",
        "views",
    )

    def __init__(
        self,
        reader: QueueReader,
        queue: BatchQueue,
        wanted: Selection | None,
        limits: TransferLimits,
        bytes_max: int,
        count_max: int,
    ) -> None:
        self._reader = reader
        self._queue = queue
        self._wanted = None if wanted is None or wanted.takes_all else wanted
        self._limits = limits
        self._bytes_max = min(bytes_max, READ_BYTES_MAX)
        self._count_max = count_max
        self._topic = queue.topic.encode()
        self.memory_from = reader.log.end_offset - reader.in_memory_bytes
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.views: list[memoryview] = []
        self.count = 0
        self.size_bytes = 0
        self.next_offset = -1
        self.last_log_offset = -1
        self.is_full = False

    def add_unit(self, unit: BatchUnit) -> bool:
        """Take the record of a unit if it is wanted; False when the answer has enough without."""
        if self._is_too_much(unit):
            return False
        self.next_offset = unit.stop_offset
        self.last_log_offset = unit.log_offset
        wanted = self._wanted
        code = _hash(unit.tags_code)
        if wanted is not None and wanted.tags_codes is not None and code not in wanted.tags_codes:
            return True
        record = self._record(unit)
        if record is None:
            self._set_status(GetStatus.MESSAGE_WAS_REMOVING)
        elif wanted is not None and not wanted.takes(record, code):
            self._set_status(GetStatus.NO_MATCHED_MESSAGE)
        else:
            self.views.append(record)
            self.count += unit.messages
            self.size_bytes += unit.size_bytes
            self.status = GetStatus.FOUND
        return True

    def _set_status(self, status: GetStatus) -> None:
        if not self.count:
            self.status = status

    def _is_too_much(self, unit: BatchUnit) -> bool:
        if not self.count:
            return False
        limits = self._limits
        bytes_max, count_max = limits.disk_bytes, limits.disk_count
        if unit.log_offset >= self.memory_from:
            bytes_max, count_max = limits.memory_bytes, limits.memory_count
        return (
            self.count + unit.messages > self._count_max
            or self.count >= count_max
            or self.size_bytes + unit.size_bytes > min(bytes_max, self._bytes_max)
        )

    def _record(self, unit: BatchUnit) -> memoryview | None:
        """The record a unit speaks of, if one that says the same of itself stands there."""
        if unit.size_bytes < RECORD_BYTES_MIN:
            return None
        view = self._reader.log.read_view(LogOffset(unit.log_offset), unit.size_bytes)
        if view is None:
            return None
        if not is_own_record(
            view, 0, unit.log_offset, unit.size_bytes, self._queue.queue_id, unit.base_offset
        ):
            return None
        try:
            *_, topic_at, topic_stop, _ = measure_record(view, 0)
        except MalformedRecord:
            return None
        return view if view[topic_at:topic_stop] == self._topic else None


def _hash(code: int) -> int:
    """The hash of a tag: the low bits of the field, with their sign."""
    low = code & ((1 << _HASH_BITS) - 1)
    return low - (1 << _HASH_BITS) if low >> (_HASH_BITS - 1) else low
