"""The body of a pull answer as messages for a consumer.

Records are read one after the other.  A record that cannot be decoded, but whose frame is intact,
is set aside as a `BadRecord`, and the reading goes on behind it.  A broken frame ends the reading:
nobody can know where the next record starts.  What came before it is still good, so the result
holds the messages, the bad records and the reason, and the caller can report it.

Bodies come out unpacked, with a limit; inner batches come out split.

Nearly all records are plain: first version, IPv4, not packed, no batch.  `_read_plain` reads runs
of those in one loop, in half the time, and leaves whatever else it meets to `decode_record`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Final

from flintmq.errors import BodyTooLarge, MalformedRecord
from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.host import Host
from flintmq.model.message import BODY_BYTES_MAX, ReceivedMessage
from flintmq.model.queue import QueueOffset
from flintmq.model.sys_flag import COMPRESSED, NEED_UNWRAP
from flintmq.protocol.records.batch import BatchEntry
from flintmq.protocol.records.checksum import crc32
from flintmq.protocol.records.layout import HEAD, PROPERTIES_LENGTH, RECORD_BYTES_MIN, V6_BITS
from flintmq.protocol.records.lazy_properties import LaterProperties, PropertyMemo
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import (
    CRC_MASK,
    KEPT_MAX,
    RECORD_BYTES_MAX,
    Buffer,
    Version,
    record_size,
)
from flintmq.protocol.records.sift import UNREADABLE, Decoded, bad_record, read_record

UNPACKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""All bodies of one answer together: a small answer may unpack to no more.  What is beyond it
is left for the next pull."""

_NOT_PLAIN = COMPRESSED | NEED_UNWRAP | V6_BITS
_V1 = int(Version.V1)
_HEAD = Struct(HEAD.format.replace("4si", "8s"))  # hosts in one piece, address and port
_HEAD_BYTES = _HEAD.size
_unpack_head = _HEAD.unpack_from
_unpack_short = Struct(">" + PROPERTIES_LENGTH).unpack_from
_new = tuple.__new__  # half the time of calling the class


@dataclass(frozen=True, slots=True)
class Received:
    """The messages that could be read, and what ended the reading early, if anything.

    ``bad`` are the records between the messages that cannot be decoded, in order.
    """

    messages: list[ReceivedMessage]
    fault: MalformedRecord | None = None
    bad: list[BadRecord] = field(default_factory=list)


def decode_messages(
    buffer: Buffer,
    *,
    broker: str,
    queue_id: int | None = None,
    min_offset: int | None = None,
    max_offset: int | None = None,
    offset_delta: int = 0,
    body_bytes_max: int = BODY_BYTES_MAX,
    verify_crc: bool = True,
) -> Received:
    """Read every record of an answer.

    ``queue_id`` is the queue that was asked, where one was; a record says by itself
    only where it was written.  ``min_offset``, ``max_offset`` and ``offset_delta`` come
    from the header of the answer.  A body for which a package is missing is a bad record.
    """
    bounds = _bounds(min_offset, max_offset)
    memo = PropertyMemo(bounds)
    messages: list[ReceivedMessage] = []
    bad: list[BadRecord] = []
    room_bytes = UNPACKED_BYTES_MAX
    at = 0
    while at < len(buffer):
        if type(buffer) is bytes and verify_crc:
            start = at
            at = _read_plain(buffer, at, messages, broker, queue_id, offset_delta, memo)
            room_bytes -= at - start
            if at == len(buffer):
                break
        limit_bytes = max(0, min(body_bytes_max, room_bytes))
        try:
            decoded = read_record(buffer, at, body_bytes_max=limit_bytes, verify_crc=verify_crc)
        except UNREADABLE as error:
            too_large = isinstance(error, BodyTooLarge)
            if too_large and limit_bytes < body_bytes_max and (messages or bad):
                return Received(messages, MalformedRecord(at, str(error)), bad)
            try:
                cut = bad_record(
                    buffer, at, error, broker=broker, queue_id=queue_id, offset_delta=offset_delta
                )
            except MalformedRecord as fault:
                return Received(messages, fault, bad)
            bad.append(cut)
            room_bytes -= limit_bytes if too_large else cut.size_bytes
            at += cut.size_bytes
            continue
        size_bytes = record_size(buffer, at)
        message = _message(decoded, broker, queue_id, offset_delta, bounds, size_bytes)
        if decoded.batch:
            messages += _split(message, decoded.batch, bounds)
        else:
            messages.append(message)
        room_bytes -= len(decoded.body)
        at += size_bytes
    return Received(messages, None, bad)


