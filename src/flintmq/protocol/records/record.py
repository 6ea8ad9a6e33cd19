"""One message as it is stored and as it is shipped: the same bytes in both places.

The fields and their order are in `layout`.  The magic says how wide the topic's length is (V2
exists for long retry topics).  The size counts itself and must match its parts to the byte.

Invariant: what `decode_record` accepts, `encode_record` writes again byte for byte.
That is why properties stay bytes here and the topic must be UTF-8.  Bytes that are
no record are `MalformedRecord`, and no part is copied before all sizes fit.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from flintmq.errors import LocalProtocolError, MalformedRecord
from flintmq.kernel import layout
from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import (
    HEADS,
    PROPERTIES_LENGTH,
    RECORD_BYTES_MIN,
    STORE_MS_AT,
    SYS_FLAG_AT,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V6_BITS,
    V6_BYTES_MORE,
    record_struct,
)
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Where records are read from; items of a view are single bytes."""


class Version(IntEnum):
    """How wide the length of a record's topic is.  The value is the record's magic."""

    V1 = layout.MAGIC_V1
    V2 = layout.MAGIC_V2


BLANK_MAGIC: Final = 0xCBD43194
"""Marks the filler at the end of a commit log file."""

FILLER_BYTES_MIN: Final = 8
"""A filler is its size and its magic; what follows up to its size means nothing."""

RECORD_BYTES_MAX: Final = layout.RECORD_BYTES_MAX
"""No record is larger: many times what any broker is set to take."""

TOPIC_BYTES_MAX: Final = {Version.V1: 127, Version.V2: 32_767}
"""Both lengths are read as signed."""

CRC_MASK: Final = layout.CRC_MASK

KEPT_MAX: Final = 4_096
"""Hosts cached in their other form: few of them serve many records."""

