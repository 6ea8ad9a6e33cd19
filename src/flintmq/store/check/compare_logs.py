"""Comparing the log of a store directory with that of a running broker, byte for byte.

The broker's log comes as pieces, as it sends them to slaves.  The two logs are compared from the
first file that both have up to where one of them ends:

    equal      both end at the same byte
    shorter    the broker has more: a copy that lacks the newest records
    longer     the directory has more than the broker
    different  bytes differ; each record with such a byte is named on both sides
    apart      there is no byte that both have

A master that is asked for bytes it does not have sends heartbeats and no data.  It may send one
heartbeat before data that it has, so only the second one says that there is nothing.

Reads only, and keeps little: of logs that have diverged the first differences are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

import numpy as np

from flintmq.errors import MalformedRecord
from flintmq.model.queue import LogOffset
from flintmq.protocol.records.record import FILLER_BYTES_MIN, Record, decode_record, record_size
from flintmq.protocol.records.record_checksum import has_wrong_checksum
from flintmq.protocol.replication.ha_frames import Piece
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.log.commit_log import CommitLog, Segment
from flintmq.store.log.log_scan import LogScan
from flintmq.store.recovery.parts import assemble
from flintmq.store.recovery.survey import survey

NAMED_MAX = 10
"""Differences that are named; the others are only counted."""

DIFFERENT_BYTES_MAX = 1024 * 1024
"""After so many differing bytes the logs have nothing in common any more: the rest is not read."""

HEARTBEATS_WITHOUT_DATA = 2

Read: TypeAlias = Callable[[LogOffset | None], Generator[Piece]]
"""The other log from a place on, or from its last file on."""


Scan: TypeAlias = Callable[[LogOffset], LogScan]
"""A walk over our records from the start of a file on."""


class Verdict(Enum):
    """How two logs relate."""

    EQUAL = "equal"
    SHORTER = "shorter"
    LONGER = "longer"
    DIFFERENT = "different"
    APART = "apart"


@dataclass(frozen=True, slots=True)
class LogDifference:
    """One record, or place without one, where the logs differ."""

    log_offset: int
    """The first byte that differs."""
    path: str
    position: int
    what: str

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}, log offset {self.log_offset}: {self.what}"


@dataclass(slots=True)
class LogComparison:
    """What a comparison found."""

    verdict: Verdict
    start: int
    """The first byte that was compared."""
    stop: int
    """Behind the last one."""
    end: int
    """Where the log of the directory ends."""
    other_end: int
    """Where the other log ends, as far as was read."""
    different_bytes: int = 0
    differences: list[LogDifference] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether the logs agree in every byte that both have."""
        return self.verdict not in (Verdict.DIFFERENT, Verdict.APART)


def compare_store(
    disk: Disk, directory: Path, config: StoreConfig, end: LogOffset, read: Read
) -> LogComparison:
    """Compare a directory whose log ends at ``end``, as a check of it has found."""
    parts = assemble(disk, directory, survey(disk, directory, config).config)
    log = parts.log
    log.load()

    def scan(at: LogOffset) -> LogScan:
        return LogScan(disk, log.segments, at)

    return _compared(log, end, scan, read)


def _compared(log: CommitLog, end: LogOffset, scan: Scan, read: Read) -> LogComparison:
    start = _first_common(log, read)
    if start is None or start >= end:
        return LogComparison(Verdict.APART, 0, 0, end, 0)
    found = LogComparison(Verdict.EQUAL, start, start, end, start)
    places = _compare(log, found, read)
    if found.different_bytes:
        found.verdict = Verdict.DIFFERENT
        found.differences = list(_name(log, places, scan, read))
    elif found.other_end > end:
        found.verdict = Verdict.SHORTER
    elif found.other_end < end:
        found.verdict = Verdict.LONGER
    return found


def _first_common(log: CommitLog, read: Read) -> LogOffset | None:
    """The start of the first file of ours that the other log has bytes of."""
    with closing(read(None)) as pieces:
        last = next(pieces).start
    starts = [segment.start for segment in log.segments if segment.start <= last]
    low, high = 0, len(starts)
    while low < high:  # the other log has every byte from its first file on to its last
        middle = (low + high) // 2
        if _has(starts[middle], read):
            high = middle
        else:
            low = middle + 1
    return starts[low] if low < len(starts) else None


def _has(start: LogOffset, read: Read) -> bool:
    with closing(read(start)) as pieces:
        for _ in range(HEARTBEATS_WITHOUT_DATA):
            if next(pieces).octets:
                return True
    return False


