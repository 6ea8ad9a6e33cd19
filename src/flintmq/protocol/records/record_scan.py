"""Many records at once, as columns.

`scan_records` walks the sizes in a plain loop and then reads every field of all
records with a handful of numpy operations: there is no Python object per message.
Bodies, topics and properties are not copied; columns say where they are in the
buffer.  Layouts may be mixed, IPv4 with IPv6 and V1 with V2.

Invariant: a scan takes exactly the records `decode_record` would take one after the
other with its checksum off, and stops where it would stop; only that topics are
UTF-8 is not looked at here.

The columns keep the buffer in use: a map cannot be closed, nor a bytearray resized,
before they are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from flintmq.errors import MalformedRecord
from flintmq.kernel.layout import (
    BODY_AT,
    BORN_HOST_AT,
    RECONSUME_TIMES_AT,
    RECORD_BYTES_MIN,
    STORE_HOST_AT,
    STORE_MS_AT,
    V6_BITS,
    V6_BYTES_MORE,
    numpy_fields,
    record_struct,
)
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.records.record import (
    RECORD_BYTES_MAX,
    Buffer,
    Version,
    decode_record,
    is_filler,
    is_partial,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]
    SmallInts: TypeAlias = npt.NDArray[np.int32]

# What has the same widths in every record: all before the hosts, and all between them and the body.
_HEAD: Final = np.dtype(
    numpy_fields(
        "size",
        "magic",
        "body_crc",
        "queue_id",
        "flag",
        "queue_offset",
        "log_offset",
        "sys_flag",
        "born_ms",
    )
)
_TAIL: Final = np.dtype(
    numpy_fields("reconsume_times", "prepared_offset", "body_length", start=RECONSUME_TIMES_AT)
)
_STORE_MS: Final = np.dtype(numpy_fields("store_ms", start=STORE_MS_AT))
_SHORT: Final = np.dtype(">i2")  # the length of a V2 topic, and that of properties


class EndKind(Enum):
    """Why a scan ended."""

    WHOLE = auto()  # every byte was a record
    PARTIAL = auto()  # the last record is not all there
    FILLER = auto()  # the rest of the file is blank
    MALFORMED = auto()  # what follows is no record


@dataclass(frozen=True, slots=True)
class ScanEnd:
    """Where a scan ended, and why."""

    kind: EndKind
    position: int
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """One row per record.  Every ``*_start`` counts bytes from the start of ``buffer``."""

    buffer: Buffer
    end: ScanEnd
    start: Ints
    size_bytes: SmallInts
    is_v2: npt.NDArray[np.bool_]
    body_crc: npt.NDArray[np.uint32]
    queue_id: SmallInts
    flag: SmallInts
    queue_offset: Ints
    log_offset: Ints
    sys_flag: SmallInts
    born_ms: Ints
    born_host_start: Ints
    store_ms: Ints
    store_host_start: Ints
    reconsume_times: SmallInts
    prepared_offset: Ints
    body_start: Ints
    body_length: Ints
    topic_start: Ints
    topic_length: Ints
    properties_start: Ints
    properties_length: Ints

    def __len__(self) -> int:
        return len(self.start)


def scan_records(buffer: Buffer) -> RecordColumns:
    """Read all whole records from the start of ``buffer``."""
    start = _walk(buffer)
    outcome = _read_columns(buffer, start)
    while isinstance(outcome, int):
        start = start[:outcome]
        outcome = _read_columns(buffer, start)
    return outcome


def windows(buffer: Buffer, width: int) -> npt.NDArray[np.void]:
    """The ``width`` bytes from every byte of the buffer on, as opaque items.

    Picking some of them copies each as one block: ten times quicker than by fields.
    """
    count = max(0, len(buffer) - width + 1)
    return np.ndarray((count,), f"V{width}", buffer, 0, (1,))


def gather(buffer: Buffer, dtype: np.dtype[Any], at: Ints) -> npt.NDArray[Any]:
    """The items of ``dtype`` at these bytes of the buffer, which need not be aligned."""
    return windows(buffer, dtype.itemsize)[at].view(dtype)


def _walk(buffer: Buffer) -> Ints:
    """Where records start if their sizes are right.  The last one may not be all there."""
    starts: list[int] = []
    append, size_at = starts.append, record_struct("size").unpack_from
    last = len(buffer) - RECORD_BYTES_MIN
    at = 0
    while at <= last:
        append(at)
        (size_bytes,) = size_at(buffer, at)
        if size_bytes < RECORD_BYTES_MIN:
            break
        at += size_bytes
    return np.array(starts, np.int64)


def _read_columns(buffer: Buffer, start: Ints) -> RecordColumns | int:
    """All columns, or how many records are good before the first one that is not."""
    head = gather(buffer, _HEAD, start)
    size_bytes = head["size"].astype(np.int32)
    sys_flag = head["sys_flag"].astype(np.int32)
    magic = head["magic"].astype(np.uint32)
    is_v2 = magic == Version.V2
    born_more, more = _extra_bytes(sys_flag)
    stop = start + size_bytes
    good = is_v2 | (magic == Version.V1)
    good &= (size_bytes >= RECORD_BYTES_MIN + more + is_v2) & (size_bytes <= RECORD_BYTES_MAX)
    good &= stop <= len(buffer)
    if not good.all():
        return int(good.argmin())

    tail = gather(buffer, _TAIL, start + (RECONSUME_TIMES_AT + more))
    body_start = start + (BODY_AT + more)
    body_length = tail["body_length"].astype(np.int64)
    body_stop = body_start + body_length
    topic_start = body_stop + 1 + is_v2
    good = (body_length >= 0) & (topic_start + 2 <= stop)
    if not good.all():
        return int(good.argmin())

    topic_length = np.frombuffer(buffer, np.int8)[body_stop].astype(np.int64)
    if is_v2.any():
        topic_length = np.where(is_v2, gather(buffer, _SHORT, body_stop), topic_length)
    properties_start = topic_start + topic_length + 2
    good = (topic_length >= 0) & (properties_start <= stop)
    if not good.all():
        return int(good.argmin())

    properties_length = gather(buffer, _SHORT, properties_start - 2).astype(np.int64)
    good = properties_start + properties_length == stop
    if not good.all():
        return int(good.argmin())

    store_ms = gather(buffer, _STORE_MS, start + (STORE_MS_AT + born_more))["store_ms"]
    return RecordColumns(
        buffer=buffer,
        end=_explain_end(buffer, int(stop[-1]) if len(stop) else 0),
        start=start,
        size_bytes=size_bytes,
        is_v2=is_v2,
        body_crc=head["body_crc"].astype(np.uint32),
        queue_id=head["queue_id"].astype(np.int32),
        flag=head["flag"].astype(np.int32),
        queue_offset=head["queue_offset"].astype(np.int64),
        log_offset=head["log_offset"].astype(np.int64),
        sys_flag=sys_flag,
        born_ms=head["born_ms"].astype(np.int64),
        born_host_start=start + BORN_HOST_AT,
        store_ms=store_ms.astype(np.int64),
        store_host_start=start + (STORE_HOST_AT + born_more),
        reconsume_times=tail["reconsume_times"].astype(np.int32),
        prepared_offset=tail["prepared_offset"].astype(np.int64),
        body_start=body_start,
        body_length=body_length,
        topic_start=topic_start,
        topic_length=topic_length,
        properties_start=properties_start,
        properties_length=properties_length,
    )


def _extra_bytes(sys_flag: SmallInts) -> tuple[Ints | int, Ints | int]:
    """What IPv6 hosts take more: the born host alone, and both together."""
    if not (sys_flag & V6_BITS).any():
        return 0, 0
    born_more = V6_BYTES_MORE * (sys_flag & BORN_HOST_V6 != 0)
    return born_more, born_more + V6_BYTES_MORE * (sys_flag & STORE_HOST_V6 != 0)


def _explain_end(buffer: Buffer, position: int) -> ScanEnd:
    """Why no record can be taken at ``position``."""
    rest_bytes = len(buffer) - position
    if rest_bytes == 0:
        return ScanEnd(EndKind.WHOLE, position)
    if is_filler(buffer, position):
        return ScanEnd(EndKind.FILLER, position, "the rest of the file is blank")
    try:
        decode_record(buffer, position, verify_crc=False)
    except MalformedRecord as error:
        kind = EndKind.PARTIAL if is_partial(buffer, position) else EndKind.MALFORMED
        return ScanEnd(kind, position, error.reason)
    raise AssertionError(f"a good record at byte {position} was not taken")
