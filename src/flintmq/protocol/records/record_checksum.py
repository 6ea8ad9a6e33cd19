"""The checksum over a whole record: RocketMQ 5's property ``__CRC32#``, the last one of a record.

A record's own checksum covers its body alone.  This one covers every byte before it, so that a flip
in a header, a topic or a property is found too:

    size … topic · properties length · properties 0x02 │ __CRC32# 0x01 ten digits 0x02
    └────────────── covered ───────────────────────────┘

The number is CRC-32 without its top bit, and its digits stand in reverse, the last one first, with
zeros behind.  A separator that is missing before it is added.

It counts where it stands: as the last property.  One inside the string is a copy of another
record's, which a client or a broker without the setting carried along, and says nothing.  RocketMQ
never leaves such a copy at the end, since its own marks come after it.  What is written here with
the setting off and would look like a checksum gets one more separator.

A flip may hit the property itself, so up to `FLIPPED_MAX` of the bytes that are always the same may
be others, but not both of ``#`` and the 0x01 behind it.

Invariant: a record that a broker stores ends with its own checksum or with nothing like one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from flintmq.kernel.checksum import crc32
from flintmq.model.message import PROPERTY_SEPARATOR
from flintmq.model.properties import CRC32
from flintmq.protocol.records.record import CRC_MASK, Buffer
from flintmq.protocol.records.record_scan import RecordColumns, windows

if TYPE_CHECKING:
    import numpy.typing as npt

DIGITS: Final = 10
_NAME: Final = CRC32.encode()
_START: Final = _NAME + b"\x01"
_SEPARATOR: Final = PROPERTY_SEPARATOR.encode()
CHECKSUM_BYTES: Final = len(_START) + DIGITS + len(_SEPARATOR)
"""What the property takes in every record that has it: 20 bytes."""

FLIPPED_MAX: Final = 2
"""Of the ten bytes around the digits; no other property comes so near by chance."""

_ALIKE: Final = (*enumerate(_START), (CHECKSUM_BYTES - 1, _SEPARATOR[0]))
"""Where which bytes stand in every such property."""

ROOM: Final = bytes(CHECKSUM_BYTES)
"""Stands at the end of the properties until all before it is known."""


def _without_checksum(properties: bytes) -> bytes:
    """Properties as they came, without a checksum that is another record's."""
    if _NAME not in properties:
        return properties
    pieces = properties.split(_SEPARATOR)
    return _SEPARATOR.join(piece for piece in pieces if not piece.startswith(_START))


def with_room(properties: bytes) -> bytes:
    """Properties that end with room for a checksum."""
    properties = _without_checksum(properties)
    is_open = bool(properties) and not properties.endswith(_SEPARATOR)
    return properties + _SEPARATOR + ROOM if is_open else properties + ROOM


def checksummed(record: bytes) -> bytes:
    """A record that was written `with_room`, with its checksum."""
    covered = record[:-CHECKSUM_BYTES]
    return covered + _property(crc32(covered))


def checksummed_all(records: bytes, sizes: Iterable[int]) -> bytes:
    """Records of these sizes, one after the other, each with its checksum."""
    written = bytearray(records)
    view, at = memoryview(records), 0
    for size_bytes in sizes:
        stop = at + size_bytes - CHECKSUM_BYTES
        written[stop : stop + CHECKSUM_BYTES] = _property(crc32(view[at:stop]))
        at += size_bytes
    return bytes(written)


def looks_checksummed(octets: Buffer) -> bool:
    """Whether properties, or a record, end with a checksum, be it a wrong one."""
    if len(octets) < CHECKSUM_BYTES or (octets[-12] != 0x01 and octets[-13] != 0x23):
        return False  # mostly, and quickly: this is asked of many records
    tail = bytes(octets[-CHECKSUM_BYTES:])
    return sum(tail[at] == octet for at, octet in _ALIKE) >= len(_ALIKE) - FLIPPED_MAX


def unlike_checksummed(properties: bytes) -> bytes:
    """Properties of a record without a checksum, so that they do not look as if they had one."""
    return properties + _SEPARATOR if looks_checksummed(properties) else properties


def has_wrong_checksum(octets: Buffer) -> bool:
    """Whether a record has a checksum, and one that does not fit.

    The caller knows that ``octets`` are one whole record.
    """
    if not looks_checksummed(octets):
        return False
    covered = memoryview(octets)[:-CHECKSUM_BYTES]
    return bytes(octets[-CHECKSUM_BYTES:]) != _property(crc32(covered))


def wrong_checksums(columns: RecordColumns) -> npt.NDArray[np.bool_]:
    """`has_wrong_checksum` of many records."""
    found = np.zeros(len(columns), np.bool_)
    long_enough = np.flatnonzero(columns.properties_length >= CHECKSUM_BYTES)
    if not len(long_enough):
        return found
    stops = columns.start[long_enough] + columns.size_bytes[long_enough]
    tails = windows(columns.buffer, CHECKSUM_BYTES)[stops - CHECKSUM_BYTES]
    octets = tails.view(np.uint8).reshape(-1, CHECKSUM_BYTES)
    places, expected = zip(*_ALIKE, strict=True)
    same = (octets[:, places] == np.array(expected, np.uint8)).sum(axis=1)
    view = memoryview(columns.buffer)
    for row in long_enough[same >= len(_ALIKE) - FLIPPED_MAX].tolist():
        start = int(columns.start[row])
        found[row] = has_wrong_checksum(view[start : start + int(columns.size_bytes[row])])
    return found


def _property(checksum: int) -> bytes:
    return _START + (b"%0*d" % (DIGITS, checksum & CRC_MASK))[::-1] + _SEPARATOR
