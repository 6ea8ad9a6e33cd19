"""The two ids of a message, which look alike and mean different things.

An *offset message id* is made by the broker: where the record is.  It leads back to
the broker and the byte, so `parse_offset_id` is exact.  A *unique id* is made by
the client before sending and stays the same through retries.  Both are hex of the
same length, and only the context tells them apart.

Ids of other clients are opaque: Go and C++ fill the same length their own way.
"""

from __future__ import annotations

import struct
from datetime import datetime
from itertools import count, islice

from flintmq.errors import InvalidName
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset

CLOCK_STEP_MS_MAX = 1_000_000
"""A clock may step back behind the start of its month by less than this; ids then say 0."""

_HEX = frozenset("0123456789abcdefABCDEF")
_V4_LENGTH, _V6_LENGTH = 32, 56
_PORT = struct.Struct(">i")
_PORT_AND_OFFSET = struct.Struct(">iq")
_PID_AND_CONSTANT = struct.Struct(">HI")
_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1


def offset_id_prefix(host: Host) -> str:
    """The part that all offset ids of one broker share."""
    return (host.packed + _PORT.pack(host.port)).hex().upper()


def offset_id(host: Host, log_offset: int) -> str:
    """The id of the record at ``log_offset`` of the broker at ``host``."""
    return f"{offset_id_prefix(host)}{log_offset & _U64:016X}"


def parse_offset_id(text: str) -> tuple[Host, LogOffset]:
    """Broker and log offset of an offset message id.  `InvalidName`: not 32 or 56 hex digits."""
    octets = _unhex(text)
    ip_length = len(octets) - _PORT_AND_OFFSET.size
    port, log_offset = _PORT_AND_OFFSET.unpack_from(octets, ip_length)
    if log_offset < 0:
        raise InvalidName("message id", text, "its log offset is negative")
    return Host(octets[:ip_length], port), LogOffset(log_offset)


class UniqueIds:
    """Makes the unique ids of one process.

    ``constant`` is any number that tells this process from an earlier one with the
    same pid.  Two ids differ as long as fewer than 65,536 are made in a millisecond.
    Safe to share between threads.
    """

    def __init__(self, ip: bytes, pid: int, constant: int) -> None:
        if len(ip) not in (4, 16):
            raise ValueError(f"an address has 4 or 16 bytes, not {len(ip)}")
        self._prefix = (ip + _PID_AND_CONSTANT.pack(pid & 0xFFFF, constant & _U32)).hex().upper()
        self._counter = count()

    def make(self, now_ms: int, month_start_ms: int) -> str:
        """The next id.  ``month_start_ms`` is when the current month began, in local time."""
        return self.make_after(self.head(now_ms, month_start_ms))

    def make_after(self, head: str) -> str:
        """The next id of the millisecond that a `head` is of."""
        return f"{head}{next(self._counter) & 0xFFFF:04X}"

    def make_many(self, now_ms: int, month_start_ms: int, count: int) -> list[str]:
        """The next ``count`` ids."""
        head = self.head(now_ms, month_start_ms)
        return [f"{head}{number & 0xFFFF:04X}" for number in islice(self._counter, count)]

    def head(self, now_ms: int, month_start_ms: int) -> str:
        """What all ids of one millisecond begin with."""
        age_ms = now_ms - month_start_ms
        if -CLOCK_STEP_MS_MAX < age_ms < 0:
            age_ms = 0
        return f"{self._prefix}{age_ms & _U32:08X}"


class MonthlyIds:
    """Makes unique ids, which count from the start of the month; the month follows the time."""

    def __init__(self, ids: UniqueIds) -> None:
        self._ids = ids
        self._month_ms = range(0)
        self._last = -1, ""  # a millisecond and its head, together: threads share them

    def make(self, now_ms: int) -> str:
        at_ms, head = self._last
        if at_ms != now_ms:
            head = self._ids.head(now_ms, self._month_start_ms(now_ms))
            self._last = now_ms, head
        return self._ids.make_after(head)

    def make_many(self, now_ms: int, count: int) -> list[str]:
        return self._ids.make_many(now_ms, self._month_start_ms(now_ms), count)

    def _month_start_ms(self, now_ms: int) -> int:
        if now_ms not in self._month_ms:
            self._month_ms = month_of(now_ms)
        return self._month_ms.start


def month_of(now_ms: int) -> range:
    """The milliseconds of the month around a time, in the zone of this machine."""
    at = datetime.fromtimestamp(now_ms / 1000).astimezone()
    start = datetime(at.year, at.month, 1).astimezone()
    year, month = (at.year + 1, 1) if at.month == 12 else (at.year, at.month + 1)
    stop = datetime(year, month, 1).astimezone()
    return range(round(start.timestamp() * 1000), round(stop.timestamp() * 1000))


def _unhex(text: str) -> bytes:
    if len(text) not in (_V4_LENGTH, _V6_LENGTH):
        raise InvalidName("message id", text, "an id has 32 or 56 hex digits")
    if not _HEX.issuperset(text):
        raise InvalidName("message id", text, "an id has only hex digits")
    return bytes.fromhex(text)
