"""Reading the log again, piece by piece, to find bytes that have changed since they were written.

    begin(bytes) ─► part.run(), on any thread ─► finish(part) ─► damages that are new
                                                                    │ records of a replica
                                          heal(damage, octets) ◄────┘

Every record is checked as recovery does: magic, sizes, its own place, the checksum of its body, and
the one over all of it where it has one.  What is found wrong is a `LogDamage` up to the next good
record.  It is told once, and forgotten when a later pass finds the place in order.

`heal` writes only what is proven: whole records, right in every way, that fill the damaged bytes
exactly, each of which this store knows otherwise: its queue has a unit of just this place and size,
or the damaged bytes still begin with the same header.

Invariant: nothing but bytes of a damage that was found is ever written, and only at its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from flintmq.errors import DiskFailed, MalformedRecord
from flintmq.kernel.layout import LOG_OFFSET_AT, MAGIC_AT, SYS_FLAG_AT
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import (
    FILLER_BYTES_MIN,
    RECORD_BYTES_MAX,
    Record,
    decode_record,
    is_filler,
    record_size,
)
from flintmq.protocol.records.record_checksum import has_wrong_checksum
from flintmq.protocol.records.record_scan import EndKind, scan_records
from flintmq.store.files.disk import read_part
from flintmq.store.files.layout import file_name
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.log.log_scan import MAGIC_START, good_records
from flintmq.store.queues.queue_set import QueueSet

WINDOW_BYTES = 256 * 1024
"""What is read at once at least, so that most records are whole in it."""

DAMAGES_MAX = 1_000
"""Damages that are remembered; a log with more of them is lost, and says so by their number."""

NO_PLACE = LogOffset(0)

_IDENTITY_BYTES = SYS_FLAG_AT
"""The part of a header that tells one record from every other: all up to its own place."""


class LogDamage(NamedTuple):
    """Bytes [start, stop) of the log that are no records any more."""

    path: Path
    position: int
    start: LogOffset
    stop: LogOffset
    reason: str

    def __str__(self) -> str:
        size_bytes = self.stop - self.start
        return f"{self.path} at byte {self.position}: {self.reason}; {size_bytes} bytes"


@dataclass(slots=True)
class ScrubPart:
    """One piece of a pass.  `run` reads files and nothing else, so it may run on any thread."""

    directory: Path
    file_bytes: int
    start: LogOffset
    end: LogOffset
    """Where the log ended when the part began."""
    bytes_max: int
    stop: LogOffset = field(default=NO_PLACE)
    """Where the next part begins."""
    damages: list[LogDamage] = field(default_factory=list)
    is_lost: bool = False
    """A file went while it was read: retention took it."""

    def run(self) -> None:
        """Check records from ``start`` on, as many bytes as were asked for, and no half one."""
        at, until = self.start, self.start + self.bytes_max
        try:
            while at < min(until, self.end):
                at = self._checked(at)
        except DiskFailed:
            self.is_lost = True
        self.stop = at

    def _checked(self, at: LogOffset, size_bytes: int = WINDOW_BYTES) -> LogOffset:
        """Check what begins at a place; tell where to go on."""
        file_start = LogOffset(at - at % self.file_bytes)
        file_stop = LogOffset(file_start + self.file_bytes)
        stop = min(file_stop, self.end)
        octets = self._read(at, min(at + size_bytes, stop))
        columns = good_records(scan_records(octets), at)
        inside, kind = columns.end.position, columns.end.kind
        place = LogOffset(at + inside)
        if place == stop:
            return place
        if kind is EndKind.FILLER and self._closes(octets, inside, file_stop - place):
            return file_stop
        if kind in (EndKind.PARTIAL, EndKind.WHOLE):
            if inside:
                return place
            wanted = record_size(octets, 0) if len(octets) >= FILLER_BYTES_MIN else 0
            if len(octets) < wanted <= min(RECORD_BYTES_MAX, stop - place):
                return self._checked(at, wanted)
        path = self.directory / file_name(file_start)
        found = self._next_record(LogOffset(place + 1), stop)
        reason = columns.end.reason or "half a record"
        self.damages.append(LogDamage(path, place - file_start, place, found, reason))
        return found

    @staticmethod
    def _closes(octets: bytes, inside: int, left_bytes: int) -> bool:
        return is_filler(octets, inside) and record_size(octets, inside) == left_bytes

    def _read(self, start: int, stop: int) -> bytes:
        file_start = start - start % self.file_bytes
        path = self.directory / file_name(LogOffset(file_start))
        return read_part(path, start - file_start, stop - start)

    def _next_record(self, at: LogOffset, stop: LogOffset) -> LogOffset:
        """Where the next good record of the file begins, or where the file or the log ends."""
        while at < stop:
            octets = self._read(at, min(at + WINDOW_BYTES, stop))
            hit = octets.find(MAGIC_START)
            while hit >= 0:
                place = LogOffset(at + hit - MAGIC_AT)
                if place >= at and self._starts_record(place, stop):
                    return place
                hit = octets.find(MAGIC_START, hit + 1)
            at = LogOffset(at + max(len(octets) - MAGIC_AT - len(MAGIC_START), 1))
        return stop

    def _starts_record(self, place: LogOffset, stop: LogOffset) -> bool:
        head = self._read(place, min(place + _IDENTITY_BYTES, stop))
        if len(head) < _IDENTITY_BYTES or int.from_bytes(head[LOG_OFFSET_AT:][:8]) != place:
            return False
        size_bytes = record_size(head, 0)
        if not 0 < size_bytes <= stop - place:
            return False
        return whole_record(self._read(place, place + size_bytes), place) is not None


class LogScrub:
    """The passes over one log, and what they found."""

    def __init__(self, log: CommitLog, queues: QueueSet, directory: Path) -> None:
        self._log = log
        self._queues = queues
        self._directory = directory
        self.position = LogOffset(0)
        self.passes = 0
        self.checked_bytes = 0
        self.found_count = 0
        self.healed_count = 0
        self.damages: dict[LogOffset, LogDamage] = {}
        """What is damaged now, by its first byte."""
        self.unhealed: dict[LogOffset, str] = {}
        """Why a damage was not healed, by its first byte."""

    def begin(self, bytes_max: int) -> ScrubPart | None:
        """The next part of a pass, or nothing when the log is empty."""
        log = self._log
        if not log.has_files or log.end_offset == log.min_offset:
            return None
        if self.position >= log.end_offset:
            self.passes += 1
            self.position = log.min_offset
        start = max(self.position, log.min_offset)
        return ScrubPart(self._directory, log.file_bytes, start, log.end_offset, bytes_max)

    def finish(self, part: ScrubPart) -> list[LogDamage]:
        """Take note of a part that has run; tell the damages that were not known."""
        if part.is_lost:
            self.position = self._log.min_offset
            return []
        self.position = part.stop
        self.checked_bytes += part.stop - part.start
        self._forget_before(self._log.min_offset)
        seen = {damage.start for damage in part.damages}
        for start in [at for at in self.damages if part.start <= at < part.stop and at not in seen]:
            self._forget(start)  # it is in order again
        new = [damage for damage in part.damages if damage.start not in self.damages]
        self.found_count += len(new)
        for damage in new[: DAMAGES_MAX - len(self.damages)]:
            self.damages[damage.start] = damage
        return new

    def _forget_before(self, start: LogOffset) -> None:
        for at in [at for at in self.damages if at < start]:
            self._forget(at)

    def _forget(self, start: LogOffset) -> None:
        self.damages.pop(start, None)
        self.unhealed.pop(start, None)

    def why_not(self, damage: LogDamage, octets: bytes) -> str | None:
        """Why bytes of a replica may not take the place of damaged ones; None when they may."""
        mine = self._log.read_view(damage.start, damage.stop - damage.start)
        if mine is None:
            return "the log does not have that place any more"
        at = 0
        while at < len(octets):
            record = whole_record(octets[at:], LogOffset(damage.start + at))
            if record is None:
                return f"byte {at} of what the replica has there begins no whole record"
            size_bytes = record_size(octets, at)
            same_head = bytes(mine[at:][:_IDENTITY_BYTES]) == octets[at:][:_IDENTITY_BYTES]
            if not (same_head or self._is_queued(record, size_bytes)):
                return f"nothing here says that message {record.queue_offset} was there"
            at += size_bytes
        if at != len(mine):
            return f"the replica has records of {at} bytes there, and {len(mine)} are damaged"
        return None

    def heal(self, damage: LogDamage, octets: bytes) -> None:
        """Write bytes that `why_not` has nothing against.  Raises `DiskFailed`."""
        assert self.why_not(damage, octets) is None, damage
        self._log.rewrite(damage.start, octets)
        self._forget(damage.start)
        self.healed_count += 1

    def _is_queued(self, record: Record, size_bytes: int) -> bool:
        """Whether its queue has a unit of this very record."""
        queue = self._queues.find(record.topic, record.queue_id)
        if queue is None or not queue.min_offset <= record.queue_offset < queue.max_offset:
            return False
        units = queue.units(QueueOffset(record.queue_offset), 1)
        return (
            len(units) == 1
            and int(units["log_offset"][0]) == record.log_offset
            and int(units["size"][0]) == size_bytes
        )


def whole_record(octets: bytes, place: LogOffset) -> Record | None:
    """The record that some bytes begin with, if it is right in every way and belongs there."""
    try:
        record = decode_record(octets)
    except MalformedRecord:
        return None
    is_wrong = has_wrong_checksum(octets[: record_size(octets, 0)])
    is_elsewhere = record.log_offset != place or record.queue_id < 0 or record.queue_offset < 0
    return None if is_wrong or is_elsewhere or not record.topic else record
