"""Making queues agree with records that are read from the log again.

A record says which queue it is in and at which offset, so what its unit has to be is known.
Units that are so already are left alone; from the first one that is not, all are written
anew.  A position whose record is lost gets a fill unit.

A record whose queue offset cannot be right, see `replayed_records`, is a stray and gets no unit.

A replay need not begin with the first record.  Then the units before the first one it meets
must be good; if they are not, that is a `QueueGap`, and everything has to be replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from flintmq.errors import InvalidName
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.store.files.layout import FILL_UNIT, UNIT
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.queues.consume_queue import ConsumeQueue, Units, is_fill
from flintmq.store.queues.queue_extension import QueueExtension, is_address
from flintmq.store.queues.queue_set import QueueSet, check_directory_name
from flintmq.store.queues.verify_units import leads_to_own
from flintmq.store.recovery.replayed_records import (
    Ints,
    QueueKey,
    RecordVerdict,
    ReplayedRecords,
    believed,
)

LOOK_BACK_UNITS = 1_024
"""Units read at once while looking for the last one that stands for a record."""

_FILL = np.frombuffer(FILL_UNIT, UNIT)[0]


class QueueGap(Exception):
    """A queue lacks units of records that were not replayed.  Says which and where."""


@dataclass(slots=True)
class Track:
    """How far one queue has been replayed."""

    queue: ConsumeQueue
    place_of_zero: int | None
    next_offset: int
    is_extension_settled: bool = False


@dataclass(slots=True)
class QueueReplay:
    """Queues on their way to agree with the log, from ``start`` on."""

    log: CommitLog
    queues: QueueSet
    start: LogOffset
    extended: bool
    known_queues_only: bool = False
    """After a clean exit a queue that is not there was deleted, and stays so."""
    strays: list[LogOffset] = field(default_factory=list)
    """Records whose queue or queue offset cannot be right."""
    _tracks: dict[QueueKey, Track] = field(default_factory=dict)
    _is_lossless: bool = True
    _had_queues: bool = False

    def __post_init__(self) -> None:
        self._had_queues = any(queue.max_offset for queue in self.queues)

    @property
    def _is_whole(self) -> bool:
        """Whether every record of the log comes by."""
        return self.start == self.log.min_offset

    # Records

    def add(self, arrivals: Mapping[QueueKey, ReplayedRecords], lost_bytes: int) -> None:
        """More records, by queue.  ``lost_bytes`` of the log could not be read so far."""
        if self.known_queues_only:
            arrivals = {key: some for key, some in arrivals.items() if self._is_known(key)}
        lost_count = lost_bytes // RECORD_BYTES_MIN + len(self.strays)
        self._is_lossless = not lost_bytes
        verdicts = {key: self._judge(key, some, lost_count) for key, some in arrivals.items()}
        strays = sum(len(verdict.strays) for verdict in verdicts.values())
        for key, verdict in verdicts.items():
            if strays > len(verdict.strays) > 0:  # one that strayed is missing elsewhere
                others = lost_count + strays - len(verdict.strays)
                verdict = self._judge(key, arrivals[key], others)
            self.strays += arrivals[key].log_offset[verdict.strays].tolist()
            if verdict.rows:
                self._replay(key, arrivals[key].picked(verdict.rows), is_anew=verdict.is_anew)

    def _judge(self, key: QueueKey, arrivals: ReplayedRecords, lost_count: int) -> RecordVerdict:
        track = self._tracks.get(key)
        offsets = arrivals.queue_offset
        if track is not None:
            expected = track.next_offset
        elif not self._is_nameable(key):
            return RecordVerdict([], list(range(len(arrivals))), is_anew=False)
        elif self._is_whole and self.log.min_offset == 0 and self._is_lossless:
            expected = 0
        else:
            agreeing = np.flatnonzero(np.diff(offsets) == 1)
            if offsets[0] > 0 and not len(agreeing) and self._is_unheard_of(key):
                return RecordVerdict([], list(range(len(arrivals))), is_anew=False)
            expected = int(offsets[agreeing[0] if len(agreeing) else 0])
        if offsets[0] == expected and (np.diff(offsets) == 1).all():
            return RecordVerdict(list(range(len(arrivals))), [], is_anew=False)
        return believed(expected, arrivals, lost_count, self._place_of_zero(key))

    def _replay(self, key: QueueKey, arrivals: ReplayedRecords, *, is_anew: bool) -> None:
        track = self._tracks.get(key)
        first = int(arrivals.queue_offset[0])
        if track is None:
            queue = self.queues.open(*key)
            if not self._is_whole and self._is_taken(queue, first):
                self.strays += arrivals.log_offset.tolist()
                return
            track = Track(queue, self._place_of_zero(key), first)
            self._check_before(track, first)
            self._tracks[key] = track
        if is_anew:
            track.queue.clear()
            self._note_changed(track)
            track.next_offset = first
        self._write_units(track, arrivals)
        track.next_offset = int(arrivals.queue_offset[-1]) + 1

    def _is_unheard_of(self, key: QueueKey) -> bool:
        """Whether other queues had files and this one has none: its name may be damaged."""
        return self._is_whole and self._had_queues and not self._is_known(key)

    def _is_known(self, key: QueueKey) -> bool:
        queue = self.queues.find(*key)
        return queue is not None and queue.max_offset > 0

    def _is_nameable(self, key: QueueKey) -> bool:
        try:
            check_directory_name(key[0])
        except InvalidName:
            return False
        return True

    def _place_of_zero(self, key: QueueKey) -> int | None:
        """Where the record at offset 0 was, before anything was changed."""
        track = self._tracks.get(key)
        if track is not None:
            return track.place_of_zero
        queue = self.queues.find(*key)
        if queue is None:
            return None
        units = queue.units(QueueOffset(0), 1)
        return int(units[0]["log_offset"]) if len(units) else None

    def _is_taken(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether a record that is not replayed has this offset of the queue."""
        units = queue.units(QueueOffset(offset), 1)
        return bool(
            len(units)
            and not is_fill(units)[0]
            and self.log.min_offset <= units[0]["log_offset"] < self.start
            and self._is_vouched_for(queue, offset)
        )

    def _check_before(self, track: Track, first: int) -> None:
        """Whatever the queue has before the first record that comes by must be good."""
        queue = track.queue
        if not self._is_whole and not queue.first_offset <= first <= queue.max_offset:
            raise QueueGap(f"queue {queue.topic}/{queue.queue_id} lacks offset {first}")
        if queue.max_offset and first < queue.first_offset:
            queue.clear()
            self._note_changed(track)
        stop = self._cut_lost(track, min(first, queue.max_offset))
        if self._is_whole or stop <= queue.first_offset:
            return
        if not self._is_vouched_for(queue, stop - 1):
            reason = f"has a bad unit at offset {stop - 1}"
            raise QueueGap(f"queue {queue.topic}/{queue.queue_id} {reason}")

    def _cut_lost(self, track: Track, stop: int) -> int:
        """Cut units before ``stop`` whose records should have come by.  Returns where."""
        queue = track.queue
        lost = self._lost_from(queue, stop)
        if lost < queue.max_offset and lost < track.next_offset:
            queue.truncate(QueueOffset(lost))
            self._note_changed(track)
        return lost

    def _lost_from(self, queue: ConsumeQueue, stop: int) -> int:
        """Where units begin whose records should have come by; those before it are older."""
        lost = stop
        while stop > queue.first_offset:
            start = max(queue.first_offset, stop - LOOK_BACK_UNITS)
            units = units_of(queue, start, stop)
            is_lost = ~is_fill(units) & (units["log_offset"] >= self.start)
            if is_lost.any():
                lost = start + int(np.argmax(is_lost))
            elif not self._is_whole:
                break
            is_older = ~is_fill(units) & ~is_lost
            if not self._is_whole and is_older[max(lost - start, 0) :].any():
                raise QueueGap(f"queue {queue.topic}/{queue.queue_id} is out of order")
            stop = start
        return lost

    # Units

    def _write_units(self, track: Track, arrivals: ReplayedRecords) -> None:
        """Make the queue have the units of these records."""
        queue = track.queue
        first = track.next_offset
        stop = int(arrivals.queue_offset[-1]) + 1
        units = np.full(stop - first, _FILL, UNIT)
        rows = arrivals.queue_offset - first
        units["log_offset"][rows] = arrivals.log_offset
        units["size"][rows] = arrivals.size_bytes
        units["tags_code"][rows] = arrivals.code
        same = self._same_count(queue, first, units, rows, arrivals.store_ms)
        if same == len(units):
            return
        at = QueueOffset(first + same)
        if at < queue.max_offset:
            queue.truncate(at)
            self._note_changed(track)
        extension = self._extension(track)
        if extension is not None:
            for row, code, store_ms in zip(
                rows.tolist(), arrivals.code.tolist(), arrivals.store_ms.tolist(), strict=True
            ):
                if row >= same:
                    units["tags_code"][row] = extension.stage(code, store_ms, b"")
            extension.write()
            extension.advance()
            self.queues.note_changed(extension.dirty)
        log_stop = LogOffset(int(arrivals.log_offset[-1] + arrivals.size_bytes[-1]))
        queue.write(at, units[same:].tobytes())
        queue.advance(QueueOffset(stop), log_stop)
        self.queues.note_changed(queue.dirty)

    def _same_count(
        self, queue: ConsumeQueue, first: int, units: Units, rows: Ints, store_ms: Ints
    ) -> int:
        """How many of the units the queue has already, from the first on."""
        there = units_of(queue, first, first + len(units))
        same = there == units[: len(there)]
        held = there["tags_code"].astype(np.int64)
        extension = self.queues.find_extension(queue.topic, queue.queue_id)
        if extension is not None and not same.all():
            times = np.zeros(len(units), np.int64)
            times[rows] = store_ms
            for row in np.flatnonzero(~same).tolist():
                extended = extension.read(int(held[row])) if is_address(int(held[row])) else None
                if (
                    extended is None
                    or there[row].item()[:2] != units[row].item()[:2]
                    or extended.tags_code != units[row]["tags_code"]
                    or extended.store_ms != times[row]
                ):
                    return row
            return len(there)
        return len(there) if same.all() else int(np.argmin(same))

    def _extension(self, track: Track) -> QueueExtension | None:
        """Where to put extension units, if the store has them; ready to be added to."""
        if not self.extended:
            return None
        queue = track.queue
        extension = self.queues.open_extension(queue.topic, queue.queue_id)
        if not track.is_extension_settled:
            extension.truncate_after(last_address(queue))
            track.is_extension_settled = True
        return extension

    # The end

    def settle(self) -> None:
        """Every record came by: cut what queues have more, and tell them where the log begins."""
        for queue in list(self.queues):
            track = self._tracks.get((queue.topic, queue.queue_id))
            if track is not None:
                queue.truncate(QueueOffset(track.next_offset))  # and wipe what lies behind
            else:
                self._cut_unseen(queue)
            queue.correct_min(self.log.min_offset)
            self._settle_extension(queue)
            if queue.dirty.files or queue.dirty.directories:
                self.queues.note_changed(queue.dirty)

    def _cut_unseen(self, queue: ConsumeQueue) -> None:
        """No record of the queue came by: its units must all be older, and good."""
        queue.truncate(QueueOffset(self._lost_from(queue, queue.max_offset)))
        last = _last_record_offset(queue)
        if last is not None and not (self._is_whole or self._is_vouched_for(queue, last)):
            raise QueueGap(f"queue {queue.topic}/{queue.queue_id} ends badly")

    def _settle_extension(self, queue: ConsumeQueue) -> None:
        extension = self.queues.find_extension(queue.topic, queue.queue_id)
        if extension is not None:
            extension.truncate_after(last_address(queue))
            if extension.dirty.files or extension.dirty.directories:
                self.queues.note_changed(extension.dirty)

    def _note_changed(self, track: Track) -> None:
        track.is_extension_settled = False
        self.queues.note_changed(track.queue.dirty)

    def _is_vouched_for(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether a unit is a fill, points before the log, or at its record."""
        units = queue.units(QueueOffset(offset), 1)
        if not len(units):
            return False
        log_offset, size_bytes, _ = units[0].item()
        if is_fill(units)[0] or log_offset < self.log.min_offset:
            return True
        segment = self.log.segment_at(LogOffset(log_offset))
        if segment is None:
            return False
        return leads_to_own(segment, queue, (log_offset, size_bytes), offset)


def last_address(queue: ConsumeQueue) -> int | None:
    """The newest extension unit a queue points at."""
    stop = int(queue.max_offset)
    while stop > queue.first_offset:
        start = max(queue.first_offset, stop - LOOK_BACK_UNITS)
        codes = units_of(queue, start, stop)["tags_code"].astype(np.int64).tolist()
        for code in reversed(codes):
            if is_address(code):
                return int(code)
        stop = start
    return None


def _last_record_offset(queue: ConsumeQueue) -> int | None:
    """The last queue offset with a unit that stands for a record."""
    stop = int(queue.max_offset)
    while stop > queue.first_offset:
        start = max(queue.first_offset, stop - LOOK_BACK_UNITS)
        real = np.flatnonzero(~is_fill(units_of(queue, start, stop)))
        if len(real):
            return start + int(real[-1])
        stop = start
    return None


def units_of(queue: ConsumeQueue, start: int, stop: int) -> Units:
    """The units a queue has in a span that may cross files; as many as there are."""
    parts = []
    while start < stop:
        units = queue.units(QueueOffset(start), stop - start)
        if not len(units):
            break
        parts.append(units)
        start += len(units)
    return np.concatenate(parts) if parts else np.empty(0, UNIT)
