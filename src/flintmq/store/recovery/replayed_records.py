"""Records of one queue as they come out of the log again, and which of them to believe.

What a record says about its queue has no checksum.  A queue offset is believed when it
continues the queue, when lost bytes explain the jump, or when the next record of the queue
agrees with it.  An offset of 0 begins a queue again: its topic was deleted and made anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from flintmq.store.queues.consume_queue import GAP_UNITS_MAX

Ints: TypeAlias = npt.NDArray[np.int64]
QueueKey: TypeAlias = tuple[str, int]
"""Topic and queue id."""


@dataclass(slots=True)
class ReplayedRecords:
    """Records of one queue in the order of the log, as columns."""

    queue_offset: Ints
    log_offset: Ints
    size_bytes: Ints
    code: Ints
    store_ms: Ints
    count: Ints
    """Messages in each record: 1, or what an inner batch says."""

    def __len__(self) -> int:
        return len(self.queue_offset)

    def picked(self, rows: list[int]) -> ReplayedRecords:
        return ReplayedRecords(
            self.queue_offset[rows],
            self.log_offset[rows],
            self.size_bytes[rows],
            self.code[rows],
            self.store_ms[rows],
            self.count[rows],
        )


class RecordVerdict(NamedTuple):
    """Which rows of some records to believe, and which not."""

    rows: list[int]
    strays: list[int]
    is_anew: bool
    """The first of the rows begins the queue again."""


def believed(
    expected: int, arrivals: ReplayedRecords, lost_count: int, place_of_zero: int | None
) -> RecordVerdict:
    """Judge queue offsets that do not simply follow each other.

    ``lost_count`` is how many records may be missing, ``place_of_zero`` where the queue has
    the record of offset 0.
    """
    offsets = arrivals.queue_offset.tolist()
    places = arrivals.log_offset.tolist()
    counts = arrivals.count.tolist()
    rows: list[int] = []
    strays: list[int] = []
    is_anew = False
    for row, offset in enumerate(offsets):
        is_followed = row + 1 < len(offsets) and offsets[row + 1] == offset + counts[row]
        gap = offset - expected
        if offset == 0 and gap < 0 and (is_followed or place_of_zero in (None, places[row])):
            rows, is_anew = [], True
            strays = []  # of the queue as it was before
        elif gap < 0 or gap > GAP_UNITS_MAX or (gap > lost_count + len(strays) and not is_followed):
            strays.append(row)
            continue
        elif offset == 0:
            strays = []
        rows.append(row)
        expected = offset + counts[row]
    return RecordVerdict(rows, strays, is_anew)
