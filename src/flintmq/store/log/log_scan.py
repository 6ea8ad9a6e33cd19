"""Walking the commit log, over whatever a crash or a bad disk did to it.

Records lie one after the other, so the first one that is no good hides where the next one
begins.  Then every place where a record could begin is tried, in this file and in later
ones, and believed only when everything agrees: magic, sizes, its own place, a topic and the
checksum of its body.  Bytes in a body that look like a record do not: they would have to
name the place where they happen to lie.

    a record follows        the bytes between are a hole: what was there is lost
    none follows            the log ends here

Reads only.  Work is linear in what was ever written; holes of the file system are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from zlib import crc32

import numpy as np

from flintmq.errors import MalformedRecord
from flintmq.kernel.layout import LOG_OFFSET_AT, MAGIC_AT, RECORD_BYTES_MIN
from flintmq.model.queue import LogOffset
from flintmq.protocol.records.record import (
    CRC_MASK,
    FILLER_BYTES_MIN,
    decode_record,
    is_filler,
    record_size,
)
from flintmq.protocol.records.record_checksum import has_wrong_checksum, wrong_checksums
from flintmq.protocol.records.record_scan import EndKind, RecordColumns, scan_records
from flintmq.store.files.disk import Disk
from flintmq.store.log.commit_log import Segment

SCAN_BYTES = 64 * 1024 * 1024
"""How much of the log is looked at at once: many records of each of many queues."""

MAGIC_START = bytes.fromhex("daa320")
"""The bytes both magics begin with."""

_ARRAYS = [field.name for field in fields(RecordColumns) if field.name not in ("buffer", "end")]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes [start, stop) of the log that are no records, though some were there."""

    path: Path
    position: int
    start: LogOffset
    stop: LogOffset
    reason: str
    is_tail: bool
    """True when no record follows."""

    def __str__(self) -> str:
        lost = "the log ends here" if self.is_tail else "records after it stay"
        size_bytes = self.stop - self.start
        return f"{self.path} at byte {self.position}: {self.reason}; {size_bytes} bytes, {lost}"


class LogScan:
    """One walk.  Iterate, and then ask where the log ends and what was damaged."""

    def __init__(self, disk: Disk, segments: list[Segment], start: LogOffset) -> None:
        self._disk = disk
        self._segments = [segment for segment in segments if segment.stop > start]
        self._begin = start
        self.end = start
        """Behind the last good record, or filler."""
        self.damages: list[Damage] = []
        self.lost_bytes = 0
        """In holes met so far."""
        self.last_store_ms = 0

    def __iter__(self) -> Iterator[tuple[LogOffset, RecordColumns]]:
        """Good records, many at a time, with the place their buffer begins at."""
        index = 0
        at = self._begin
        while index < len(self._segments):
            segment = self._segments[index]
            at = max(at, segment.start)
            base = at
            columns = good_records(scan_records(window(segment, at)), base)
            if len(columns):
                self.last_store_ms = int(columns.store_ms[-1])
                yield base, columns
            at = LogOffset(base + columns.end.position)
            if at > self.end:
                self.end = at
            if at == segment.stop or _is_closed(segment, at, columns.end.kind):
                self.end = at = segment.stop
                index += 1
            elif columns.end.kind in (EndKind.PARTIAL, EndKind.WHOLE) and at > base:
                continue
            else:
                found = self._next_record(index, LogOffset(at + 1))
                self._add_damage(segment, at, columns.end.reason, found[1] if found else None)
                if found is None:
                    return
                index, at = found

    def _next_record(self, index: int, at: LogOffset) -> tuple[int, LogOffset] | None:
        """The next good record at or after a place, and which file it is in."""
        for number in range(index, len(self._segments)):
            segment = self._segments[number]
            found = _find_record(self._disk, segment, max(at, segment.start))
            if found is not None:
                return number, found
        return None

    def _add_damage(
        self, segment: Segment, at: LogOffset, reason: str, found: LogOffset | None
    ) -> None:
        stop = found
        if stop is None:
            stop = self._written_stop(segment, at)
            if stop is None:
                return  # nothing but zeros: that is how a log ends
        self.damages.append(
            Damage(segment.path, at - segment.start, at, stop, reason, found is None)
        )
        if found is not None:
            self.lost_bytes += found - at

    def _written_stop(self, segment: Segment, at: LogOffset) -> LogOffset | None:
        """Behind the last byte of a file that is not zero; nothing when all are from ``at`` on."""
        stop = None
        inside = at - segment.start
        for start, block in self._disk.written_blocks(segment.path, inside, segment.size_bytes):
            length = len(block.rstrip(b"\0"))
            stop = LogOffset(segment.start + start + length) if length else stop
        return stop


