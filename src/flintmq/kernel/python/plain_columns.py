"""Records as the buffers of Arrow columns, for pages in which all records are plain.

A record is plain as in `plain_records`.  Pages with any other record are left to the caller, as a
whole: what is wrong with a page is said of all of it.

Buffers are what Arrow wants: numbers and offsets little-endian, one bit a row for what is there.

This loop is the specification.  Without the compiled kernel `flintmq.arrow.columns` reads pages
with numpy, which is quicker than a loop in plain Python, and gives the same.

Invariant: rows are the records that lie in their page, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from struct import pack
from typing import Final, NamedTuple, TypeAlias

from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import (
    BODY_AT,
    CRC_MASK,
    HEAD,
    MAGIC_V1,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MAX,
    RECORD_BYTES_MIN,
)
from flintmq.kernel.python.plain_records import NOT_PLAIN

RawPage: TypeAlias = tuple[bytes, int, int, int]
"""Records, the offsets from which and before which they have rows, and what is added to them."""

Part: TypeAlias = tuple[bytes | None, bytes, bytes]
"""The buffers of a column of bytes: validity where something is missing, offsets, values."""

LaidColumns: TypeAlias = tuple[list[int], list[bytes], list[Part]]
"""The rows of each page; the fields that are numbers; and what is bytes: the properties in the
order of their names, then bodies, then property strings."""

VALUES_BYTES_MAX: Final = 2**31 - 1
"""Offsets are 32 bits wide."""

_NAME_END, _SEPARATOR = b"\x01", b"\x02"


class ColumnWishes(NamedTuple):
    """Which columns are made.

    ``numbers`` are fields by their place in a record and their width, ``names`` are properties.
    """

    numbers: tuple[tuple[int, int], ...]
    names: tuple[bytes, ...]
    body: bool
    strings: bool
    verify_crc: bool


class _Row(NamedTuple):
    octets: bytes
    queue_offset: int
    body: bytes
    properties: bytes


class _NotPlain(Exception):
    """A record is left to the caller."""


def lay_out_columns(pages: list[RawPage], wishes: ColumnWishes) -> LaidColumns | None:
    """The columns of some pages; None where a record is not plain."""
    rows: list[_Row] = []
    counts: list[int] = []
    try:
        for octets, first, stop, delta in pages:
            before = len(rows)
            rows += [
                row._replace(queue_offset=_wrapped(row.queue_offset + delta))
                for row in _plain_rows(octets, verify_crc=wishes.verify_crc)
                if first <= row.queue_offset < stop
            ]
            counts.append(len(rows) - before)
        numbers = [_numbers(rows, at, width) for at, width in wishes.numbers]
        found = [_values(row.properties, wishes.names) for row in rows]
        parts = [_part([values[n] for values in found]) for n in range(len(wishes.names))]
        if wishes.body:
            parts.append(_part([row.body for row in rows]))
        if wishes.strings:
            parts.append(_part([row.properties for row in rows]))
    except _NotPlain:
        return None
    return counts, numbers, parts


def _plain_rows(buffer: bytes, *, verify_crc: bool) -> Iterator[_Row]:
    at = 0
    while at < len(buffer):
        if len(buffer) - at < RECORD_BYTES_MIN:
            raise _NotPlain
        size_bytes, magic, crc, _, _, queue_offset, _, sys_flag, *_, body_bytes = HEAD.unpack_from(
            buffer, at
        )
        body_at = at + BODY_AT
        body_stop, stop = body_at + body_bytes, at + size_bytes
        if magic != MAGIC_V1 or sys_flag & NOT_PLAIN or stop > len(buffer):
            raise _NotPlain
        if body_bytes < 0 or size_bytes > RECORD_BYTES_MAX or body_stop + 3 > stop:
            raise _NotPlain
        topic_stop = body_stop + 1 + buffer[body_stop]
        properties_at = topic_stop + 2
        if buffer[body_stop] >= 128 or properties_at > stop:
            raise _NotPlain
        length = int.from_bytes(buffer[topic_stop:properties_at], "big", signed=True)
        if length != stop - properties_at or not _is_text(buffer[body_stop + 1 : topic_stop]):
            raise _NotPlain
        body = buffer[body_at:body_stop]
        if verify_crc and crc and crc != crc32(body) & CRC_MASK:
            raise _NotPlain
        yield _Row(buffer[at:stop], queue_offset, body, buffer[properties_at:stop])
        at = stop


def _numbers(rows: list[_Row], at: int, width: int) -> bytes:
    if at == QUEUE_OFFSET_AT:
        return pack(f"<{len(rows)}q", *(row.queue_offset for row in rows))
    return b"".join(row.octets[at : at + width][::-1] for row in rows)


def _values(properties: bytes, names: tuple[bytes, ...]) -> list[bytes | None]:
    """The value of each name; of equal names the last one with a value counts."""
    found: dict[bytes, bytes] = {}
    for piece in properties.split(_SEPARATOR):
        name, _, value = piece.partition(_NAME_END)
        if value:
            found[name] = value
    return [found.get(name) for name in names]


def _part(values: list[bytes | None] | list[bytes]) -> Part:
    offsets = [0, *accumulate(len(value or b"") for value in values)]
    if offsets[-1] > VALUES_BYTES_MAX:
        raise _NotPlain
    validity = None
    if None in values:
        bits = sum(1 << n for n, value in enumerate(values) if value is not None)
        validity = bits.to_bytes(-(-len(values) // 8), "little")
    octets = b"".join(value for value in values if value is not None)
    return validity, pack(f"<{len(offsets)}i", *offsets), octets


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _wrapped(number: int) -> int:
    """A number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63
