"""The layout of RocketMQ's record: one table of fields, from which structs and dtypes are derived.

    size 4 · magic 4 · body crc 4 · queue id 4 · flag 4 · queue offset 8 · log offset 8
    sys flag 4 · born 8 · born host 8|20 · stored 8 · store host 8|20
    reconsume times 4 · prepared offset 8
    body length 4 · body · topic length 1|2 · topic · properties length 2 · properties

All integers are big-endian.  Two bits of the system flag say how wide the hosts are: a host is an
IPv4 or IPv6 address and a port.  The magic says how wide the topic's length is.

`FIELDS` has every field before the body.  No other module writes a format string or an offset of
a record by hand.  numpy is not imported here: `numpy_fields` gives what `numpy.dtype` takes.

Invariant: offsets (``*_AT``) are those of a record with two IPv4 hosts; an IPv6 host moves
everything behind it by `V6_BYTES_MORE`.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final, NamedTuple

from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6

FIELDS: Final = {
    "size": "i",
    "magic": "I",
    "body_crc": "I",
    "queue_id": "i",
    "flag": "i",
    "queue_offset": "q",
    "log_offset": "q",
    "sys_flag": "i",
    "born_ms": "q",
    "born_ip": "4s",
    "born_port": "i",
    "store_ms": "q",
    "store_ip": "4s",
    "store_port": "i",
    "reconsume_times": "i",
    "prepared_offset": "q",
    "body_length": "i",
}
"""The fields before the body, in order, with their struct formats; addresses are IPv4."""

TOPIC_LENGTH_V1: Final = "b"
TOPIC_LENGTH_V2: Final = "h"
PROPERTIES_LENGTH: Final = "h"

V6_BYTES_MORE: Final = 12
"""What an IPv6 host takes more than an IPv4 one."""

V6_BITS: Final = int(BORN_HOST_V6 | STORE_HOST_V6)

_V6_FLAGS: Final = {"born_ip": int(BORN_HOST_V6), "store_ip": int(STORE_HOST_V6)}
_NUMPY_FORMATS: Final = {"i": ">i4", "I": ">u4", "q": ">i8", "h": ">i2"}


class Raw(NamedTuple):
    """The fields from ``first`` to ``last`` as one piece of bytes in a struct."""

    first: str
    last: str


def field_format(name: str, bits: int = 0) -> str:
    """The struct format of a field in a record whose hosts are as these bits say."""
    return "16s" if bits & _V6_FLAGS.get(name, 0) else FIELDS[name]


@cache
def field_span(name: str, bits: int = 0) -> tuple[int, int]:
    """Where a field starts and stops in a record whose hosts are as these bits say."""
    start = 0
    for each in FIELDS:
        stop = start + struct.calcsize(">" + field_format(each, bits))
        if each == name:
            return start, stop
        start = stop
    raise KeyError(name)


def record_format(*fields: str | Raw, bits: int = 0, start: int = 0) -> str:
    """A struct format for some fields in their order; the bytes between them are skipped.

    It begins at byte ``start`` of the record and stops behind the last field.
    """
    parts, at = [">"], start
    for field in fields:
        first, last = field if isinstance(field, Raw) else (field, field)
        field_start, stop = field_span(first, bits)[0], field_span(last, bits)[1]
        if field_start > at:
            parts.append(f"{field_start - at}x")
        is_raw = isinstance(field, Raw)
        parts.append(f"{stop - field_start}s" if is_raw else field_format(first, bits))
        at = stop
    return "".join(parts)


def record_struct(*fields: str | Raw, bits: int = 0, start: int = 0) -> struct.Struct:
    """The struct of `record_format`."""
    return struct.Struct(record_format(*fields, bits=bits, start=start))


def numpy_fields(*names: str, start: int = 0) -> Any:
    """What `numpy.dtype` takes, for integer fields of a record with two IPv4 hosts.

    It begins at byte ``start`` of the record and stops behind the last field.
    """
    spans = [field_span(name) for name in names]
    return {
        "names": list(names),
        "formats": [_NUMPY_FORMATS[FIELDS[name]] for name in names],
        "offsets": [first - start for first, _ in spans],
        "itemsize": spans[-1][1] - start,
    }


MAGIC_AT: Final = field_span("magic")[0]
QUEUE_OFFSET_AT: Final = field_span("queue_offset")[0]
LOG_OFFSET_AT: Final = field_span("log_offset")[0]
SYS_FLAG_AT: Final = field_span("sys_flag")[0]
BORN_HOST_AT: Final = field_span("born_ip")[0]
STORE_MS_AT: Final = field_span("store_ms")[0]
STORE_HOST_AT: Final = field_span("store_ip")[0]
RECONSUME_TIMES_AT: Final = field_span("reconsume_times")[0]
BODY_LENGTH_AT: Final = field_span("body_length")[0]
BODY_AT: Final = field_span("body_length")[1]

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
"""What the second field of a record is; that of V2 has a wider length of its topic."""

RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""No record is larger: many times what any broker is set to take."""

PROPERTIES_BYTES_MAX: Final = 32_767
"""Their length is a signed short."""

CRC_MASK: Final = 0x7FFF_FFFF
"""A record has the CRC-32 of its body without the top bit."""

RECORD_BYTES_MIN: Final = BODY_AT + struct.calcsize(">" + TOPIC_LENGTH_V1 + PROPERTIES_LENGTH)
"""A V1 record with two IPv4 hosts and nothing else in it."""

HEADS: Final = {
    bits: record_struct(*FIELDS, bits=bits)
    for bits in (0, int(BORN_HOST_V6), int(STORE_HOST_V6), V6_BITS)
}
"""Everything before the body, by the bits that say how wide the hosts are."""

HEAD: Final = HEADS[0]

IDENTITY: Final = record_struct("size", "magic", "queue_id", "queue_offset", "log_offset")
"""What tells one record from every other: size, magic, queue id, queue offset and log offset."""
