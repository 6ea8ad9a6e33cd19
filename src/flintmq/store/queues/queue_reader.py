"""Reading a queue: which records an offset leads to, and where to go on.

The rules are RocketMQ's, status by status: a reader that is too far is sent to the end, one
that is too early to the start, and the next offset counts every unit that was looked at,
wanted or not.  One read stays inside one file of the queue and looks at a limited number of
units.

Every record is verified before it is shown: its magic, its size, its own place in the log,
its topic, its queue and its offset there must be what the unit says.  Bodies are not looked
at.  What is shown are views of the log; records that lie side by side share one.

Two things differ on purpose.  A record that cannot be read, in a file that is there, costs
that record alone and not the rest of the file.  And units that are not wanted are passed
over without asking whether they would have fitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from flintmq.kernel.layout import BODY_AT, RECORD_BYTES_MIN, record_struct
from flintmq.model.light_queue import is_light
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import Version
from flintmq.store.files.layout import UNIT_BYTES, UNIT_STRUCT
from flintmq.store.files.store_config import TransferLimits
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.queues.consume_queue import ConsumeQueue
from flintmq.store.queues.queue_extension import QueueExtension
from flintmq.store.queues.selection import CHUNK_UNITS, EVERYTHING, Candidate, Selection, candidates
from flintmq.store.queues.verify_units import (
    FEW_MAX,
    has_topic_v6,
    is_light_record,
    leading_spans,
    topic_field,
)

READ_BYTES_MAX = 128 * 1024 * 1024
"""Whatever a peer asks for, one answer is not larger."""

SCAN_UNITS_MIN = 32
"""Units a read looks at, however costly the test of their records is."""

_HEAD = record_struct("size", "magic", "queue_id", "queue_offset", "log_offset", "body_length")
_V1, _V2 = int(Version.V1), int(Version.V2)

_File: TypeAlias = tuple[memoryview, int, int]
"""The bytes of a file of the log, its start, and where its written part stops."""

_NO_FILE: _File = (memoryview(b""), 0, 0)


class GetStatus(Enum):
    """How a read ended, in RocketMQ's words."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class ReadResult(msgspec.Struct, frozen=True, gc=False):
    """What a read found: ``views`` hold ``record_count`` records of ``size_bytes`` in all."""

    status: GetStatus
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    views: list[memoryview]
    record_count: int
    size_bytes: int
    is_far_behind: bool
    """True when the records are so old that a slave should serve them."""