def _bounds(min_offset: int | None, max_offset: int | None) -> dict[str, str]:
    """Properties that every message of an answer gets: the bounds of its queue."""
    known = {names.MIN_OFFSET: min_offset, names.MAX_OFFSET: max_offset}
    return {name: str(offset) for name, offset in known.items() if offset is not None}


def _read_plain(
    buffer: bytes,
    at: int,
    messages: list[ReceivedMessage],
    broker: str,
    queue_id: int | None,
    offset_delta: int,
    memo: PropertyMemo,
) -> int:
    """Read plain records from ``at`` on; where the first one is that is not, or not whole."""
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
        if magic != _V1 or sys_flag & _NOT_PLAIN or stop > end:
            return at
        if body_bytes < 0 or size_bytes > RECORD_BYTES_MAX or body_stop + 3 > stop:
            return at
        if not tail or not buffer.startswith(tail, body_stop):  # topic and size of the properties
            tail_bytes = 3 + buffer[body_stop]
            tail = buffer[body_stop : body_stop + tail_bytes]
            topic = _topic(tail[:-2])
            if topic is None or body_stop + tail_bytes > stop:
                return at
            (properties_bytes,) = _unpack_short(tail, tail_bytes - 2)
        if properties_bytes != stop - (properties_at := body_stop + tail_bytes):
            return at
        body = buffer[body_at:body_stop]
        if crc and crc != crc32(body) & CRC_MASK:
            return at
        fields = (
            topic,
            broker,
            own_queue_id if queue_id is None else queue_id,
            queue_offset + offset_delta,
            log_offset,
            body,
            LaterProperties(buffer[properties_at:stop], memo),
            flag,
            sys_flag,
            born_ms,
            _hosts[born],
            store_ms,
            _hosts[store],
            reconsume_times,
            prepared_offset,
            size_bytes,
        )
        append(_new(ReceivedMessage, fields))
        at = stop
    return at


class _Hosts(dict[bytes, Host]):
    """Hosts by how records have them."""

    def __missing__(self, field: bytes) -> Host:
        if len(self) >= KEPT_MAX:
            self.clear()
        host = self[field] = Host(field[:4], int.from_bytes(field[4:], "big", signed=True))
        return host


_hosts = _Hosts()


@lru_cache(maxsize=KEPT_MAX)
def _topic(field: bytes) -> str | None:
    """A topic with its length before it; None when it is none."""
    try:
        return str(field[1:], "utf-8") if field[0] < 128 else None
    except UnicodeDecodeError:
        return None


def _message(
    decoded: Decoded,
    broker: str,
    queue_id: int | None,
    offset_delta: int,
    bounds: dict[str, str],
    size_bytes: int,
) -> ReceivedMessage:
    """The message of a record; for an inner batch, what its messages have in common."""
    record = decoded.record
    properties = parse_properties(record.properties)
    properties.update(bounds)
    return ReceivedMessage(
        record.topic,
        broker,
        record.queue_id if queue_id is None else queue_id,
        QueueOffset(record.queue_offset + offset_delta),
        record.log_offset,
        decoded.body,
        properties,
        record.flag,
        decoded.sys_flag,
        record.born_ms,
        record.born_host,
        record.store_ms,
        record.store_host,
        record.reconsume_times,
        record.prepared_offset,
        size_bytes,
    )


def _split(
    whole: ReceivedMessage, batch: list[BatchEntry], bounds: dict[str, str]
) -> list[ReceivedMessage]:
    """The messages of an inner batch: each has its own offset, flag and properties."""
    return [
        whole._replace(
            queue_offset=QueueOffset(whole.queue_offset + index),
            body=entry.body,
            properties=parse_properties(entry.properties) | bounds,
            flag=entry.flag,
        )
        for index, entry in enumerate(batch)
    ]
