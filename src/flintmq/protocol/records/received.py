"""The body of a pull answer as messages for a consumer.

Records are read one after the other.  A record that cannot be decoded, but whose frame is intact,
is set aside as a `BadRecord`, and the reading goes on behind it.  A broken frame ends the reading:
nobody can know where the next record starts.  What came before it is still good, so the result
holds the messages, the bad records and the reason, and the caller can report it.

Bodies come out unpacked, with a limit; inner batches come out split.

Nearly all records are plain: first version, IPv4, not packed, no batch.  The kernel's `read_plain`
reads runs of those, and leaves whatever else it meets to `decode_record`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from flintmq.errors import BodyTooLarge, MalformedRecord
from flintmq.kernel.face import loops
from flintmq.kernel.python.plain_records import Wishes
from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import BODY_BYTES_MAX, ReceivedMessage
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.batch import BatchEntry
from flintmq.protocol.records.lazy_properties import LaterProperties, PropertyMemo
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Buffer, record_size
from flintmq.protocol.records.sift import UNREADABLE, Decoded, bad_record, read_record

UNPACKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""All bodies of one answer together: a small answer may unpack to no more.  What is beyond it
is left for the next pull."""


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
    wishes = Wishes(broker, queue_id, offset_delta, LaterProperties, PropertyMemo(bounds))
    messages: list[ReceivedMessage] = []
    bad: list[BadRecord] = []
    room_bytes = UNPACKED_BYTES_MAX
    at = 0
    while at < len(buffer):
        if type(buffer) is bytes and verify_crc:
            start = at
            found, at = loops.read_plain(buffer, at, wishes)
            messages += found
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