class QueueReader:
    """Reads the queues of one log."""

    def __init__(
        self,
        log: CommitLog,
        queue_file_bytes: int,
        scan_bytes_max: int,
        in_memory_bytes: int,
        limits: TransferLimits,
    ) -> None:
        self.log = log
        self._units_per_file = queue_file_bytes // UNIT_BYTES
        self.scan_bytes_max = scan_bytes_max
        self._scan_units_max = scan_bytes_max // UNIT_BYTES
        self.in_memory_bytes = in_memory_bytes
        self.limits = limits

    def read(
        self,
        queue: ConsumeQueue | None,
        extension: QueueExtension | None,
        offset: QueueOffset,
        count_max: int,
        *,
        bytes_max: int = READ_BYTES_MAX,
        wanted: Selection = EVERYTHING,
        limits: TransferLimits | None = None,
    ) -> ReadResult:
        """Records from ``offset`` on.  One that is over every limit is given if it is alone."""
        if queue is None:
            return nothing(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        first, last = queue.min_offset, queue.max_offset
        if not first <= offset < last:
            return outside(offset, first, last)
        limits = limits or self.limits
        bytes_max = min(bytes_max, READ_BYTES_MAX)
        if is_light(queue.topic):
            bytes_max = min(limits.memory_bytes, bytes_max)
            count_max = max(1, min(limits.memory_count, count_max))
            return self._read_light(queue, offset, count_max, bytes_max, wanted)
        in_memory = min(limits.memory_bytes, bytes_max), min(limits.memory_count, count_max)
        if wanted is EVERYTHING and (found := self.read_few(queue, offset, *in_memory)):
            return found
        file_stop = offset - offset % self._units_per_file + self._units_per_file
        units_max = max(self._scan_units_max, count_max)
        if wanted.cost > 1:
            units_max = max(units_max // wanted.cost, SCAN_UNITS_MIN)
        stop = QueueOffset(min(last, file_stop, offset + units_max))
        chunk = CHUNK_UNITS
        if not wanted.looks_at_units and count_max < chunk:
            chunk = max(count_max, 1)
        units = queue.units(offset, min(chunk, stop - offset))
        if not len(units):
            return nothing(GetStatus.OFFSET_FOUND_NULL, file_stop, first, last)
        memory_from = self.log.end_offset - self.in_memory_bytes
        on_disk = min(limits.disk_bytes, bytes_max), min(limits.disk_count, count_max)
        batch = _Batch(self.log, queue, wanted)
        at = offset
        if in_memory == on_disk and count_max > CHUNK_UNITS and wanted.takes_all:
            at = batch.fill_plain(offset, min(stop, QueueOffset(offset + in_memory[1])), *in_memory)
            units = queue.units(at, min(CHUNK_UNITS, stop - at))
        next_offset = batch.fill(
            chain.from_iterable(candidates(queue, extension, wanted, units, at, stop)),
            memory_from,
            in_memory,
            on_disk,
        )
        if next_offset is not None:
            stop = QueueOffset(next_offset)
        return ReadResult(
            batch.status,
            stop,
            first,
            last,
            batch.views,
            batch.count,
            batch.size_bytes,
            memory_from > 0 and batch.last_log_offset(queue, stop) < memory_from,
        )

    def read_few(
        self, queue: ConsumeQueue, offset: QueueOffset, bytes_max: int, count_max: int
    ) -> ReadResult | None:
        """What `read` gives of everything, if it is a few sound records in memory, and else None.

        The limits of the configuration are for the caller, and so are light queues.
        """
        first, last, log = queue.min_offset, queue.max_offset, self.log
        if not first <= offset < last or not 0 < count_max <= FEW_MAX:
            return None
        units = queue.octets(offset, count_max)
        count = len(units) // UNIT_BYTES
        segment = log.segment_at(UNIT_STRUCT.unpack_from(units)[0]) if count else None
        if segment is None:
            return None
        end, view = log.end_offset, segment.view
        taken, spans = leading_spans(
            units,
            offset,
            view,
            segment.start,
            min(segment.stop, end),
            log_from=end - self.in_memory_bytes,
            bytes_max=bytes_max,
            queue_id=queue.queue_id,
            topic=topic_field(queue.topic),
        )
        if taken < count:
            return None
        views = [view[start:stop] for start, stop in spans]
        after, size_bytes = QueueOffset(offset + count), sum(map(len, views))
        return ReadResult(GetStatus.FOUND, after, first, last, views, count, size_bytes, False)

    def _read_light(
        self,
        queue: ConsumeQueue,
        offset: QueueOffset,
        count_max: int,
        bytes_max: int,
        wanted: Selection,
    ) -> ReadResult:
        """Records of a light queue, which tell their offsets in it in a property."""
        first, last, size_bytes = queue.min_offset, queue.max_offset, 0
        views: list[memoryview] = []
        status = GetStatus.NO_MATCHED_MESSAGE
        units = queue.units(offset, min(self._scan_units_max, last - offset))
        stop = QueueOffset(offset + len(units))
        lists = candidates(queue, None, wanted, units, offset, stop)
        for queue_offset, (log_offset, size, code) in chain.from_iterable(lists):
            if views and (len(views) == count_max or size_bytes + size > bytes_max):
                stop = QueueOffset(queue_offset)
                break
            view = self.log.read_view(LogOffset(log_offset), size)
            if view is None or not is_light_record(view, log_offset, queue.topic, queue_offset):
                status = GetStatus.MESSAGE_WAS_REMOVING
            elif not wanted.looks_at_records or wanted.takes(view, code):
                views.append(view)
                size_bytes += size
        if views:
            status = GetStatus.FOUND
        return ReadResult(status, stop, first, last, views, len(views), size_bytes, False)


class _Batch:
    """The records one read collects."""

    __slots__ = ("_last", "_log", "_queue", "_wanted", "count", "size_bytes", "status", "views")

    def __init__(self, log: CommitLog, queue: ConsumeQueue, wanted: Selection) -> None:
        self._log = log
        self._queue = queue
        self._wanted = wanted
        self.status = GetStatus.NO_MATCHED_MESSAGE
        self.views: list[memoryview] = []
        self.count = 0
        self.size_bytes = 0
        self._last = -1

    def last_log_offset(self, queue: ConsumeQueue, stop: QueueOffset) -> int:
        """About where in the log the read ended."""
        if self._last < 0:  # not one unit was wanted
            return int(queue.units(QueueOffset(stop - 1), 1)[0]["log_offset"])
        return self._last

    def fill_plain(
        self, offset: QueueOffset, stop: QueueOffset, bytes_max: int, count_max: int
    ) -> QueueOffset:
        """Take many records at a time.  Returns the offset from which `fill` has to go on."""
        queue, topic = self._queue, topic_field(self._queue.topic)
        while offset < stop and self.count < count_max:
            units = queue.octets(offset, stop - offset)
            if len(units) < UNIT_BYTES:
                break
            segment = self._log.segment_at(UNIT_STRUCT.unpack_from(units)[0])
            if segment is None:
                break
            taken, spans = leading_spans(
                units,
                offset,
                segment.view,
                segment.start,
                min(segment.stop, self._log.end_offset),
                bytes_max=bytes_max - self.size_bytes,
                queue_id=queue.queue_id,
                topic=topic,
            )
            if not taken:
                break
            for start, end in spans:
                self.views.append(segment.view[start:end])
                self.size_bytes += end - start
            self.count += taken
            self._last = UNIT_STRUCT.unpack_from(units, (taken - 1) * UNIT_BYTES)[0]
            offset = QueueOffset(offset + taken)
        return offset

    def fill(
        self,
        units: Iterable[Candidate],
        memory_from: int,
        in_memory: tuple[int, int],
        on_disk: tuple[int, int],
    ) -> int | None:
        """Take records up to the limits for memory and disk.  Returns the unit that ended it."""
        queue_id, wanted, unpack = self._queue.queue_id, self._wanted, _HEAD.unpack_from
        topic = topic_field(self._queue.topic)
        topic_bytes = len(topic)
        looks_at_records = wanted.looks_at_records
        bytes_left, count_left = on_disk
        count_max = max(in_memory[1], count_left, 1)
        count, size_bytes = self.count, self.size_bytes
        view, low, high = _NO_FILE  # of the file in use
        octets: Any = view.obj  # a slice of it costs less than one of the view
        run_start = run_stop = 0  # records side by side
        stop, log_offset = None, self._last
        for queue_offset, (log_offset, size, code) in units:
            log_stop = log_offset + size
            if count:
                if log_offset >= memory_from:
                    bytes_left, count_left = in_memory
                if size_bytes + size > bytes_left or count >= count_left:
                    stop = queue_offset
                    break
            if log_offset < low or log_stop > high or size < RECORD_BYTES_MIN:
                self._show(view, run_start - low, run_stop - low)
                view, low, high = self._file_of(log_offset, log_stop, size)
                octets = view.obj
                run_start = run_stop = low
                if not high:
                    continue
            at = log_offset - low
            own_size, magic, own_queue, own_queue_offset, own_log_offset, body_bytes = unpack(
                view, at
            )
            topic_at = at + BODY_AT + body_bytes
            if (  # the rule of `verify_units`, inline: a call for each record costs too much
                own_log_offset != log_offset
                or own_queue_offset != queue_offset
                or own_size != size
                or own_queue != queue_id
                or (magic != _V1 and magic != _V2)
                or (
                    octets[topic_at : topic_at + topic_bytes] != topic
                    and not has_topic_v6(view, at, topic)
                )
            ):
                self.status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            if looks_at_records and not wanted.takes(view[log_offset - low : log_stop - low], code):
                self.status = GetStatus.NO_MATCHED_MESSAGE
                continue
            if log_offset != run_stop:
                self._show(view, run_start - low, run_stop - low)
                run_start = log_offset
            run_stop = log_stop
            size_bytes += size
            count += 1
            if count == count_max:
                stop = queue_offset + 1
                break
        self._show(view, run_start - low, run_stop - low)
        self.count, self.size_bytes, self._last = count, size_bytes, log_offset
        if count:
            self.status = GetStatus.FOUND
        return stop

    def _show(self, view: memoryview, start: int, stop: int) -> None:
        if start < stop:
            self.views.append(view[start:stop])

    def _file_of(self, log_offset: int, log_stop: int, size: int) -> _File:
        """The file that has a record, and which part of it was written."""
        segment = self._log.segment_at(LogOffset(log_offset))
        if segment is not None and size >= RECORD_BYTES_MIN:
            high = min(segment.stop, self._log.end_offset)
            if log_stop <= high:
                return segment.view, segment.start, high
        self.status = GetStatus.MESSAGE_WAS_REMOVING
        return _NO_FILE


def nothing(status: GetStatus, next_offset: int, first: int, last: int) -> ReadResult:
    """The result of a read that has no records."""
    return ReadResult(
        status, QueueOffset(next_offset), QueueOffset(first), QueueOffset(last), [], 0, 0, False
    )


def outside(offset: QueueOffset, first: QueueOffset, last: QueueOffset) -> ReadResult:
    """The result for an offset a queue of [first, last) does not have."""
    if last == 0:
        return nothing(GetStatus.NO_MESSAGE_IN_QUEUE, 0, first, last)
    if offset < first:
        return nothing(GetStatus.OFFSET_TOO_SMALL, first, first, last)
    if offset == last:
        return nothing(GetStatus.OFFSET_OVERFLOW_ONE, last, first, last)
    return nothing(GetStatus.OFFSET_OVERFLOW_BADLY, last, first, last)
