"""Telling records that can be decoded from those that cannot, without giving up the rest.

A record whose frame is intact says where the next one starts, whatever is wrong inside: its body
does not unpack, is too large, does not match its checksum or is no batch, or its topic is no text.
Such a record is a `BadRecord`.  A broken frame ends the reading: nobody knows where the next
record starts.

`read_record` decodes one record in full, `bad_record` cuts out one that failed, and
`sift_records` separates a buffer for readers of columns, which decode many records at once.
`as_stored` shows a bad record to people, its body packed as it is.
Properties are never a reason: bytes that are no UTF-8 become U+FFFD, as in Java.

Invariant: a `BadRecord` has the size of its frame, so whoever goes on behind it meets the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flintmq.errors import BodyTooLarge, MalformedBody, MalformedRecord, MissingExtra
from flintmq.kernel.layout import FIELDS
from flintmq.model.bad_record import BadRecord
from flintmq.model.host import Host
from flintmq.model.message import BODY_BYTES_MAX, ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import COMPRESSED, compression, needs_unwrap
from flintmq.protocol.compression import unpack
from flintmq.protocol.records.batch import BatchEntry, decode_batch
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Buffer, Record, decode_record, measure_record

UNREADABLE: Final = (MalformedRecord, MalformedBody, BodyTooLarge, MissingExtra)
"""What `read_record` raises."""


class Decoded(NamedTuple):
    """A record, its body in the clear, the flag that says so, and the messages of a batch."""

    record: Record
    body: bytes
    sys_flag: int
    batch: list[BatchEntry]


def read_record(buffer: Buffer, at: int, *, body_bytes_max: int, verify_crc: bool) -> Decoded:
    """Decode the record at ``at``, its body included.  Raises one of `UNREADABLE`."""
    record = decode_record(buffer, at, verify_crc=verify_crc, zero_crc_accepted=True)
    body, sys_flag = record.body, record.sys_flag
    if sys_flag & COMPRESSED:
        kind = compression(sys_flag)
        assert kind is not None
        body, sys_flag = unpack(body, kind, body_bytes_max), sys_flag & ~COMPRESSED
    batch = decode_batch(body) if needs_unwrap(sys_flag) else []
    return Decoded(record, body, sys_flag, batch)


def bad_record(
    buffer: Buffer,
    at: int,
    error: Exception,
    *,
    broker: str,
    queue_id: int | None = None,
    offset_delta: int = 0,
) -> BadRecord:
    """Cut out the record at ``at`` that failed with ``error``.

    Raises `MalformedRecord` where its frame is broken too.
    """
    _, fields, _, _, topic_at, topic_stop, stop = measure_record(buffer, at)
    head = dict(zip(FIELDS, fields, strict=True))
    try:
        topic = str(buffer[topic_at:topic_stop], "utf-8")
    except UnicodeDecodeError:
        topic = ""
    return BadRecord(
        topic=topic,
        broker=broker,
        queue_id=head["queue_id"] if queue_id is None else queue_id,
        queue_offset=QueueOffset(head["queue_offset"] + offset_delta),
        log_offset=LogOffset(head["log_offset"]),
        store_host=Host(head["store_ip"], head["store_port"]),
        store_ms=head["store_ms"],
        born_ms=head["born_ms"],
        reconsume_times=head["reconsume_times"],
        sys_flag=head["sys_flag"],
        size_bytes=stop - at,
        reason=error.reason if isinstance(error, MalformedRecord) else str(error),
        missing=error.package if isinstance(error, MissingExtra) else "",
        raw=bytes(buffer[at:stop]),
    )


def as_stored(bad: BadRecord) -> ReceivedMessage:
    """A bad record for people to look at: its body and flags are as they are stored.

    Its frame is known to be intact.  A topic that is no text is shown with U+FFFD.
    """
    _, fields, body_at, body_stop, topic_at, topic_stop, stop = measure_record(bad.raw, 0)
    head = dict(zip(FIELDS, fields, strict=True))
    return ReceivedMessage(
        topic=str(bad.raw[topic_at:topic_stop], "utf-8", "replace"),
        broker=bad.broker,
        queue_id=bad.queue_id,
        queue_offset=bad.queue_offset,
        log_offset=bad.log_offset,
        body=bad.raw[body_at:body_stop],
        properties=parse_properties(bad.raw[topic_stop + 2 : stop]),
        flag=head["flag"],
        sys_flag=bad.sys_flag,
        born_ms=bad.born_ms,
        born_host=Host(head["born_ip"], head["born_port"]),
        store_ms=bad.store_ms,
        store_host=bad.store_host,
        reconsume_times=bad.reconsume_times,
        prepared_offset=LogOffset(head["prepared_offset"]),
        stored_bytes=bad.size_bytes,
    )


@dataclass(frozen=True, slots=True)
class Sifted:
    """``good`` are the records that can be decoded, as they came and one after the other.

    ``positions`` are the bytes of the buffer at which the bad ones start.  ``fault`` is the
    broken frame that ended the reading, if any.
    """

    good: bytes
    bad: list[BadRecord] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    fault: MalformedRecord | None = None


def sift_records(
    buffer: bytes,
    *,
    broker: str,
    queue_id: int | None = None,
    offset_delta: int = 0,
    body_bytes_max: int = BODY_BYTES_MAX,
    verify_crc: bool = True,
) -> Sifted:
    """Decode every record of a buffer once, to find those that cannot be decoded.

    It costs as much as decoding all of them.  It is for a buffer in which a quicker reader found
    something wrong, not for every buffer.
    """
    good: list[bytes] = []
    bad: list[BadRecord] = []
    positions: list[int] = []
    start = at = 0
    while at < len(buffer):
        try:
            read_record(buffer, at, body_bytes_max=body_bytes_max, verify_crc=verify_crc)
        except UNREADABLE as error:
            try:
                cut = bad_record(
                    buffer, at, error, broker=broker, queue_id=queue_id, offset_delta=offset_delta
                )
            except MalformedRecord as fault:
                good.append(buffer[start:at])
                return Sifted(b"".join(good), bad, positions, fault)
            bad.append(cut)
            positions.append(at)
            good.append(buffer[start:at])
            at += cut.size_bytes
            start = at
        else:
            at = measure_record(buffer, at)[-1]
    good.append(buffer[start:])
    return Sifted(b"".join(good), bad, positions)
