"""Holding batch consume queues against the log: each record has its unit, each unit its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from flintmq.model.queue import LogOffset
from flintmq.store.check.findings import Findings
from flintmq.store.files.layout import BATCH_QUEUE_DIRECTORY, queue_directory
from flintmq.store.log.log_scan import Damage
from flintmq.store.queues.batch_queue import BatchQueue, BatchUnit, BatchUnits
from flintmq.store.recovery.batch_replay import expected_units, units_of
from flintmq.store.recovery.parts import StoreParts
from flintmq.store.recovery.replayed_records import QueueKey, ReplayedRecords

CHUNK_UNITS = 20_000

_FIELDS = {
    "size": "its record has {} bytes",
    "tags_code": "its third field should stand for {}",
    "store_ms": "its record was stored at {}",
    "base_offset": "its record begins with queue offset {}",
    "count": "its record has {} messages",
}


class BatchCheck:
    """Give it every record of topics that keep batches, then `finish`."""

    def __init__(self, parts: StoreParts, findings: Findings, *, is_open: bool) -> None:
        self._parts = parts
        self._findings = findings
        self._is_open = is_open
        self._numbers: dict[QueueKey, int] = {}
        self._without: Counter[QueueKey] = Counter()
        self._unmatched: list[tuple[BatchQueue, int]] = []
        self.units = 0

    def add(self, arrivals: Mapping[QueueKey, ReplayedRecords]) -> None:
        """Records in the order of the log, queue by queue."""
        for key, some in arrivals.items():
            queue = self._parts.queues.find_batch(*key)
            zeros = np.flatnonzero(some.queue_offset == 0)
            if len(zeros):  # a new life of the queue: what was missing was of the old
                self._without.pop(key, None)
                some = some.picked(list(range(int(zeros[-1]), len(some))))
            if queue is None or not queue.max_offset:
                self._without[key] += len(some)
                continue
            start = self._numbers.get(key)
            if start is None:
                start = queue.number_from(self._parts.log.min_offset)
            units = _up_to(queue, start, int(some.log_offset[-1]))
            self._numbers[key] = start + len(units)
            self._compare(key, queue, start, units, some)

    def _compare(
        self, key: QueueKey, queue: BatchQueue, start: int, units: BatchUnits, some: ReplayedRecords
    ) -> None:
        places = units["log_offset"].astype(np.int64)
        has_record = np.isin(places, some.log_offset)
        has_unit = np.isin(some.log_offset, places)
        self._without[key] += int(np.count_nonzero(~has_unit))
        lacking = (start + np.flatnonzero(~has_record)).tolist()
        self._unmatched += [(queue, number) for number in lacking]
        expected = expected_units(some.picked(np.flatnonzero(has_unit).tolist()))
        numbers = start + np.flatnonzero(has_record)
        for name, what in _FIELDS.items():
            differs = units[name][has_record] != expected[name]
            for row in np.flatnonzero(differs).tolist():
                self._wrong(queue, int(numbers[row]), what.format(int(expected[name][row])))

    def finish(self, log_end: LogOffset, damages: Sequence[Damage]) -> None:
        """Every record was given.  What is left are units without one."""
        for (topic, queue_id), count in self._without.items():
            if count:
                root = self._parts.directory / BATCH_QUEUE_DIRECTORY
                path = queue_directory(root, topic, queue_id)
                tell = self._findings.note if self._is_open else self._findings.wrong
                tell(path, 0, f"{count} records of the log are not in it")
        for queue in self._parts.queues.batches():
            start = self._numbers.get((queue.topic, queue.queue_id))
            if start is None:
                start = queue.number_from(self._parts.log.min_offset)
            self._unmatched += [(queue, number) for number in range(start, queue.unit_stop)]
            self.units += queue.unit_stop - queue.first_unit
            self._check_order(queue)
            rest = queue.first_byte_behind() if not self._is_open else None
            if rest is not None:
                self._findings.wrong(*rest, "bytes behind the last unit")
        for queue, number in self._unmatched:
            self._tell_unmatched(queue, number, log_end, damages)

    def _check_order(self, queue: BatchQueue) -> None:
        place = stop = -1
        for number, unit in _numbered(queue):
            if unit.log_offset <= place:
                self._wrong(queue, number, "it points before the unit before it")
            if unit.base_offset < stop:
                self._wrong(queue, number, f"the unit before it has offsets up to {stop}")
            place, stop = unit.log_offset, unit.stop_offset

    def _tell_unmatched(
        self, queue: BatchQueue, number: int, log_end: LogOffset, damages: Sequence[Damage]
    ) -> None:
        unit = queue.unit(number)
        for damage in damages:
            if damage.start <= unit.log_offset < damage.stop:
                what = f"the record of queue offset {unit.base_offset} is damaged"
                self._findings.lost(*queue.place(number), what)
                return
        if unit.log_offset + unit.size_bytes > log_end:
            self._wrong(queue, number, "it points behind the end of the log")
        else:
            self._wrong(queue, number, f"no record of it is at {unit.log_offset} in the log")

    def _wrong(self, queue: BatchQueue, number: int, what: str) -> None:
        offset = queue.unit(number).base_offset
        self._findings.wrong(*queue.place(number), f"unit of queue offset {offset}: {what}")


def _numbered(queue: BatchQueue) -> Iterator[tuple[int, BatchUnit]]:
    for start in range(queue.first_unit, queue.unit_stop, CHUNK_UNITS):
        for number, fields in enumerate(units_of(queue, start, CHUNK_UNITS).tolist(), start):
            yield number, BatchUnit(*fields)


def _up_to(queue: BatchQueue, start: int, place: int) -> BatchUnits:
    """The units from a number on that point up to a place of the log."""
    stop = queue.number_from(LogOffset(place + 1))
    return units_of(queue, start, max(stop - start, 0))