_VERSIONS = {int(version): version for version in Version}
_TOPIC_LENGTHS = {
    Version.V1: struct.Struct(">" + TOPIC_LENGTH_V1),
    Version.V2: struct.Struct(">" + TOPIC_LENGTH_V2),
}
_PROPERTIES_LENGTH = struct.Struct(">" + PROPERTIES_LENGTH)
_SIZE = record_struct("size")
_SIZE_AND_MAGIC = record_struct("size", "magic")
_SIZE_MAGIC_SYS_FLAG = record_struct("size", "magic", "sys_flag")
_STORE_MS = record_struct("store_ms", start=STORE_MS_AT)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored message.  ``body`` and ``properties`` are as stored: packed, unparsed."""

    version: Version
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: QueueOffset
    log_offset: LogOffset
    sys_flag: int
    born_ms: int
    born_host: Host
    store_ms: int
    store_host: Host
    reconsume_times: int
    prepared_offset: LogOffset
    body: bytes
    topic: str
    properties: bytes


def crc_of(body: bytes) -> int:
    """The checksum a record carries: CRC-32 without its top bit."""
    return crc32(body) & CRC_MASK


def encode_record(record: Record) -> bytes:
    """Write a record.  What the format cannot hold is a `LocalProtocolError`."""
    born, store = record.born_host, record.store_host
    bits = BORN_HOST_V6 * born.is_v6 | STORE_HOST_V6 * store.is_v6
    if record.sys_flag & V6_BITS != bits:
        raise LocalProtocolError(f"sys_flag {record.sys_flag} does not match its hosts' widths")
    topic = encode_topic(record.topic, record.version)
    head = HEADS[bits]
    size_bytes = checked_size(head.size + len(topic) + 2, record.body, record.properties)
    try:
        fixed = head.pack(
            size_bytes,
            record.version,
            record.body_crc,
            record.queue_id,
            record.flag,
            record.queue_offset,
            record.log_offset,
            record.sys_flag,
            record.born_ms,
            born.packed,
            born.port,
            record.store_ms,
            store.packed,
            store.port,
            record.reconsume_times,
            record.prepared_offset,
            len(record.body),
        )
    except struct.error as error:
        raise LocalProtocolError(f"a field does not fit: {error}") from None
    length = _PROPERTIES_LENGTH.pack(len(record.properties))
    return b"".join((fixed, record.body, topic, length, record.properties))


def decode_record(
    buffer: Buffer, position: int = 0, *, verify_crc: bool = True, zero_crc_accepted: bool = False
) -> Record:
    """Read the record at ``position``.

    ``zero_crc_accepted`` takes a checksum of 0 as "not computed": some clients write
    records so, a broker never does.
    """
    version, fields, body_at, body_stop, topic_at, topic_stop, stop = measure_record(
        buffer, position
    )
    (
        _,
        _,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        sys_flag,
        born_ms,
        born_ip,
        born_port,
        store_ms,
        store_ip,
        store_port,
        reconsume_times,
        prepared_offset,
        _,
    ) = fields
    body = bytes(buffer[body_at:body_stop])
    if (
        verify_crc
        and body_crc != crc32(body) & CRC_MASK
        and not (zero_crc_accepted and body_crc == 0)
    ):
        raise MalformedRecord(position, "the body does not match its checksum")
    try:
        topic = str(buffer[topic_at:topic_stop], "utf-8")
    except UnicodeDecodeError:
        raise MalformedRecord(position, "the topic is not UTF-8") from None
    return Record(
        version,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        log_offset,
        sys_flag,
        born_ms,
        _host(born_ip, born_port),
        store_ms,
        _host(store_ip, store_port),
        reconsume_times,
        prepared_offset,
        body,
        topic,
        bytes(buffer[topic_stop + 2 : stop]),
    )


def measure_record(
    buffer: Buffer, position: int
) -> tuple[Version, tuple[Any, ...], int, int, int, int, int]:
    """Check every size of the record at ``position``; no part is copied before.

    Returns its version, the fields before the body, where the body starts and stops,
    where the topic starts and stops, and where the record stops.
    """
    available_bytes = len(buffer) - position
    if available_bytes < RECORD_BYTES_MIN:
        raise MalformedRecord(position, f"{available_bytes} bytes are no record")
    size_bytes, magic, sys_flag = _SIZE_MAGIC_SYS_FLAG.unpack_from(buffer, position)
    version = _VERSIONS.get(magic)
    if version is None:
        raise MalformedRecord(position, f"magic {magic:#010x} starts no record")
    if not RECORD_BYTES_MIN <= size_bytes <= RECORD_BYTES_MAX:
        raise MalformedRecord(position, f"no record has {size_bytes} bytes")
    if size_bytes > available_bytes:
        raise MalformedRecord(position, f"{size_bytes} bytes announced, {available_bytes} there")
    stop = position + size_bytes
    head = HEADS[sys_flag & V6_BITS]
    topic_length = _TOPIC_LENGTHS[version]
    body_at = position + head.size
    if body_at + topic_length.size + 2 > stop:
        raise MalformedRecord(position, f"{size_bytes} bytes are too few for its fields")
    fields = head.unpack_from(buffer, position)
    body_bytes = fields[-1]
    body_stop = body_at + body_bytes
    topic_at = body_stop + topic_length.size
    if body_bytes < 0 or topic_at + 2 > stop:
        raise MalformedRecord(position, f"a body of {body_bytes} bytes does not fit")
    (topic_bytes,) = topic_length.unpack_from(buffer, body_stop)
    topic_stop = topic_at + topic_bytes
    if topic_bytes < 0 or topic_stop + 2 > stop:
        raise MalformedRecord(position, f"a topic of {topic_bytes} bytes does not fit")
    (properties_bytes,) = _PROPERTIES_LENGTH.unpack_from(buffer, topic_stop)
    if topic_stop + 2 + properties_bytes != stop:
        raise MalformedRecord(position, f"{properties_bytes} bytes of properties miss its end")
    return version, fields, body_at, body_stop, topic_at, topic_stop, stop


def record_size(buffer: Buffer, at: int) -> int:
    """The size a record or filler says it has.  Unchecked."""
    size_bytes: int = _SIZE.unpack_from(buffer, at)[0]
    return size_bytes


def store_time_ms(buffer: Buffer, at: int) -> int:
    """When the record at ``at`` was stored.  The caller knows that a whole record is there."""
    born_v6 = buffer[at + SYS_FLAG_AT + 3] & BORN_HOST_V6
    time_at = at + STORE_MS_AT + (V6_BYTES_MORE if born_v6 else 0)
    store_ms: int = _STORE_MS.unpack_from(buffer, time_at)[0]
    return store_ms


def encode_filler(size_bytes: int) -> bytes:
    """The start of a filler that takes the last ``size_bytes`` of a file."""
    assert FILLER_BYTES_MIN <= size_bytes < 2**31, size_bytes
    return _SIZE_AND_MAGIC.pack(size_bytes, BLANK_MAGIC)


def is_filler(buffer: Buffer, at: int) -> bool:
    if len(buffer) - at < FILLER_BYTES_MIN:
        return False
    size_bytes, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    return bool(magic == BLANK_MAGIC and size_bytes >= FILLER_BYTES_MIN)


def is_partial(buffer: Buffer, at: int) -> bool:
    """Whether the bytes at ``at`` may be the start of a record whose rest is missing."""
    rest_bytes = len(buffer) - at
    if rest_bytes < FILLER_BYTES_MIN:
        return True
    size_bytes, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    return magic in _VERSIONS and rest_bytes < size_bytes <= RECORD_BYTES_MAX


def checked_size(fixed_bytes: int, body: bytes, properties: bytes) -> int:
    """The size of a record with these parts, if there may be such a record."""
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(f"properties of {len(properties)} bytes do not fit a record")
    size_bytes = fixed_bytes + len(body) + len(properties)
    if size_bytes > RECORD_BYTES_MAX:
        raise LocalProtocolError(f"a record of {size_bytes} bytes is over {RECORD_BYTES_MAX}")
    return size_bytes


def encode_topic(topic: str, version: Version) -> bytes:
    """A topic and its length before it."""
    try:
        octets = topic.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the topic is no Unicode text: {error.reason}") from None
    if len(octets) > TOPIC_BYTES_MAX[version]:
        raise LocalProtocolError(f"a topic of {len(octets)} bytes does not fit {version.name}")
    return _TOPIC_LENGTHS[version].pack(len(octets)) + octets


@lru_cache(maxsize=KEPT_MAX)
def _host(packed: bytes, port: int) -> Host:
    return Host(packed, port)
