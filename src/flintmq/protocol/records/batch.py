"""Several messages in one body: what code 320 sends, and what an inner batch record holds.

    size 4 · magic 4 (0) · body crc 4 (0) · flag 4 · body length 4 · body
    properties length 2 · properties            … and the next entry

An entry has no topic, queue or time: the request or the record around it has them.
Magic and checksum are written as 0 and not looked at.  A body that is empty, or that
its entries do not fill to the byte, is `MalformedBody`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from flintmq.errors import LocalProtocolError, MalformedBody
from flintmq.kernel.python.batches import ENTRIES_MAX, split_entries
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX

BATCH_ENTRIES_MAX: Final = ENTRIES_MAX
"""More entries than a body of 4 MiB, the largest a broker takes by default, can hold."""

_HEAD = struct.Struct(">iIIii")
_SHORT = struct.Struct(">h")
_HEAD_BYTES, _SHORT_BYTES = _HEAD.size, _SHORT.size
_ENTRY_BYTES_MIN = _HEAD_BYTES + _SHORT_BYTES
_unpack_head = struct.Struct(">i8xii").unpack_from  # all of the head that counts
_unpack_short = _SHORT.unpack_from


class BatchEntry(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch.  ``properties`` is the unparsed string."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


class BatchColumns(NamedTuple):
    """All messages of a batch: their bodies, their properties, their flags."""

    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    flags: Sequence[int]


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Write a batch.  What the format cannot hold is a `LocalProtocolError`."""
    return join_batch((entry.body, entry.properties, entry.flag) for entry in entries)


def join_batch(entries: Iterable[tuple[bytes, bytes, int]]) -> bytes:
    """Write a batch from bodies, properties and flags, without an object for each message."""
    parts: list[bytes] = []
    shape, head, middle = (0, 0, 0), b"", b""  # of the one before: most are as large
    for body, properties, flag in entries:
        own = len(body), len(properties), flag
        if own != shape or not head:
            head, middle = _sizes(*own)
            shape = own
        parts += (head, body, middle, properties)
    if not parts:
        raise LocalProtocolError("a batch needs a message")
    return b"".join(parts)


def _sizes(body_bytes: int, properties_bytes: int, flag: int) -> tuple[bytes, bytes]:
    """What stands before a body and behind it."""
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(f"properties of {properties_bytes} bytes do not fit a batch")
    size_bytes = _ENTRY_BYTES_MIN + body_bytes + properties_bytes
    try:
        head = _HEAD.pack(size_bytes, 0, 0, flag, body_bytes)
    except struct.error as error:
        raise LocalProtocolError(f"a field does not fit: {error}") from None
    return head, _SHORT.pack(properties_bytes)


def decode_batch(body: bytes | memoryview) -> list[BatchEntry]:
    """Read a batch."""
    return list(map(BatchEntry, *split_batch(bytes(body))))


def split_batch(body: bytes) -> BatchColumns:
    """Read a batch as columns, without an object for each message: the broker's hot path."""
    whole = split_entries(body)
    if whole is not None:
        return BatchColumns(*whole)
    raise _fault(body)


def _fault(body: bytes) -> MalformedBody:
    """What is wrong with a batch that cannot be split."""
    at, end, count = 0, len(body), 0
    while at < end:
        if end - at < _ENTRY_BYTES_MIN:
            return MalformedBody("batch", f"{end - at} bytes at byte {at} are no message")
        size_bytes, _, body_bytes = _unpack_head(body, at)
        body_stop = at + _HEAD_BYTES + body_bytes
        properties_at = body_stop + _SHORT_BYTES
        stop = at + size_bytes
        if body_bytes < 0 or not properties_at <= stop <= end:
            return MalformedBody("batch", f"the message at byte {at} does not fit")
        if properties_at + _unpack_short(body, body_stop)[0] != stop:
            return MalformedBody("batch", f"the properties at byte {properties_at} do not fit")
        at = stop
        count += 1
    if not count:
        return MalformedBody("batch", "it is empty")
    return MalformedBody("batch", f"more than {BATCH_ENTRIES_MAX} messages")
