"""Many units of a queue at once: which of them lead to the records they speak of.

The rules are those by which `reading` looks at one record after the other, for records with IPv4
hosts.  Whatever is not as it should be ends what is taken here, and `reading` judges it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from flintmq.protocol.record import RECORD_BYTES_MIN, V6_BITS, Version
from flintmq.protocol.record_scan import gather
from flintmq.store.consume_queue import Units

if TYPE_CHECKING:
    import numpy.typing as npt

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
