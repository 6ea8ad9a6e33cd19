"""The offset that a place has in each queue.

Invariant: an offset lies within the extent of its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from flintmq.arrow.reading.queue_source import QueueSource
from flintmq.core.admin.spans import ToEnd, ToStart, ToTime
from flintmq.model.queue import Extent, QueueOffset, QueueRef


def place_offsets(
    queues: QueueSource, place: ToStart | ToEnd | ToTime, extents: Mapping[QueueRef, Extent]
) -> dict[QueueRef, QueueOffset]:
    """The first message, the end, or the first message stored at a time or later."""
    match place:
        case ToStart():
            return {queue: extent.start for queue, extent in extents.items()}
        case ToEnd():
            return {queue: extent.stop for queue, extent in extents.items()}
        case ToTime(time_ms):
            found = queues.offsets_at(extents.keys(), time_ms)
            return {
                queue: min(max(found.get(queue, extent.stop), extent.start), extent.stop)
                for queue, extent in extents.items()
            }
        case _:
            assert_never(place)
