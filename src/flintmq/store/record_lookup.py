"""Finding records otherwise than by reading a queue: by place, by key, by time.

A place comes from outside, in a message id or an index entry, so it is believed only when a
record that names itself stands there.  The index knows hashes and whole seconds, not keys:
what it finds are records that probably carry a key, and the client looks again.
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.errors import MalformedRecord
from flintmq.kernel.layout import IDENTITY, RECORD_BYTES_MIN
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import (
    Record,
    decode_record,
    is_filler,
    measure_record,
    record_size,
    store_time_ms,
)
from flintmq.store.index.key_index import KeyIndex
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.queues.batch_queue import BatchQueue, BatchUnit
from flintmq.store.queues.consume_queue import Bound, ConsumeQueue
from flintmq.store.queues.queue_extension import ExtensionUnit
from flintmq.store.queues.queue_set import QueueSet


class KeyMatches(NamedTuple):
    """Records in the order of the log, and how far the index has come."""

    views: list[memoryview]
    indexed_ms: int
    indexed_to: LogOffset


class LoggedUnit(NamedTuple):
    """One unit of a queue, with its extension when it has one."""

    log_offset: LogOffset
    size_bytes: int
    tags_code: int
    extension: ExtensionUnit | None


class Lookup:
    """Looks through one open store.  What lies further back than ``in_memory_bytes`` is old."""

    def __init__(
        self, log: CommitLog, queues: QueueSet, index: KeyIndex, in_memory_bytes: int = 0
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._in_memory_bytes = in_memory_bytes

    def record_view(self, log_offset: LogOffset) -> memoryview | None:
        """The bytes of the record at a place, or nothing when none stands exactly there."""
        return record_view(self._log, log_offset)

    def record_at(self, log_offset: LogOffset) -> Record | None:
        """The record at a place; nothing when there is none or its body is damaged."""
        return record_at(self._log, log_offset)

    def by_key(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> KeyMatches:
        """The newest records that probably carry a key; those no longer there are left out."""
        offsets = sorted(set(self._index.query(topic, key, count_max, begin_ms, end_ms)))
        views = [view for at in offsets if (view := self.record_view(at)) is not None]
        indexed_to = self._index.end_log_offset or LogOffset(0)
        return KeyMatches(views, self._index.end_store_ms, indexed_to)

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, bound: Bound) -> QueueOffset:
        """The offset of a queue for a time, see `Bound`; 0 without a queue."""
        queue = self._queues.find_any(topic, queue_id)
        if queue is None:
            return QueueOffset(0)
        if isinstance(queue, BatchQueue):
            return queue.offset_by_time(time_ms, bound)
        return queue.offset_by_time(time_ms, bound, self._store_ms_at)

    def store_ms(self, topic: str, queue_id: int, offset: QueueOffset) -> int | None:
        """When the message at an offset was stored, or nothing when it cannot be read."""
        queue = self._queues.find_any(topic, queue_id)
        return None if queue is None else self._store_ms_of(queue, offset)

    def earliest_store_ms(self, topic: str, queue_id: int) -> int | None:
        """When the oldest message of a queue was stored, or nothing without one."""
        queue = self._queues.find_any(topic, queue_id)
        return None if queue is None else self._store_ms_of(queue, queue.min_offset)

    def is_old(self, topic: str, queue_id: int, offset: QueueOffset) -> bool:
        """Whether the message at an offset has left memory; never so where there is none."""
        entries = self.entries(topic, queue_id, offset, 1)
        memory_from = self._log.end_offset - self._in_memory_bytes
        return bool(entries) and entries[0].log_offset < memory_from

    def entries(
        self, topic: str, queue_id: int, offset: QueueOffset, count_max: int
    ) -> list[LoggedUnit]:
        """Units of a queue from an offset on; none when it does not begin inside the queue."""
        queue = self._queues.find_any(topic, queue_id)
        if queue is None or offset < queue.min_offset:
            return []
        if isinstance(queue, BatchQueue):
            return _batch_entries(queue, offset, count_max)
        extension = self._queues.find_extension(topic, queue_id)
        entries: list[LoggedUnit] = []
        while len(entries) < count_max:
            units = queue.units(QueueOffset(offset + len(entries)), count_max - len(entries))
            if not len(units):
                break
            for log_offset, size_bytes, code in units.tolist():
                extended = None if extension is None else extension.read(code)
                entries.append(LoggedUnit(LogOffset(log_offset), size_bytes, code, extended))
        return entries

    def _store_ms_of(self, queue: ConsumeQueue | BatchQueue, offset: QueueOffset) -> int | None:
        if isinstance(queue, BatchQueue):
            if not queue.min_offset <= offset < queue.max_offset:
                return None
            return queue.unit(queue.number_at(offset)).store_ms
        units = queue.units(offset, 1)
        if not len(units):
            return None
        log_offset, size_bytes, _ = units[0].item()
        return self._store_ms_at(LogOffset(log_offset), size_bytes)

    def _store_ms_at(self, log_offset: LogOffset, size_bytes: int) -> int | None:
        """When the record of a unit was stored, or nothing when it cannot be read."""
        view = self._log.read_view(log_offset, size_bytes)
        if view is None or size_bytes < RECORD_BYTES_MIN:
            return None
        own_size, *_, own_offset = IDENTITY.unpack_from(view)
        if own_size != size_bytes or own_offset != log_offset:
            return None
        return store_time_ms(view, 0)


def _batch_entries(queue: BatchQueue, offset: QueueOffset, count_max: int) -> list[LoggedUnit]:
    """Units from the one with ``offset`` on that begin fewer than ``count_max`` offsets behind."""
    entries: list[LoggedUnit] = []
    if offset >= queue.max_offset:
        return entries
    number = queue.number_at(offset)
    for fields in queue.units(number, min(queue.units_in_file(number), count_max)).tolist():
        unit = BatchUnit(*fields)
        if unit.base_offset - offset >= count_max:
            break
        entries.append(
            LoggedUnit(LogOffset(unit.log_offset), unit.size_bytes, unit.tags_code, None)
        )
    return entries


def record_view(log: CommitLog, log_offset: LogOffset) -> memoryview | None:
    """The bytes of the record at a place, or nothing when none stands exactly there."""
    head = log.read_view(log_offset, RECORD_BYTES_MIN)
    if head is None:
        return None
    size_bytes, *_, own_offset = IDENTITY.unpack_from(head)
    view = log.read_view(log_offset, size_bytes) if own_offset == log_offset else None
    if view is None:
        return None
    try:
        measure_record(view, 0)
    except MalformedRecord:
        return None
    return view


def record_at(log: CommitLog, log_offset: LogOffset) -> Record | None:
    """The record at a place; nothing when there is none or its body is damaged."""
    view = record_view(log, log_offset)
    if view is None:
        return None
    try:
        return decode_record(view)
    except MalformedRecord:
        return None


def is_whole(log: CommitLog, start: LogOffset, stop: LogOffset) -> bool:
    """Whether nothing but good records and fillers lies in a part of the log."""
    at = start
    while at < stop:
        rest = log.read_view(at, min(stop, log.next_file(at)) - at)
        if rest is None:
            return False
        if is_filler(rest, 0):
            at = log.next_file(at)
            continue
        if record_at(log, at) is None:
            return False
        at = LogOffset(at + record_size(rest, 0))
    return True
