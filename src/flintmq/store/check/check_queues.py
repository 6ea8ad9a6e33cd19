"""Holding consume queues against the log: every record has its unit, every unit its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from flintmq.errors import FlintError
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import record_size
from flintmq.store.check.findings import Findings
from flintmq.store.files.json_tables import Tables
from flintmq.store.log.log_scan import Damage
from flintmq.store.queues.consume_queue import ConsumeQueue, Units, is_fill
from flintmq.store.queues.queue_extension import is_address
from flintmq.store.queues.verify_units import leads_to_own
from flintmq.store.recovery.parts import StoreParts
from flintmq.store.recovery.queue_replay import units_of
from flintmq.store.recovery.replayed_records import QueueKey, ReplayedRecords

CHUNK_UNITS = 50_000


class QueueCheck:
    """Give it every record, then `finish`."""

    def __init__(self, parts: StoreParts, findings: Findings, *, is_open: bool) -> None:
        self._parts = parts
        self._findings = findings
        self._is_open = is_open
        self._matched: Counter[QueueKey] = Counter()
        self._without: Counter[QueueKey] = Counter()
        self.units = 0

    def add(self, arrivals: Mapping[QueueKey, ReplayedRecords]) -> None:
        """Records in the order of the log, queue by queue."""
        for key, some in arrivals.items():
            queue = self._parts.queues.find(*key)
            if queue is None or queue.max_offset == 0:
                self._without[key] += len(some)
                continue
            offsets = some.queue_offset
            if (offsets == 0).any():  # a new life of the queue: what was missing was of the old
                self._without.pop(key, None)
                begin = int(np.flatnonzero(offsets == 0)[-1])
                some = some.picked(list(range(begin, len(some))))
                offsets = some.queue_offset
            late = offsets >= queue.max_offset
            self._without[key] += int(np.count_nonzero(late))
            here = np.flatnonzero(~late & (offsets >= queue.first_offset)).tolist()
            if here:
                self._compare(key, queue, some.picked(here))

    def _compare(self, key: QueueKey, queue: ConsumeQueue, arrivals: ReplayedRecords) -> None:
        offsets = arrivals.queue_offset
        first = int(offsets.min())
        units = units_of(queue, first, int(offsets.max()) + 1)[offsets - first]
        same = units["log_offset"] == arrivals.log_offset
        self._matched[key] += int(np.count_nonzero(same))
        codes = self._codes(queue, units, arrivals)
        for row in np.flatnonzero(same & (units["size"] != arrivals.size_bytes)).tolist():
            size = int(arrivals.size_bytes[row])
            self._wrong(queue, int(offsets[row]), f"its record has {size} bytes")
        for row in np.flatnonzero(same & (codes != arrivals.code)).tolist():
            code = int(arrivals.code[row])
            self._wrong(queue, int(offsets[row]), f"its third field should stand for {code}")
        newer = ~is_fill(units) & (units["log_offset"] > arrivals.log_offset)
        for row in np.flatnonzero(~same & ~newer).tolist():
            place = int(arrivals.log_offset[row])
            self._wrong(queue, int(offsets[row]), f"it should point at {place} in the log")

    def _codes(self, queue: ConsumeQueue, units: Units, arrivals: ReplayedRecords) -> np.ndarray:
        """What third fields stand for, extension units looked up."""
        codes = units["tags_code"].astype(np.int64)
        extension = self._parts.queues.find_extension(queue.topic, queue.queue_id)
        for row, code in enumerate(codes.tolist()):
            if not is_address(code):
                continue
            extended = extension.read(code) if extension is not None else None
            if extended is not None and extended.store_ms == arrivals.store_ms[row]:
                codes[row] = extended.tags_code
        return codes

    def finish(self, log_end: LogOffset, damages: Sequence[Damage]) -> None:
        """Every record was given.  What is left are units without one."""
        self._tell_missing()
        for queue in self._parts.queues:
            self.units += queue.max_offset - queue.first_offset
            self._check_units(queue, log_end, damages)
            rest = queue.first_byte_behind() if not self._is_open else None
            if rest is not None:
                self._findings.wrong(*rest, "bytes behind the last unit")

    def _tell_missing(self) -> None:
        try:
            topics = Tables(self._parts.disk, self._parts.directory).topics.load()
        except FlintError:
            topics = None
        known = topics.topic_config_table if topics is not None else {}
        for (topic, queue_id), count in self._without.items():
            if not count:
                continue
            path = self._parts.directory / "consumequeue" / topic / str(queue_id)
            what = f"{count} records of the log are not in it"
            if self._is_open or (topic not in known and not self._has(topic, queue_id)):
                self._findings.note(path, 0, what)
            else:
                self._findings.wrong(path, 0, what)

    def _has(self, topic: str, queue_id: int) -> bool:
        queue = self._parts.queues.find(topic, queue_id)
        return queue is not None and queue.max_offset > 0

    def _check_units(
        self, queue: ConsumeQueue, log_end: LogOffset, damages: Sequence[Damage]
    ) -> None:
        log_min = self._parts.log.min_offset
        alive = 0
        before = -1
        for start in range(queue.first_offset, queue.max_offset, CHUNK_UNITS):
            units = units_of(queue, start, min(start + CHUNK_UNITS, queue.max_offset))
            real = np.flatnonzero(~is_fill(units))
            places = units["log_offset"][real].astype(np.int64)
            alive += int(np.count_nonzero(places >= log_min))
            steps = np.diff(places, prepend=before)
            if len(real) and (steps <= 0).any():
                row = int(np.argmax(steps <= 0))
                self._wrong(queue, start + int(real[row]), "it points before the unit before it")
            before = int(places[-1]) if len(places) else before
        if alive == self._matched[queue.topic, queue.queue_id]:
            return
        for start in range(queue.first_offset, queue.max_offset, CHUNK_UNITS):
            units = units_of(queue, start, min(start + CHUNK_UNITS, queue.max_offset))
            for row in np.flatnonzero(~is_fill(units) & (units["log_offset"] >= log_min)).tolist():
                self._check_unit(queue, start + row, units[row : row + 1], log_end, damages)

    def _check_unit(
        self,
        queue: ConsumeQueue,
        offset: int,
        unit: Units,
        log_end: LogOffset,
        damages: Sequence[Damage],
    ) -> None:
        place, size_bytes, _ = unit[0].item()
        for damage in damages:
            if damage.start <= place < damage.stop:
                where = queue.place(QueueOffset(offset))
                self._findings.lost(*where, f"the record of queue offset {offset} is damaged")
                return
        segment = self._parts.log.segment_at(LogOffset(place))
        if segment is None or place + size_bytes > log_end:
            self._wrong(queue, offset, "it points behind the end of the log")
            return
        inside = place - segment.start
        own_size = record_size(segment.view, inside)  # `_compare` reports a wrong size
        if not leads_to_own(segment, queue, (place, own_size), offset):
            self._wrong(queue, offset, f"no record of it is at {place} in the log")

    def _wrong(self, queue: ConsumeQueue, offset: int, what: str) -> None:
        path, position = queue.place(QueueOffset(offset))
        self._findings.wrong(path, position, f"unit of queue offset {offset}: {what}")
