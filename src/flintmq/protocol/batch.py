"""Several messages in one body: what code 320 sends, and what an inner batch record holds.

    size 4 · magic 4 (0) · body crc 4 (0) · flag 4 · body length 4 · body
    properties length 2 · properties            … and the next entry

An entry has no topic, queue or time: the request or the record around it has them.
Magic and checksum are written as 0 and not looked at.  A body that is empty, or that
its entries do not fill to the byte, is `MalformedBody`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from flintmq.errors import LocalProtocolError, MalformedBody
from flintmq.protocol.properties import PROPERTIES_BYTES_MAX

BATCH_ENTRIES_MAX: Final = 262_144
"""More entries than a body of 4 MiB, the largest a broker takes by default, can hold."""

_HEAD = struct.Struct(">iIIii")
_SHORT = struct.Struct(">h")
_ENTRY_BYTES_MIN = _HEAD.size + _SHORT.size


class BatchEntry(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch.  ``properties`` is the unparsed string."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Write a batch.  What the format cannot hold is a `LocalProtocolError`."""
    parts: list[bytes] = []
    for entry in entries:
        body, properties = entry.body, entry.properties
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise LocalProtocolError(f"properties of {len(properties)} bytes do not fit a batch")
        size_bytes = _ENTRY_BYTES_MIN + len(body) + len(properties)
        try:
            parts.append(_HEAD.pack(size_bytes, 0, 0, entry.flag, len(body)))
        except struct.error as error:
            raise LocalProtocolError(f"a field does not fit: {error}") from None
        parts += (body, _SHORT.pack(len(properties)), properties)
    if not parts:
        raise LocalProtocolError("a batch needs a message")
    return b"".join(parts)


def decode_batch(body: bytes | memoryview) -> list[BatchEntry]:
    """Read a batch."""
    entries: list[BatchEntry] = []
    at = 0
    while at < len(body):
        if len(entries) == BATCH_ENTRIES_MAX:
            raise MalformedBody("batch", f"more than {BATCH_ENTRIES_MAX} messages")
        entry, at = _decode_entry(body, at)
        entries.append(entry)
    if not entries:
        raise MalformedBody("batch", "it is empty")
    return entries


def _decode_entry(body: bytes | memoryview, at: int) -> tuple[BatchEntry, int]:
    if len(body) - at < _ENTRY_BYTES_MIN:
        raise MalformedBody("batch", f"{len(body) - at} bytes at byte {at} are no message")
    size_bytes, _, _, flag, body_bytes = _HEAD.unpack_from(body, at)
    stop = at + size_bytes
    body_at = at + _HEAD.size
    properties_at = body_at + body_bytes + _SHORT.size
    if body_bytes < 0 or not properties_at <= stop <= len(body):
        raise MalformedBody("batch", f"the message at byte {at} does not fit")
    (properties_bytes,) = _SHORT.unpack_from(body, properties_at - _SHORT.size)
    if properties_at + properties_bytes != stop:
        raise MalformedBody("batch", f"the properties at byte {properties_at} do not fit")
    entry = BatchEntry(
        bytes(body[body_at : body_at + body_bytes]), bytes(body[properties_at:stop]), flag
    )
    return entry, stop
