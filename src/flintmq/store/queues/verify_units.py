"""Records that look alike, of one size with bodies of one size, checked all at once.

Who sends messages of one shape leaves many of them in a queue, and a reader of the queue asks for
a few dozen at a time.  What `reading` asks of each record is asked here of a column of all.
Whatever is not as it should be, or merely differs, is left to `reading`, which judges it record by
record.

Many units of a queue at once: which of them lead to the records they speak of.

The rules are those by which `reading` looks at one record after the other, for records with IPv4
hosts.  Whatever is not as it should be ends what is taken here, and `reading` judges it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from flintmq.protocol.records.record import RECORD_BYTES_MIN, V6_BITS, Version
from flintmq.protocol.records.record_scan import gather
from flintmq.store.files.layout import UNIT_BYTES
from flintmq.store.queues.consume_queue import Units

if TYPE_CHECKING:
    import numpy.typing as npt

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


_HEAD_BYTES: Final = 88
_HEAD: Final = np.dtype(
    {
        "names": ["size", "magic", "queue_id", "queue_offset", "log_offset", "flags", "body_bytes"],
        "formats": [">i4", ">u4", ">i4", ">i8", ">i8", ">i4", ">i4"],
        "offsets": [0, 4, 12, 20, 28, 36, 84],
        "itemsize": _HEAD_BYTES,
    }
)
"""What a record with two IPv4 hosts begins with, up to its body."""


def sound_stretches(
    units: Units,
    first_offset: int,
    view: memoryview,
    low: int,
    high: int,
    *,
    bytes_max: int,
    queue_id: int,
    topic: bytes,
) -> tuple[int, list[tuple[int, int]]]:
    """How many units from the first on are sound, and where in ``view`` their records are.

    The view is a file of the log that starts at ``low`` and is written up to ``high``.  No more
    than ``bytes_max`` are taken.  ``topic`` is as it stands in a record.  Records that lie side
    by side are one stretch.
    """
    size = units["size"].astype(np.int64)
    start = units["log_offset"].astype(np.int64) - low
    fits = (start >= 0) & (size >= RECORD_BYTES_MIN) & (start <= high - low - size)
    fits &= size.cumsum() <= bytes_max
    count = _leading(fits)
    start, size = start[:count], size[:count]
    stop = start + size
    head = gather(view, _HEAD, start)
    topic_at = start + _HEAD_BYTES + head["body_bytes"]
    good = head["log_offset"] == start + low
    good &= head["queue_offset"] == np.arange(first_offset, first_offset + count)
    good &= head["size"] == size
    good &= head["queue_id"] == queue_id
    good &= (head["magic"] == Version.V1) | (head["magic"] == Version.V2)
    good &= head["flags"] & V6_BITS == 0
    good &= (head["body_bytes"] >= 0) & (topic_at + len(topic) <= stop)
    count = _leading(good)
    own = gather(view, np.dtype((np.void, len(topic))), topic_at[:count])
    same = own.view(np.uint8).reshape(count, len(topic)) == np.frombuffer(topic, np.uint8)
    count = _leading(same.all(axis=1))
    if not count:
        return 0, []
    breaks = (start[1:count] != stop[: count - 1]).nonzero()[0]
    starts = [int(start[0]), *start[breaks + 1].tolist()]
    stops = [*stop[breaks].tolist(), int(stop[count - 1])]
    return count, list(zip(starts, stops, strict=True))


def _leading(good: npt.NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(good.argmin())
