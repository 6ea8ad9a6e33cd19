"""Making queues with batches agree with records that are read from the log again.

Units stand in the order of the log, so those of the records that come by are the end of
the queue.  They are compared one after the other; from the first that differs, all are written
anew.  What is left behind the last record is cut.

A record whose queue offset cannot be right, see `replayed_records`, is a stray and gets no unit.
A record that is lost leaves its offsets without one.

A replay need not begin with the first record.  Then the first one that comes by must continue the
queue; if it does not, that is a `QueueGap`, and everything has to be replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from flintmq.errors import InvalidName
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.store.files.layout import BATCH_COUNT_MAX, BATCH_UNIT, NOT_COMPACTED
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.queues.batch_queue import BatchQueue, BatchUnits
from flintmq.store.queues.queue_set import QueueSet, check_directory_name
from flintmq.store.queues.verify_units import is_own_record
from flintmq.store.recovery.queue_replay import QueueGap
from flintmq.store.recovery.replayed_records import (
    QueueKey,
    RecordVerdict,
    ReplayedRecords,
    believed,
)


@dataclass(slots=True)
class _Track:
    """How far one queue has been replayed."""

    queue: BatchQueue
    number: int
    """The unit the next record gets."""
    next_offset: int
    place_of_zero: int | None


@dataclass(slots=True)
class BatchReplay:
    """Queues on their way to agree with the log, from ``start`` on."""

    log: CommitLog
    queues: QueueSet
    start: LogOffset
    known_queues_only: bool = False
    """After a clean exit a queue that is not there was deleted, and stays so."""
    strays: list[LogOffset] = field(default_factory=list)
    """Records whose queue or queue offset cannot be right."""
    _tracks: dict[QueueKey, _Track] = field(default_factory=dict)

    @property
    def _is_whole(self) -> bool:
        """Whether every record of the log comes by."""
        return self.start == self.log.min_offset

    def add(self, arrivals: Mapping[QueueKey, ReplayedRecords], lost_bytes: int) -> None:
        """More records, by queue.  ``lost_bytes`` of the log could not be read so far."""
        for key, some in arrivals.items():
            queue = self.queues.find_batch(*key)
            if self.known_queues_only and (queue is None or not queue.max_offset):
                continue
            verdict = self._judge(key, some, lost_bytes)
            self.strays += some.log_offset[verdict.strays].tolist()
            if verdict.rows:
                self._replay(key, some.picked(verdict.rows), is_anew=verdict.is_anew)

    def _judge(self, key: QueueKey, arrivals: ReplayedRecords, lost_bytes: int) -> RecordVerdict:
        if not _is_nameable(key):
            return RecordVerdict([], list(range(len(arrivals))), is_anew=False)
        track = self._tracks.get(key)
        queue = self.queues.open_batch(*key)
        offsets = arrivals.queue_offset
        follows = offsets[1:] == (offsets + arrivals.count)[:-1]
        if track is not None:
            expected = track.next_offset
        elif not self._is_whole:
            expected = _stop_before(queue, queue.number_from(self.start))
            if int(offsets[0]) > expected:
                raise QueueGap(f"queue {key[0]}/{key[1]} lacks offset {expected}")
        elif self.log.min_offset == 0 and not lost_bytes:
            expected = 0
        else:
            agreeing = np.flatnonzero(follows)
            expected = int(offsets[agreeing[0] if len(agreeing) else 0])
        if offsets[0] == expected and follows.all():
            return RecordVerdict(list(range(len(arrivals))), [], is_anew=False)
        lost_count = (lost_bytes // RECORD_BYTES_MIN + len(self.strays)) * BATCH_COUNT_MAX
        place_of_zero = _place_of_zero(queue) if track is None else track.place_of_zero
        return believed(expected, arrivals, lost_count, place_of_zero)

    def _replay(self, key: QueueKey, arrivals: ReplayedRecords, *, is_anew: bool) -> None:
        track = self._tracks.get(key)
        if track is None:
            queue = self.queues.open_batch(*key)
            place_of_zero = _place_of_zero(queue)
            number = queue.number_from(self.start)
            if not self._is_whole:
                self._check_before(queue, number)
            elif _stop_before(queue, number) > arrivals.queue_offset[0]:
                queue.clear()  # what is older contradicts the log
                number = 0
            track = _Track(queue, number, 0, place_of_zero)
            self._tracks[key] = track
        if is_anew:
            track.queue.clear()
            self.queues.note_changed(track.queue.dirty)
            track.number = 0
        self._write_units(track, expected_units(arrivals))
        track.next_offset = int(arrivals.queue_offset[-1] + arrivals.count[-1])

    def _write_units(self, track: _Track, units: BatchUnits) -> None:
        """Make the queue have these units next."""
        queue = track.queue
        there = units_of(queue, track.number, len(units))
        differ = np.flatnonzero(there != units[: len(there)])
        same = int(differ[0]) if len(differ) else len(there)
        track.number += len(units)
        if same == len(units):
            return
        at = track.number - len(units) + same
        if at < queue.unit_stop:
            queue.truncate(at)
            if not queue.unit_stop:  # the numbers begin anew
                track.number = len(units)
        log_offset, size_bytes, _, _, base_offset, count, *_ = units[-1].item()
        stop, log_stop = QueueOffset(base_offset + count), LogOffset(log_offset + size_bytes)
        queue.hold(bytearray(units[same:].tobytes()), stop, log_stop)
        queue.flush()
        self.queues.note_changed(queue.dirty)

    def settle(self) -> None:
        """Every record came by: cut what queues have more, and tell them where the log begins."""
        for queue in list(self.queues.batches()):
            track = self._tracks.get((queue.topic, queue.queue_id))
            number = queue.number_from(self.start) if track is None else track.number
            if track is None and not self._is_whole:
                self._check_before(queue, number)
            queue.truncate(number)  # and wipe what lies behind
            queue.correct_min(self.log.min_offset)
            if queue.dirty.files or queue.dirty.directories:
                self.queues.note_changed(queue.dirty)

    def _check_before(self, queue: BatchQueue, number: int) -> None:
        """The unit before the first one that is replayed must point at its record."""
        if number == queue.first_unit:
            return
        unit = queue.unit(number - 1)
        if unit.log_offset < self.log.min_offset:
            return
        segment = self.log.segment_at(LogOffset(unit.log_offset))  # the end is not known yet
        if segment is None or not is_own_record(
            segment.view,
            unit.log_offset - segment.start,
            unit.log_offset,
            unit.size_bytes,
            queue.queue_id,
            unit.base_offset,
        ):
            reason = f"has a bad unit for offset {unit.base_offset}"
            raise QueueGap(f"queue {queue.topic}/{queue.queue_id} {reason}")


def units_of(queue: BatchQueue, start: int, count: int) -> BatchUnits:
    """As many of these units as the queue has; the span may cross files."""
    parts = []
    while count > 0 and len(units := queue.units(start, count)):
        parts.append(units)
        start += len(units)
        count -= len(units)
    return np.concatenate(parts) if parts else np.empty(0, BATCH_UNIT)


def _stop_before(queue: BatchQueue, number: int) -> int:
    """Where the offsets of the units before a number end."""
    return queue.unit(number - 1).stop_offset if number > queue.first_unit else 0


def _place_of_zero(queue: BatchQueue) -> int | None:
    """Where the record with offset 0 is, by the queue."""
    if queue.unit_stop == queue.first_unit:
        return None
    first = queue.unit(queue.first_unit)
    return first.log_offset if first.base_offset == 0 else None


def expected_units(arrivals: ReplayedRecords) -> BatchUnits:
    """The units these records must have."""
    units = np.zeros(len(arrivals), BATCH_UNIT)
    units["log_offset"] = arrivals.log_offset
    units["size"] = arrivals.size_bytes
    units["tags_code"] = arrivals.code
    units["store_ms"] = arrivals.store_ms
    units["base_offset"] = arrivals.queue_offset
    units["count"] = arrivals.count
    units["compacted"] = NOT_COMPACTED
    return units


def _is_nameable(key: QueueKey) -> bool:
    try:
        check_directory_name(key[0])
    except InvalidName:
        return False
    return key[1] >= 0