def record_starts(segment: Segment, at: LogOffset) -> bool:
    """Whether a record that is good in every way begins at a place of a file."""
    inside = at - segment.start
    if inside < 0 or inside + RECORD_BYTES_MIN > segment.size_bytes:
        return False
    view = segment.view
    own_place = int.from_bytes(view[inside + LOG_OFFSET_AT : inside + LOG_OFFSET_AT + 8])
    if own_place != at:
        return False
    try:
        record = decode_record(view, inside)
    except MalformedRecord:
        return False
    if has_wrong_checksum(view[inside : inside + record_size(view, inside)]):
        return False
    return record.queue_id >= 0 and record.queue_offset >= 0 and bool(record.topic)


def _find_record(disk: Disk, segment: Segment, at: LogOffset) -> LogOffset | None:
    """The first good record at or after a place of one file."""
    tail = b""
    inside = at - segment.start
    expected = inside
    for start, block in disk.written_blocks(segment.path, inside, segment.size_bytes):
        if start != expected:
            tail = b""
        text = tail + block
        text_start = start - len(tail)
        hit = text.find(MAGIC_START)
        while hit >= 0:
            place = LogOffset(segment.start + text_start + hit - MAGIC_AT)
            if place >= at and record_starts(segment, place):
                return place
            hit = text.find(MAGIC_START, hit + 1)
        expected = start + len(block)
        tail = text[-(len(MAGIC_START) - 1) :]
    return None


def window(segment: Segment, at: LogOffset) -> memoryview:
    """Some bytes of a file; at least one record, however large it is."""
    inside = at - segment.start
    size_bytes = SCAN_BYTES
    if inside + FILLER_BYTES_MIN <= segment.size_bytes:
        size_bytes = max(size_bytes, record_size(segment.view, inside))
    return segment.view[inside : inside + size_bytes]


def _is_closed(segment: Segment, at: LogOffset, kind: EndKind) -> bool:
    """Whether a filler at ``at`` takes exactly the rest of the file."""
    inside = at - segment.start
    return (
        kind is EndKind.FILLER
        and is_filler(segment.view, inside)
        and record_size(segment.view, inside) == segment.size_bytes - inside
    )


def good_records(columns: RecordColumns, base: LogOffset) -> RecordColumns:
    """The records before the first one that is not what the format lets us verify."""
    checks = (
        (columns.log_offset == columns.start + base, "it names another place as its own"),
        (columns.queue_id >= 0, "its queue id is negative"),
        (columns.queue_offset >= 0, "its queue offset is negative"),
        (columns.topic_length > 0, "it has no topic"),
        (_has_good_body(columns), "its body does not match its checksum"),
        (~wrong_checksums(columns), "it does not match the checksum over the whole of it"),
    )
    count, why = len(columns), ""
    for good, reason in checks:
        if not good[:count].all():
            count, why = int(good[:count].argmin()), reason
    if count == len(columns):
        return columns
    end = replace(
        columns.end, kind=EndKind.MALFORMED, position=int(columns.start[count]), reason=why
    )
    arrays = {name: getattr(columns, name)[:count] for name in _ARRAYS}
    return RecordColumns(columns.buffer, end, **arrays)


def _has_good_body(columns: RecordColumns) -> np.typing.NDArray[np.bool_]:
    view = memoryview(columns.buffer)
    starts = columns.body_start.tolist()
    stops = (columns.body_start + columns.body_length).tolist()
    sums = [crc32(view[start:stop]) for start, stop in zip(starts, stops, strict=True)]
    found: np.typing.NDArray[np.bool_] = (
        np.array(sums, np.uint32) & np.uint32(CRC_MASK)
    ) == columns.body_crc
    return found
