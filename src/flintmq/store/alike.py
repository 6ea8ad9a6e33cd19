"""Records that look alike, of one size with bodies of one size, checked all at once.

Who sends messages of one shape leaves many of them in a queue, and a reader of the queue asks for
a few dozen at a time.  What `reading` asks of each record is asked here of a column of all.
Whatever is not as it should be, or merely differs, is left to `reading`, which judges it record by
record.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import repeat
from typing import Final

from flintmq.protocol.record import RECORD_BYTES_MIN, V6_BITS, Version
from flintmq.store.layout import UNIT_BYTES

ALIKE_MAX: Final = 128
"""Units looked at together; for more, `sound_units` is faster."""

SHAPES_MAX: Final = 1_024
"""Shapes of records remembered."""

_BODY_AT: Final = 88
"""Where the body of a record with two IPv4 hosts begins; its size is before it."""
_SIZE = struct.Struct(">i")
_VERSIONS: Final = (int(Version.V1), int(Version.V2))


def alike_stretches(
    units: bytes,
    first_offset: int,
    view: memoryview,
    low: int,
    high: int,
    *,
    memory_from: int,
    queue_id: int,
    topic: bytes,
) -> list[tuple[int, int]] | None:
    """Where in ``view`` the records of all these units are; nothing when that takes a closer look.

    The view is a file of the log that starts at ``low`` and is written up to ``high``.  Records
    before ``memory_from`` have limits of their own.  ``topic`` is as it stands in a record.
    Records that lie side by side are one stretch.
    """
    count = len(units) // UNIT_BYTES
    fields = _units(count).unpack_from(units)
    places, size = fields[::2], fields[1]
    if fields[1::2].count(size) != count or size < RECORD_BYTES_MIN:
        return None
    if min(places) < max(low, memory_from) or max(places) > high - size:
        return None
    starts = [place - low for place in places]
    body_bytes: int = _SIZE.unpack_from(view, starts[0] + _BODY_AT - _SIZE.size)[0]
    if not 0 <= body_bytes <= size - _BODY_AT - len(topic):
        return None
    heads = map(_record(body_bytes, len(topic)).unpack_from, repeat(view), starts)
    sizes, magics, queues, queue_offsets, own_places, flags, bodies, topics = zip(
        *heads, strict=True
    )
    is_sound = (
        own_places == places
        and queue_offsets == tuple(range(first_offset, first_offset + count))
        and topics.count(topic) == count
        and sizes.count(size) == count
        and queues.count(queue_id) == count
        and magics[0] in _VERSIONS
        and magics.count(magics[0]) == count
        and not flags[0] & V6_BITS
        and flags.count(flags[0]) == count
        and bodies.count(body_bytes) == count
    )
    return _stretches(starts, size) if is_sound else None


def _stretches(starts: list[int], size: int) -> list[tuple[int, int]]:
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
def _units(count: int) -> struct.Struct:
    """Log offset and size of so many units."""
    return struct.Struct(">" + "qi8x" * count)


@lru_cache(maxsize=SHAPES_MAX)
def _record(body_bytes: int, topic_bytes: int) -> struct.Struct:
    """Size, magic, queue id, queue offset, log offset, flags, size of the body, topic."""
    return struct.Struct(f">iI4xi4xqq3xB44xi{body_bytes}x{topic_bytes}s")
