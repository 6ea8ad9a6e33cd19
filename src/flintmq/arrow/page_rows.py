"""The records of pages as rows: checked, unpacked, and only those that lie in their page.

                      ┌─ sound ──────────────────────────► rows
    join ─► scan ─────┼─ some packed or batches ─► written anew, plain ─► scan ─► rows
                      └─ something is wrong ─────► page by page, record by record ─► rows

Pages are joined, also those of several queues, since what a scan costs hardly depends on how much
it reads.
What is wrong with a record is said by `sift`, which reads one after the other:
the scan only finds that something is.  A record that cannot be decoded has a row with no body, and
``bad`` says why; its other columns are its own.  A broken frame is `MalformedRecord`, and a package
that is not installed is `MissingExtra`: another machine can read the record.

Invariant: the rows are the messages and bad records that `Page.received` gives for each page, in
order, and they are plain: a row that needs unpacking or splitting does not leave here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from flintmq.arrow.byte_spans import binary_column, is_text
from flintmq.core.reading.read_span import Page
from flintmq.errors import BodyTooLarge, MalformedBody, MissingExtra
from flintmq.kernel.checksum import crc32
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import BODY_BYTES_MAX
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP, compression, needs_unwrap
from flintmq.protocol.compression import EXTRA, unpack
from flintmq.protocol.records.batch import decode_batch
from flintmq.protocol.records.received import UNPACKED_BYTES_MAX
from flintmq.protocol.records.record import (
    CRC_MASK,
    Record,
    decode_record,
    encode_record,
    measure_record,
    record_size,
)
from flintmq.protocol.records.record_scan import EndKind, RecordColumns, scan_records
from flintmq.protocol.records.sift import sift_records

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]
    Mask: TypeAlias = npt.NDArray[np.bool_]

_BATCH: Final = NEED_UNWRAP | INNER_BATCH
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

NO_BODY: Final = -1
"""The length of a body that is null."""

CHECKED_AT_ONCE: Final = 256
"""Bodies taken out to be checked; so few stay in a processor's cache."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Plain records of some queues.

    ``place`` says which of the queues a row is of, where there are several.  ``bodies`` are
    there where they had to be looked at anyway.  ``bad`` says of each row what is wrong with its
    record, where something is wrong with one of them.
    """

    records: RecordColumns
    queues: tuple[QueueRef, ...]
    place: Ints | None = None
    bodies: pa.BinaryArray | None = None
    bad: tuple[BadRecord | None, ...] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def cut(self, start: int, stop: int) -> Rows:
        bodies = None if self.bodies is None else self.bodies.slice(start, stop - start)
        place = None if self.place is None else self.place[start:stop]
        bad = None if self.bad is None else self.bad[start:stop]
        return Rows(_some(self.records, slice(start, stop)), self.queues, place, bodies, bad)

    def only(self, chosen: Mask) -> Rows:
        place = None if self.place is None else self.place[chosen]
        bad = None if self.bad is None else tuple(compress(self.bad, chosen))
        return Rows(_some(self.records, np.flatnonzero(chosen)), self.queues, place, None, bad)


class _Scanned(NamedTuple):
    """Pages side by side.  ``firsts`` are the rows with which they begin, and the number of all."""

    columns: RecordColumns
    firsts: Ints


def rows_of(pages: Sequence[Page], *, verify_crc: bool = True) -> Iterator[Rows]:
    """The rows of some pages.

    They come together, except where one cannot be decoded or they unpack to more than one answer
    may hold: then page by page.  Their queue offsets are those of the queue that was asked.
    """
    pages = [page for page in pages if page.records]
    if not pages:
        return
    scanned = _scan([page.records for page in pages])
    if scanned is None or not _topics_are_text(scanned.columns):
        yield from _one_by_one(pages, verify_crc=verify_crc)
        return
    bodies = None
    if verify_crc:
        bodies = _bodies(scanned.columns)
        if not _checksums_match(scanned.columns, bodies):
            yield from _one_by_one(pages, verify_crc=verify_crc)
            return
    if (packed := _packed_rows(scanned.columns)).any():
        room_bytes = UNPACKED_BYTES_MAX - len(scanned.columns.buffer)
        try:
            records = _plain_records(pages, scanned, packed, room_bytes)
        except (MalformedBody, BodyTooLarge):
            yield from _one_by_one(pages, verify_crc=verify_crc)
            return
        scanned, bodies = _scan(records), None
        assert scanned is not None, "records written here can be read"
    yield _in_bounds(pages, scanned, bodies)


def _scan(records: Sequence[bytes]) -> _Scanned | None:
    """Scan pages side by side; None when a page does not end where a record does."""
    columns = scan_records(records[0] if len(records) == 1 else b"".join(records))
    if columns.end.kind is not EndKind.WHOLE:
        return None
    page_edges = np.array([0, *accumulate(map(len, records))])
    record_edges = np.append(columns.start, len(columns.buffer))
    firsts = np.searchsorted(record_edges, page_edges)
    if (record_edges[firsts] != page_edges).any():
        return None
    return _Scanned(columns, firsts)


def _some(columns: RecordColumns, rows: Ints | slice) -> RecordColumns:
    names = [field.name for field in fields(columns)][2:]
    return replace(columns, **{name: getattr(columns, name)[rows] for name in names})


def _topics_are_text(columns: RecordColumns) -> bool:
    return is_text(binary_column(columns.buffer, columns.topic_start, columns.topic_length))


def _bodies(columns: RecordColumns) -> pa.BinaryArray:
    return binary_column(columns.buffer, columns.body_start, columns.body_length)


def _checksums_match(columns: RecordColumns, bodies: pa.BinaryArray) -> bool:
    actual = np.empty(len(columns), np.uint32)
    for at in range(0, len(columns), CHECKED_AT_ONCE):
        some = bodies.slice(at, CHECKED_AT_ONCE)
        actual[at : at + len(some)] = np.fromiter(map(crc32, some.to_pylist()), np.uint32)
    matches = columns.body_crc == actual & CRC_MASK
    return bool(matches.all() or (matches | (columns.body_crc == 0)).all())  # 0: not computed


def _one_by_one(pages: Sequence[Page], *, verify_crc: bool) -> Iterator[Rows]:
    """The rows of each page for itself; of a page with something wrong, record by record."""
    for page in pages:
        if len(pages) > 1:
            yield from rows_of([page], verify_crc=verify_crc)
        else:
            yield from _sifted(page, verify_crc=verify_crc)


def _sifted(page: Page, *, verify_crc: bool) -> Iterator[Rows]:
    """The rows of a page that has bad records in it, or that unpacks to too much at once."""
    octets = page.records
    sifted = sift_records(
        octets,
        broker=page.queue.broker,
        queue_id=page.queue.queue_id,
        offset_delta=page.offset_delta,
        verify_crc=verify_crc,
    )
    if sifted.fault is not None:
        raise sifted.fault
    missing = next((one.missing for one in sifted.bad if one.missing), None)
    if missing is not None:
        raise MissingExtra(missing, EXTRA)
    bad_at = dict(zip(sifted.positions, sifted.bad, strict=True))
    pieces: list[bytes] = []
    bad: list[BadRecord | None] = []
    at = size_bytes = 0
    while at < len(octets):
        found = bad_at.get(at)
        if found is not None:
            made = [_without_body(octets, at)]
        else:
            record = decode_record(octets, at, verify_crc=False)
            made = [encode_record(each) for each in _plain(record, UNPACKED_BYTES_MAX)]
        made_bytes = sum(map(len, made))
        if pieces and size_bytes + made_bytes > UNPACKED_BYTES_MAX:
            yield _rows_with_bad(page, pieces, bad)
            pieces, bad, size_bytes = [], [], 0
        pieces += made
        bad += [found] * len(made)
        size_bytes += made_bytes
        at += record_size(octets, at)
    yield _rows_with_bad(page, pieces, bad)


def _without_body(octets: bytes, at: int) -> bytes:
    """The record at ``at`` with an empty body and no checksum; all else stays as it is."""
    _, _, body_at, body_stop, *_, stop = measure_record(octets, at)
    size_bytes = stop - at - (body_stop - body_at)
    return b"".join(
        (
            size_bytes.to_bytes(4, "big"),
            octets[at + 4 : at + 8],
            bytes(4),
            octets[at + 12 : body_at - 4],
            bytes(4),
            octets[body_stop:stop],
        )
    )


def _rows_with_bad(page: Page, pieces: list[bytes], bad: list[BadRecord | None]) -> Rows:
    scanned = _scan([b"".join(pieces)])
    assert scanned is not None, "records written here can be read"
    columns = scanned.columns
    for row, found in enumerate(bad):
        if found is not None:
            columns.body_length[row] = NO_BODY
            columns.size_bytes[row] = found.size_bytes
    return _in_bounds([page], scanned, None, tuple(bad) if any(bad) else None)


def _packed_rows(columns: RecordColumns) -> Mask:
    batches: Mask = columns.sys_flag & _BATCH == _BATCH
    batches |= columns.sys_flag & COMPRESSED != 0
    return batches


def _plain_records(
    pages: Sequence[Page], scanned: _Scanned, packed: Mask, room_bytes: int
) -> list[bytes]:
    """The records of each page with the packed ones written anew."""
    plain: list[bytes] = []
    base = 0
    for page, first, stop in zip(pages, scanned.firsts[:-1], scanned.firsts[1:], strict=True):
        rows = first + np.flatnonzero(packed[first:stop])
        pieces: list[bytes] = []
        at = 0
        for row in rows.tolist():
            start = int(scanned.columns.start[row]) - base
            pieces.append(page.records[at:start])
            for record in _plain(decode_record(page.records, start, verify_crc=False), room_bytes):
                pieces.append(encode_record(record))
                room_bytes -= len(pieces[-1])
            if room_bytes < 0:
                raise BodyTooLarge(UNPACKED_BYTES_MAX, "the messages of an answer")
            at = start + int(scanned.columns.size_bytes[row])
        plain.append(b"".join((*pieces, page.records[at:])))
        base += len(page.records)
    return plain


def _plain(record: Record, room_bytes: int) -> list[Record]:
    """The messages of a packed record, each as a record of its own."""
    body, sys_flag = record.body, record.sys_flag
    if (kind := compression(sys_flag)) is not None:
        body = unpack(body, kind, min(BODY_BYTES_MAX, room_bytes))
        sys_flag &= ~COMPRESSED
    if not needs_unwrap(sys_flag):
        return [msgspec.structs.replace(record, body=body, body_crc=0, sys_flag=sys_flag)]
    return [
        msgspec.structs.replace(
            record,
            body=entry.body,
            body_crc=0,
            sys_flag=sys_flag,
            flag=entry.flag,
            properties=entry.properties,
            queue_offset=QueueOffset(record.queue_offset + index),
        )
        for index, entry in enumerate(decode_batch(body))
        if record.queue_offset + index <= _INT64_MAX  # a queue never grows that long
    ]


def _in_bounds(
    pages: Sequence[Page],
    scanned: _Scanned,
    bodies: pa.BinaryArray | None,
    bad: tuple[BadRecord | None, ...] | None = None,
) -> Rows:
    """Only the rows that lie in their page, with the offsets of the queue that was asked."""
    columns, counts = scanned.columns, np.diff(scanned.firsts)

    def of_each_row(numbers: Iterable[int]) -> Ints:
        fitting = [min(max(number, _INT64_MIN), _INT64_MAX) for number in numbers]
        return np.array(fitting, np.int64).repeat(counts)

    delta = of_each_row(page.offset_delta for page in pages)
    inside = columns.queue_offset >= of_each_row(page.start - page.offset_delta for page in pages)
    inside &= columns.queue_offset < of_each_row(page.stop - page.offset_delta for page in pages)
    queues = tuple(dict.fromkeys(page.queue for page in pages))
    place = None
    if len(queues) > 1:
        numbers = {queue: number for number, queue in enumerate(queues)}
        place = np.array([numbers[page.queue] for page in pages]).repeat(counts)
    rows = Rows(columns, queues, place, bodies, bad)
    if not inside.all():
        rows, delta = rows.only(inside), delta[inside]
    if not delta.any():
        return rows
    queue_offset = rows.records.queue_offset + delta
    return replace(rows, records=replace(rows.records, queue_offset=queue_offset))
