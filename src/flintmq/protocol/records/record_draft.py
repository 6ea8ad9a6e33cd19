"""Records on their way into the log: written before their place is known, then stamped.

A broker knows three fields of a record only at the moment of appending: its queue
offset, its log offset and the time.  Everything else is encoded beforehand, in one
go, because this is the hot path of every send.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, count, repeat

from flintmq.errors import LocalProtocolError
from flintmq.model.host import Host
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.checksum import crc32
from flintmq.protocol.records.layout import (
    HEAD,
    HEADS,
    PROPERTIES_LENGTH,
    QUEUE_OFFSET_AT,
    V6_BITS,
    Raw,
    field_format,
    field_span,
    record_struct,
)
from flintmq.protocol.records.record import (
    CRC_MASK,
    KEPT_MAX,
    TOPIC_BYTES_MAX,
    Version,
    checked_size,
    encode_topic,
    store_ms_at,
)

_PROPERTIES_LENGTH = struct.Struct(">" + PROPERTIES_LENGTH)
_PORT = struct.Struct(">" + field_format("born_port"))
_TIME = struct.Struct(">" + field_format("store_ms"))
_QUEUE_AND_LOG_OFFSET = record_struct("queue_offset", "log_offset", start=QUEUE_OFFSET_AT)
_NOTHING = bytearray()

_UP_TO_SYS_FLAG = (
    "size",
    Raw("magic", "magic"),
    "body_crc",
    Raw("queue_id", "queue_id"),
    "flag",
    "queue_offset",
    "log_offset",
)
"""The fields of a `RecordPattern` before the system flag; what never changes is bytes."""

_PATTERNS = {
    bits: record_struct(
        *_UP_TO_SYS_FLAG,
        Raw("sys_flag", "sys_flag"),
        "born_ms",
        Raw("born_ip", "born_port"),
        "store_ms",
        Raw("store_ip", "prepared_offset"),
        "body_length",
        bits=bits,
    )
    for bits in HEADS
}
_BATCH_PATTERNS = {
    bits: record_struct(
        *_UP_TO_SYS_FLAG, Raw("sys_flag", "prepared_offset"), "body_length", bits=bits
    )
    for bits in HEADS
}
"""Patterns of records of one batch, which share all from the system flag to the body's size."""


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
    length = _PROPERTIES_LENGTH.pack(len(properties))
    return _NOTHING.join((fixed, body, topic_field, length, properties))


