"""Writes the records of a log: the one way from the parts of a message to its bytes.

Records of one queue that came the same way differ in body, properties, times and offsets only.  All
else is encoded once, in a `RecordPattern`, because this is the hot path of every send.  A
record is written when its offsets in log and queue are known.

Invariant: a record has, byte for byte, what `encode_record` writes of the same fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, count, repeat

from flintmq.errors import LocalProtocolError
from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import (
    FIELDS,
    HEADS,
    PROPERTIES_LENGTH,
    V6_BITS,
    Raw,
    field_format,
    field_span,
    record_struct,
)
from flintmq.model.host import Host
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6, TRANSACTION_MASK
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.record import (
    CRC_MASK,
    TOPIC_BYTES_MAX,
    Version,
    checked_size,
    encode_topic,
)

_PROPERTIES_LENGTH = struct.Struct(">" + PROPERTIES_LENGTH)
_PORT = struct.Struct(">" + field_format("born_port"))
_TIME = struct.Struct(">" + field_format("store_ms"))
_INT = struct.Struct(">" + field_format("flag"))

TAILS_MAX = 256
"""Sizes of properties for which a pattern keeps topic and size together; some 100 bytes each."""

PATTERNS_MAX = 1_024
"""Patterns kept by `pattern_of`."""

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


class RecordPattern:
    """What the records of one queue that came the same way have in common.

    It fills in the checksum and the bits for IPv6 hosts.  What the format cannot hold is a
    `LocalProtocolError`.
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
        "transaction_type",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        *,
        store_host: Host,
        born_is_v6: bool = False,
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
    ) -> None:
        bits = BORN_HOST_V6 * born_is_v6 | STORE_HOST_V6 * store_host.is_v6
        is_long = len(topic.encode("utf-8", "replace")) > TOPIC_BYTES_MAX[Version.V1]
        version = Version.V2 if is_long else Version.V1
        fields = dict.fromkeys(FIELDS, 0) | {
            "magic": version,
            "queue_id": queue_id,
            "flag": flag,
            "sys_flag": sys_flag & ~V6_BITS | bits,
            "reconsume_times": reconsume_times,
            "prepared_offset": prepared_offset,
            "store_port": store_host.port,
        }
        addresses = {"born_ip": b"", "store_ip": store_host.packed}
        try:
            head = HEADS[bits].pack(*(fields | addresses).values())
        except struct.error as error:
            raise LocalProtocolError(f"a field does not fit: {error}") from None

        def encoded(first: str, last: str) -> bytes:
            return head[field_span(first, bits)[0] : field_span(last, bits)[1]]

        self._topic_field = encode_topic(topic, version)
        self.topic = topic
        self.queue = topic, queue_id
        self.transaction_type = sys_flag & TRANSACTION_MASK
        self.fixed_bytes = len(head) + len(self._topic_field) + _PROPERTIES_LENGTH.size
        """The size of a record with neither body nor properties."""
        self._magic = encoded("magic", "magic")
        self._queue = encoded("queue_id", "queue_id")
        self._flag = flag
        self._sys_flag = encoded("sys_flag", "sys_flag")
        self._store_host = encoded("store_ip", "prepared_offset")  # and all up to the body's size
        self._pack = _PATTERNS[bits].pack
        self._pack_of_batch = _BATCH_PATTERNS[bits].pack
        self._tails: dict[int, bytes] = {}  # topic and size, by size of the properties

    def checked_size(self, body: bytes, properties: bytes, born_ms: int) -> int:
        """The size of a record with these parts, if there may be such a record."""
        if not -(2**63) <= born_ms < 2**63:
            raise LocalProtocolError(f"a field does not fit: born time {born_ms}")
        return checked_size(self.fixed_bytes, body, properties)

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
        """A whole record.  ``born_host`` is address and port as they stand in it (`packed_host`).

        The caller knows its `checked_size`, or has checked as much.
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

    def pieces(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """Magic, queue id and flag, system flag, what follows the time of storage, topic."""
        queue_and_flag = self._queue + _INT.pack(self._flag)
        return self._magic, queue_and_flag, self._sys_flag, self._store_host, self._topic_field

    def _tail(self, properties_bytes: int) -> bytes:
        tail = self._tails.get(properties_bytes)
        if tail is None:
            if len(self._tails) == TAILS_MAX:
                self._tails.clear()
            tail = self._topic_field + _PROPERTIES_LENGTH.pack(properties_bytes)
            self._tails[properties_bytes] = tail
        return tail


def packed_host(host: Host) -> bytes:
    """A host as it stands in a record."""
    return host.packed + _PORT.pack(host.port)


@lru_cache(maxsize=PATTERNS_MAX)
def pattern_of(
    topic: str,
    queue_id: int,
    born_is_v6: bool,
    store_ip: bytes,
    store_port: int,
    flag: int,
    sys_flag: int,
    reconsume_times: int,
) -> RecordPattern:
    """The pattern of records that are no part of a transaction; few of them serve many records."""
    return RecordPattern(
        topic,
        queue_id,
        store_host=Host(store_ip, store_port),
        born_is_v6=born_is_v6,
        flag=flag,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
    )
