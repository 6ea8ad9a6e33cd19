"""Records on their way into the log: written before their place is known, then stamped.

A broker knows three fields of a record only at the moment of appending: its queue
offset, its log offset and the time.  Everything else is encoded beforehand, in one
go, because this is the hot path of every send.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from flintmq.errors import LocalProtocolError
from flintmq.model.host import Host
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.checksum import crc32
from flintmq.protocol.properties import PROPERTIES_BYTES_MAX
from flintmq.protocol.record import (
    CRC_MASK,
    HEAD,
    HEADS,
    KEPT_MAX,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MAX,
    TOPIC_BYTES_MAX,
    V6_BITS,
    Version,
    checked_size,
    encode_topic,
    store_ms_at,
)

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_WHAT_DIFFERS = struct.Struct(">i4sI4si")
"""Size, magic, checksum, queue and flag: what stands before the queue offset."""
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")
_NOTHING = bytearray()


def draft_record(
    topic: str,
    body: bytes,
    properties: bytes,
    *,
    queue_id: int,
    born_ms: int,
    born_host: Host,
    store_host: Host,
    flag: int = 0,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
) -> bytearray:
    """A record ready to be stamped: queue offset, log offset and store time are 0.

    The checksum and the bits for IPv6 hosts are filled in here.
    """
    version, topic_field = _topic_version(topic)
    born_ip, store_ip = born_host.packed, store_host.packed
    sys_flag &= ~V6_BITS
    head = HEAD
    if len(born_ip) != 4 or len(store_ip) != 4:
        bits = BORN_HOST_V6 * born_host.is_v6 | STORE_HOST_V6 * store_host.is_v6
        sys_flag |= bits
        head = HEADS[bits]
    try:
        fixed = head.pack(
            checked_size(head.size, body, topic_field, properties),
            version,
            crc32(body) & CRC_MASK,
            queue_id,
            flag,
            0,
            0,
            sys_flag,
            born_ms,
            born_ip,
            born_host.port,
            0,
            store_ip,
            store_host.port,
            reconsume_times,
            prepared_offset,
            len(body),
        )
    except struct.error as error:
        raise LocalProtocolError(f"a field does not fit: {error}") from None
    return _NOTHING.join((fixed, body, topic_field, _SHORT.pack(len(properties)), properties))


def draft_records(
    topic: str,
    parts: Iterable[tuple[bytes, bytes, int]],
    *,
    queue_id: int,
    born_ms: int,
    born_host: Host,
    store_host: Host,
    sys_flag: int = 0,
    reconsume_times: int = 0,
) -> list[bytes]:
    """Records that differ in body, properties and flag alone, in the order given."""
    pattern = draft_record(
        topic,
        b"",
        b"",
        queue_id=queue_id,
        born_ms=born_ms,
        born_host=born_host,
        store_host=store_host,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
    )
    _, topic_field = _topic_version(topic)
    head_bytes = len(pattern) - len(topic_field) - _SHORT.size
    magic = bytes(pattern[4:8])
    queue = bytes(pattern[12:16])
    rest = bytes(pattern[20 : head_bytes - 4])
    fixed_bytes = len(pattern)
    pack = _WHAT_DIFFERS.pack
    drafts = []
    for body, properties, flag in parts:
        body_bytes, properties_bytes = len(body), len(properties)
        size_bytes = fixed_bytes + body_bytes + properties_bytes
        if size_bytes > RECORD_BYTES_MAX or properties_bytes > PROPERTIES_BYTES_MAX:
            checked_size(head_bytes, body, topic_field, properties)
        drafts.append(
            pack(size_bytes, magic, crc32(body) & CRC_MASK, queue, flag)
            + rest
            + _INT.pack(body_bytes)
            + body
            + topic_field
            + _SHORT.pack(properties_bytes)
            + properties
        )
    return drafts


def stamp_record(
    buffer: bytearray | memoryview, at: int, queue_offset: int, log_offset: int, store_ms: int
) -> None:
    """Fill in what is known only when the record at ``at`` gets its place in the log."""
    _TWO_LONGS.pack_into(buffer, at + QUEUE_OFFSET_AT, queue_offset, log_offset)
    _LONG.pack_into(buffer, store_ms_at(buffer, at), store_ms)


@lru_cache(maxsize=KEPT_MAX)
def _topic_version(topic: str) -> tuple[int, bytes]:
    """The magic and the topic field of a new record: V1 unless the topic is too long for it."""
    short = len(topic.encode("utf-8", "replace")) <= TOPIC_BYTES_MAX[Version.V1]
    version = Version.V1 if short else Version.V2
    return int(version), encode_topic(topic, version)
