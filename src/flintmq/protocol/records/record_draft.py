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
from flintmq.protocol.records.record import (
    CRC_MASK,
    HEAD,
    HEADS,
    KEPT_MAX,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    TOPIC_BYTES_MAX,
    V6_BITS,
    Version,
    checked_size,
    encode_topic,
    store_ms_at,
)

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")
_NOTHING = bytearray()
_BORN_HOST_AT = 48


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


class RecordPattern:
    """What the records of one queue that came the same way have in common.

    A record of it is written at once, with its place, by whoever knows the place already.
    """

    __slots__ = (
        "_flag",
        "_magic",
        "_pack",
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
        body_at = len(draft) - len(self._topic_field) - _SHORT.size
        born_bytes = len(born_host.packed) + _INT.size
        store_at = _BORN_HOST_AT + born_bytes + _LONG.size
        self.topic = topic
        self.queue = topic, queue_id
        self.fixed_bytes = len(draft)
        """The size of a record with neither body nor properties."""
        self._magic = draft[4:8]
        self._queue = draft[12:16]
        self._flag = flag
        self._sys_flag = draft[SYS_FLAG_AT : SYS_FLAG_AT + 4]
        self._store_host = draft[store_at : body_at - 4]  # and all up to the size of the body
        self._pack = struct.Struct(f">i4sI4siqq4sq{born_bytes}sq{len(self._store_host)}si").pack
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
                _LONG.pack(born_ms),
                born_host,
                _LONG.pack(store_ms),
                self._store_host,
            )
        )
        bodies, properties, flags = parts
        bodies_bytes = list(map(len, bodies))
        fixed_bytes, common_bytes = self.fixed_bytes, len(common)
        all_bytes = [len(own) + common_bytes for own in properties]
        tails = {size_bytes: self._tail(size_bytes) for size_bytes in set(all_bytes)}
        heads = map(
            _heads_alike(len(alike)).pack,
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
            tail = self._topic_field + _SHORT.pack(properties_bytes)
            self._tails[properties_bytes] = tail
        return tail


def packed_host(host: Host) -> bytes:
    """A host as it stands in a record."""
    return host.packed + _INT.pack(host.port)


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


@lru_cache(maxsize=len(HEADS))
def _heads_alike(alike_bytes: int) -> struct.Struct:
    """The fixed fields of records that share ``alike_bytes`` from the system flag on."""
    return struct.Struct(f">i4sI4siqq{alike_bytes}si")