def _compare(log: CommitLog, found: LogComparison, read: Read) -> list[int]:
    """Read the other log up to where one ends; tell the first places that differ."""
    places: list[int] = []
    heartbeats = 0
    with closing(read(LogOffset(found.start))) as pieces:
        for piece in pieces:
            if not piece.octets:
                heartbeats += 1
                if found.other_end > found.start or heartbeats == HEARTBEATS_WITHOUT_DATA:
                    break
                continue
            found.other_end = piece.start + len(piece.octets)
            for at in _different(log, piece, found.end):
                found.different_bytes += 1
                if len(places) < DIFFERENT_BYTES_MAX:
                    places.append(at)
            found.stop = min(found.other_end, found.end)
            if found.other_end > found.end or found.different_bytes >= DIFFERENT_BYTES_MAX:
                break
    return places


def _different(log: CommitLog, piece: Piece, end: int) -> Iterator[int]:
    """The places of a piece where our log has another byte."""
    at, stop = int(piece.start), min(piece.start + len(piece.octets), end)
    while at < stop:
        segment = log.segment_at(LogOffset(at))
        assert segment is not None, at
        until = min(stop, segment.stop)
        mine = segment.view[at - segment.start : until - segment.start]
        theirs = memoryview(piece.octets)[at - piece.start : until - piece.start]
        if mine != theirs:
            differs = np.frombuffer(mine, np.uint8) != np.frombuffer(theirs, np.uint8)
            yield from (np.flatnonzero(differs) + at).tolist()
        at = until


def _name(log: CommitLog, places: list[int], scan: Scan, read: Read) -> Iterator[LogDifference]:
    """Say of each place which records lie there."""
    named, index = 0, 0
    while index < len(places) and named < NAMED_MAX:
        at = LogOffset(places[index])
        segment = log.segment_at(at)
        assert segment is not None, at
        start, stop = _bounds(scan(segment.start), at, segment)
        mine = bytes(segment.view[start - segment.start : stop - segment.start])
        theirs = _bytes_of(start, read)
        count = index
        while index < len(places) and places[index] < stop:
            index += 1
        what = f"{_told(mine, theirs)}; {index - count} bytes differ"
        yield LogDifference(at, str(segment.path), at - segment.start, what)
        named += 1


def _bounds(walk: LogScan, at: LogOffset, segment: Segment) -> tuple[LogOffset, LogOffset]:
    """The record or the hole that has a place."""
    start, stop = segment.start, segment.stop
    for base, columns in walk:
        firsts = columns.start + base
        row = int(np.searchsorted(firsts, at, "right")) - 1
        if row >= 0:
            start = LogOffset(int(firsts[row]))
            record_stop = LogOffset(start + int(columns.size_bytes[row]))
            if at < record_stop:
                return start, record_stop
            start = record_stop
        if row + 1 < len(firsts):
            stop = LogOffset(int(firsts[row + 1]))
            break
    return start, min(stop, segment.stop)


def _bytes_of(start: LogOffset, read: Read) -> bytes:
    """What the other log has from a place on: one record, or as much as there is."""
    octets = bytearray()
    heartbeats = 0
    with closing(read(start)) as pieces:
        while heartbeats < HEARTBEATS_WITHOUT_DATA:
            piece = next(pieces)
            heartbeats += not piece.octets
            if not octets:  # byte 0 of a log cannot be asked for: the first one of a size, always 0
                octets += bytes(max(0, piece.start - start))
            octets += piece.octets
            if len(octets) >= FILLER_BYTES_MIN and len(octets) >= record_size(octets, 0):
                break
    return bytes(octets)


def _told(mine: bytes, theirs: bytes) -> str:
    """What lies at a place on both sides."""
    ours, other = _record(mine), _record(theirs)
    if ours is None and other is None:
        return "no whole record on either side"
    if ours is None:
        return f"damaged in the directory; the broker has {_called(other)}"
    if other is None:
        return f"{_called(ours)}, which is damaged at the broker"
    if _called(ours) != _called(other):
        return f"{_called(ours)}, where the broker has {_called(other)}"
    parts = [name for name in _PARTS if getattr(ours, name) != getattr(other, name)]
    return f"{_called(ours)} differs in {', '.join(parts)}"


_PARTS = Record.__struct_fields__


def _called(record: Record | None) -> str:
    assert record is not None
    return f"message {record.queue_offset} of {record.topic!a}/{record.queue_id}"


def _record(octets: bytes) -> Record | None:
    """The record that some bytes begin with, if it is whole."""
    try:
        record = decode_record(octets)
    except MalformedRecord:
        return None
    return None if has_wrong_checksum(octets[: record_size(octets, 0)]) else record