class RecordPattern:
    """What the records of one queue that came the same way have in common.

    A record of it is written at once, with its place, by whoever knows the place already.
    """

    __slots__ = (
        "_flag",
        "_magic",
        "_pack",
        "_pack_of_batch",
        "_queue",
        "_store_host",
        "_sys_flag",
        "_tails",
        "_topic_field",
        "fixed_bytes",
        "queue",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        *,
        queue_id: int,
        born_host: Host,
        store_host: Host,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
    ) -> None:
        """Of ``born_host`` only the kind of address counts."""
        draft = bytes(
            draft_record(
                topic,
                b"",
                b"",
                queue_id=queue_id,
                born_ms=0,
                born_host=born_host,
                store_host=store_host,
                flag=flag,
                sys_flag=sys_flag,
                reconsume_times=reconsume_times,
            )
        )
        _, self._topic_field = _topic_version(topic)
        bits = BORN_HOST_V6 * born_host.is_v6 | STORE_HOST_V6 * store_host.is_v6

        def encoded(first: str, last: str) -> bytes:
            return draft[field_span(first, bits)[0] : field_span(last, bits)[1]]

        self.topic = topic
        self.queue = topic, queue_id
        self.fixed_bytes = len(draft)
        """The size of a record with neither body nor properties."""
        self._magic = encoded("magic", "magic")
        self._queue = encoded("queue_id", "queue_id")
        self._flag = flag
        self._sys_flag = encoded("sys_flag", "sys_flag")
        self._store_host = encoded("store_ip", "prepared_offset")  # and all up to the body's size
        self._pack = _PATTERNS[bits].pack
        self._pack_of_batch = _BATCH_PATTERNS[bits].pack
        self._tails: dict[int, bytes] = {}  # topic and size, by size of the properties

    def record(
        self,
        body: bytes,
        properties: bytes,
        born_ms: int,
        born_host: bytes,
        queue_offset: int,
        log_offset: int,
        store_ms: int,
    ) -> bytes:
        """A whole record.  ``born_host`` is address and port as they stand in it.

        The caller knows that its size and that of its properties may be.
        """
        body_bytes, properties_bytes = len(body), len(properties)
        tail = self._tails.get(properties_bytes)
        if tail is None:
            tail = self._tail(properties_bytes)
        head = self._pack(
            self.fixed_bytes + body_bytes + properties_bytes,
            self._magic,
            crc32(body) & CRC_MASK,
            self._queue,
            self._flag,
            queue_offset,
            log_offset,
            self._sys_flag,
            born_ms,
            born_host,
            store_ms,
            self._store_host,
            body_bytes,
        )
        return b"".join((head, body, tail, properties))

    def records(
        self,
        parts: BatchColumns,
        common: bytes,
        born_ms: int,
        born_host: bytes,
        queue_offset: int,
        log_offsets: Iterable[int],
        store_ms: int,
    ) -> bytes:
        """Records one after the other, of these places in the log.

        ``common`` stands behind the properties of every one.
        """
        alike = b"".join(  # from the system flag to the size of the body
            (
                self._sys_flag,
                _TIME.pack(born_ms),
                born_host,
                _TIME.pack(store_ms),
                self._store_host,
            )
        )
        bodies, properties, flags = parts
        bodies_bytes = list(map(len, bodies))
        fixed_bytes, common_bytes = self.fixed_bytes, len(common)
        all_bytes = [len(own) + common_bytes for own in properties]
        tails = {size_bytes: self._tail(size_bytes) for size_bytes in set(all_bytes)}
        heads = map(
            self._pack_of_batch,
            [fixed_bytes + one + two for one, two in zip(bodies_bytes, all_bytes, strict=True)],
            repeat(self._magic),
            map(CRC_MASK.__and__, map(crc32, bodies)),
            repeat(self._queue),
            flags,
            count(queue_offset),
            log_offsets,
            repeat(alike),
            bodies_bytes,
        )
        rows = zip(heads, bodies, map(tails.__getitem__, all_bytes), properties, repeat(common))
        return b"".join(chain.from_iterable(rows))

    def _tail(self, properties_bytes: int) -> bytes:
        tail = self._tails.get(properties_bytes)
        if tail is None:
            if len(self._tails) == KEPT_MAX:
                self._tails.clear()
            tail = self._topic_field + _PROPERTIES_LENGTH.pack(properties_bytes)
            self._tails[properties_bytes] = tail
        return tail


def packed_host(host: Host) -> bytes:
    """A host as it stands in a record."""
    return host.packed + _PORT.pack(host.port)


def stamp_record(
    buffer: bytearray | memoryview, at: int, queue_offset: int, log_offset: int, store_ms: int
) -> None:
    """Fill in what is known only when the record at ``at`` gets its place in the log."""
    _QUEUE_AND_LOG_OFFSET.pack_into(buffer, at + QUEUE_OFFSET_AT, queue_offset, log_offset)
    _TIME.pack_into(buffer, store_ms_at(buffer, at), store_ms)


@lru_cache(maxsize=KEPT_MAX)
def _topic_version(topic: str) -> tuple[int, bytes]:
    """The magic and the topic field of a new record: V1 unless the topic is too long for it."""
    short = len(topic.encode("utf-8", "replace")) <= TOPIC_BYTES_MAX[Version.V1]
    version = Version.V1 if short else Version.V2
    return int(version), encode_topic(topic, version)
