"""The records that the first units of a read lead to, and where they lie in a file of the log.

A unit leads to its record when the log has, at the unit's log offset, a record of the unit's size
that names the same log offset, the queue's id and topic and the unit's queue offset as its own.
Bodies and properties are not read.

`find_records` takes units as long as each leads to its record, and stops at the first that does
not, or that is over a limit: the caller finds out why.  A few records of one shape are looked at
together, by struct; others one by one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, TypeAlias

from flintmq.kernel.layout import (
    BODY_AT,
    BODY_LENGTH_AT,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    V6_BITS,
    V6_BYTES_MORE,
    record_format,
    record_struct,
)

UNIT_BYTES: Final = 20
ALIKE_MAX: Final = 128
"""Units looked at together."""

SHAPES_MAX: Final = 1_024
"""Shapes of records for which a struct is cached."""

_CHECKED: Final = (
    "size",
    "magic",
    "queue_id",
    "queue_offset",
    "log_offset",
    "sys_flag",
    "body_length",
)
_head = record_struct(*_CHECKED).unpack_from
_body_length = record_struct("body_length", start=BODY_LENGTH_AT).unpack_from
_unit = Struct(">qi8x").iter_unpack

Spans: TypeAlias = list[tuple[int, int]]
"""Where bytes start and stop."""


def find_records(
    units: bytes,
    first_offset: int,
    view: memoryview,
    low: int,
    high: int,
    log_from: int,
    bytes_max: int,
    queue_id: int,
    topic: bytes,
) -> tuple[int, Spans]:
    """How many units from the first on lead to their records, and where in ``view`` these are.

    The view is a file of the log that starts at ``low`` and is written up to ``high``.  Records
    before ``log_from``, and more than ``bytes_max``, are not taken.  ``topic`` is as it stands in
    a record.  Records that lie side by side are one span.
    """
    high = min(high, low + len(view))
    count = len(units) // UNIT_BYTES
    if 0 < count <= ALIKE_MAX:
        fields = _units(count).unpack_from(units)
        log_offsets, size = fields[::2], fields[1]
        if (
            fields[1::2].count(size) == count
            and RECORD_BYTES_MIN <= size <= bytes_max // count
            and min(log_offsets) >= max(low, log_from)
            and max(log_offsets) <= high - size
        ):
            starts = [log_offset - low for log_offset in log_offsets]
            if _are_alike(view, starts, size, log_offsets, first_offset, queue_id, topic):
                return count, _joined(starts, size)
    spans: Spans = []
    taken = first = last = 0
    for log_offset, size in _unit(units[: count * UNIT_BYTES]):
        bytes_max -= size
        if log_offset < max(low, log_from) or size < RECORD_BYTES_MIN or bytes_max < 0:
            break
        start, stop = log_offset - low, log_offset - low + size
        if log_offset + size > high:
            break
        own = size, queue_id, first_offset + taken, log_offset
        if not _is_record(view, start, stop, own, topic):
            break
        if taken and start != last:
            spans.append((first, last))
        first = first if taken and start == last else start
        last = stop
        taken += 1
    if taken:
        spans.append((first, last))
    return taken, spans


def _is_record(
    view: memoryview, start: int, stop: int, own: tuple[int, int, int, int], topic: bytes
) -> bool:
    """Whether a record is the one of a unit: its size, queue id, queue offset and log offset."""
    size, magic, queue_id, queue_offset, log_offset, flags, body_bytes = _head(view, start)
    if (size, queue_id, queue_offset, log_offset) != own:
        return False
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return False
    body_at = start + BODY_AT
    if flags & V6_BITS:
        body_at += V6_BYTES_MORE * (flags & V6_BITS).bit_count()
        if body_at > stop:
            return False
        (body_bytes,) = _body_length(view, body_at - 4)
    topic_stop = body_at + body_bytes + len(topic)
    if body_bytes < 0 or topic_stop > stop:
        return False
    return bool(view[body_at + body_bytes : topic_stop] == topic)


def _are_alike(
    view: memoryview,
    starts: list[int],
    size: int,
    log_offsets: tuple[int, ...],
    first_offset: int,
    queue_id: int,
    topic: bytes,
) -> bool:
    """Whether all units lead to their records, if these also have one size of body and IPv4."""
    count = len(starts)
    body_bytes: int = _body_length(view, starts[0] + BODY_LENGTH_AT)[0]
    if not 0 <= body_bytes <= size - BODY_AT - len(topic):
        return False
    heads = map(_record(body_bytes, len(topic)).unpack_from, repeat(view), starts)
    sizes, magics, queues, queue_offsets, own_log_offsets, flags, bodies, topics = zip(
        *heads, strict=True
    )
    return (
        own_log_offsets == log_offsets
        and queue_offsets == tuple(range(first_offset, first_offset + count))
        and topics.count(topic) == count
        and sizes.count(size) == count
        and queues.count(queue_id) == count
        and (magics[0] == MAGIC_V1 or magics[0] == MAGIC_V2)
        and magics.count(magics[0]) == count
        and not flags[0] & V6_BITS
        and flags.count(flags[0]) == count
        and bodies.count(body_bytes) == count
    )


def _joined(starts: list[int], size: int) -> Spans:
    """The spans of records of one size; those side by side are one."""
    first, stop = starts[0], starts[-1] + size
    if stop - first == size * len(starts) and starts == list(range(first, stop, size)):
        return [(first, stop)]
    found = []
    stop = first
    for start in starts:
        if start != stop:
            found.append((first, stop))
            first = start
        stop = start + size
    found.append((first, stop))
    return found


@lru_cache(maxsize=ALIKE_MAX)
def _units(count: int) -> Struct:
    """Log offset and size of so many units."""
    return Struct(">" + "qi8x" * count)


@lru_cache(maxsize=SHAPES_MAX)
def _record(body_bytes: int, topic_bytes: int) -> Struct:
    """The checked fields of a record with a body and a topic of these sizes, and its topic."""
    return Struct(f"{record_format(*_CHECKED)}{body_bytes}x{topic_bytes}s")
