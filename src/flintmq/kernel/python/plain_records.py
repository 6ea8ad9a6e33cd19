"""Records as messages for a consumer: runs of plain ones, in one loop.

Nearly all records are plain: first version, IPv4, not packed, no batch.  What else is met is left
to the caller, who decodes it record by record.

Records of one page mostly are alike: of one size, with bodies of one size and the same topic.  They
are read by columns (`_read_alike`), in half the time of the loop that follows them.

Invariant: a message is given for exactly the records a caller would decode one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Any, Final, NamedTuple, TypeVar

from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import (
    CRC_MASK,
    HEAD,
    MAGIC_V1,
    PROPERTIES_LENGTH,
    RECORD_BYTES_MAX,
    RECORD_BYTES_MIN,
    V6_BITS,
)
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage
from flintmq.model.sys_flag import COMPRESSED, NEED_UNWRAP

KEPT_MAX: Final = 4_096
"""Hosts and topics cached in their other form: few of them serve many records."""

SHAPES_MAX: Final = 256
"""Shapes of alike records for which the way to read them is cached."""

ALIKE_MIN: Final = 8
"""Records looked at together at first; with fewer, columns cost more than they save."""

ALIKE_MAX: Final = 1_024
"""Records looked at together at most: as many as one page has."""

NOT_PLAIN: Final = int(COMPRESSED | NEED_UNWRAP | V6_BITS)

_HEAD = Struct(HEAD.format.replace("4si", "8s"))  # hosts in one piece, address and port
_HEAD_BYTES = _HEAD.size
_unpack_head = _HEAD.unpack_from
_unpack_short = Struct(">" + PROPERTIES_LENGTH).unpack_from
_new = tuple.__new__  # half the time of calling the class

M = TypeVar("M")


class Wishes(NamedTuple):
    """What the messages of one answer have in common.

    ``later`` makes the properties of a message from their bytes and ``memo``.  Without a
    ``queue_id`` a record's own counts.
    """

    broker: str
    queue_id: int | None
    offset_delta: int
    later: Callable[[bytes, Any], Any]
    memo: object


class Hosts(dict[bytes, Host]):
    """Hosts by how records have them, address and port."""

    def __missing__(self, field: bytes) -> Host:
        if len(self) >= KEPT_MAX:
            self.clear()
        host = self[field] = Host(field[:4], int.from_bytes(field[4:], "big", signed=True))
        return host


hosts: Final = Hosts()


def read_plain(buffer: bytes, at: int, wishes: Wishes) -> tuple[list[ReceivedMessage], int]:
    """The messages of the plain records from ``at`` on; where the first is that is not plain."""
    messages: list[ReceivedMessage] = []
    wanted = ALIKE_MIN
    while len(buffer) - at >= ALIKE_MIN * RECORD_BYTES_MIN:
        found, stop = _read_alike(buffer, at, wanted, wishes)
        if stop == at:
            break
        messages += found
        at = stop
        wanted = min(wanted * 2, ALIKE_MAX)
    found, at = _read_each(buffer, at, wishes)
    messages += found
    return messages, at


def _read_each(buffer: bytes, at: int, wishes: Wishes) -> tuple[list[ReceivedMessage], int]:
    """Plain records one after the other."""
    broker, queue_id, offset_delta, later, memo = wishes
    messages: list[ReceivedMessage] = []
    end, append = len(buffer), messages.append
    tail, tail_bytes, properties_bytes, topic = b"", 0, 0, _topic(b"\0")  # as in the one before
    while end - at >= RECORD_BYTES_MIN:
        (
            size_bytes,
            magic,
            crc,
            own_queue_id,
            flag,
            queue_offset,
            log_offset,
            sys_flag,
            born_ms,
            born,
            store_ms,
            store,
            reconsume_times,
            prepared_offset,
            body_bytes,
        ) = _unpack_head(buffer, at)
        body_at = at + _HEAD_BYTES
        body_stop = body_at + body_bytes
        stop = at + size_bytes
        if magic != MAGIC_V1 or sys_flag & NOT_PLAIN or stop > end:
            break
        if body_bytes < 0 or size_bytes > RECORD_BYTES_MAX or body_stop + 3 > stop:
            break
        if not tail or not buffer.startswith(tail, body_stop):  # topic and size of the properties
            tail_bytes = 3 + buffer[body_stop]
            tail = buffer[body_stop : body_stop + tail_bytes]
            topic = _topic(tail[:-2])
            if topic is None or body_stop + tail_bytes > stop:
                break
            (properties_bytes,) = _unpack_short(tail, tail_bytes - 2)
        if properties_bytes != stop - (properties_at := body_stop + tail_bytes):
            break
        body = buffer[body_at:body_stop]
        if crc and crc != crc32(body) & CRC_MASK:
            break
        fields = (
            topic,
            broker,
            own_queue_id if queue_id is None else queue_id,
            queue_offset + offset_delta,
            log_offset,
            body,
            later(buffer[properties_at:stop], memo),
            flag,
            sys_flag,
            born_ms,
            hosts[born],
            store_ms,
            hosts[store],
            reconsume_times,
            prepared_offset,
            size_bytes,
        )
        append(_new(ReceivedMessage, fields))
        at = stop
    return messages, at


def _read_alike(
    buffer: bytes, at: int, wanted: int, wishes: Wishes
) -> tuple[list[ReceivedMessage], int]:
    """Up to ``wanted`` plain records like the one at ``at``; none where fewer than a few are."""
    size_bytes, body_bytes = _sizes(buffer, at)
    body_stop = at + _HEAD_BYTES + body_bytes
    if not RECORD_BYTES_MIN <= size_bytes <= RECORD_BYTES_MAX or body_bytes < 0:
        return [], at
    count = min(wanted, (len(buffer) - at) // size_bytes)
    if count < ALIKE_MIN or body_stop + 3 > at + size_bytes:
        return [], at
    tail_bytes = 3 + buffer[body_stop]
    tail = buffer[body_stop : body_stop + tail_bytes]
    properties_bytes = size_bytes - _HEAD_BYTES - body_bytes - tail_bytes
    topic = _topic(tail[:-2])
    if topic is None or properties_bytes < 0:
        return [], at
    if _unpack_short(tail, tail_bytes - 2)[0] != properties_bytes:
        return [], at
    stop = at + count * size_bytes
    shape = _shape(body_bytes, tail_bytes, properties_bytes)
    with memoryview(buffer) as view, view[at:stop] as rows:
        columns = zip(*shape.iter_unpack(rows), strict=True)
        (
            sizes, magics, crcs, queues, flags, queue_offsets, log_offsets, sys_flags, born_ms,
            born, store_ms, store, times, prepared, bodies_bytes, bodies, tails, texts,
        ) = columns  # fmt: skip
    if sizes.count(size_bytes) != count:
        first = next(n for n, each in enumerate(sizes) if each != size_bytes)
        return _read_alike(buffer, at, first, wishes)
    is_alike = (
        magics.count(MAGIC_V1) == count
        and not any(map(NOT_PLAIN.__and__, set(sys_flags)))
        and bodies_bytes.count(body_bytes) == count
        and tails.count(tail) == count
        and all(crcs)
        and list(crcs) == list(map(CRC_MASK.__and__, map(crc32, bodies)))
    )
    if not is_alike:
        return [], at
    broker, queue_id, delta, later, memo = wishes
    rows_of = zip(
        repeat(topic),
        repeat(broker),
        queues if queue_id is None else repeat(queue_id),
        map(delta.__add__, queue_offsets) if delta else queue_offsets,
        log_offsets,
        bodies,
        map(later, texts, repeat(memo)),
        flags,
        sys_flags,
        born_ms,
        map(hosts.__getitem__, born),
        store_ms,
        map(hosts.__getitem__, store),
        times,
        prepared,
        sizes,
    )
    return list(map(_new, repeat(ReceivedMessage), rows_of)), stop


_sizes = Struct(HEAD.format[:2] + f"{HEAD.size - 8}xi").unpack_from  # of a record, of its body


@lru_cache(maxsize=SHAPES_MAX)
def _shape(body_bytes: int, tail_bytes: int, properties_bytes: int) -> Struct:
    """A whole record with parts of these sizes."""
    return Struct(f"{_HEAD.format}{body_bytes}s{tail_bytes}s{properties_bytes}s")


@lru_cache(maxsize=KEPT_MAX)
def _topic(field: bytes) -> str | None:
    """A topic with its length before it; None when it is none."""
    try:
        return str(field[1:], "utf-8") if field[0] < 128 else None
    except UnicodeDecodeError:
        return None
