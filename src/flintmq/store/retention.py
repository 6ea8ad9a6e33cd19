"""Retention: which old files of the log are removed, by age or because the disk fills up.

Whole files are removed, the oldest first, never the last one.  A file's age counts from when the
next one was begun, for then its last record was written.  Queues and index follow the log.

    disk use        what is removed
    normal          expired files, when the owner says that the hour has come
    over clean      expired files, at any hour
    over forced     the oldest files, expired or not
    over refuse     and nothing more is appended until there is room

`StoreExtent` says how much a store holds and how full its disk is, for operators.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise

from flintmq.errors import DiskFailed
from flintmq.model.queue import LogOffset
from flintmq.protocol.records.record import store_time_ms
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.log.commit_log import Segment
from flintmq.store.record_lookup import record_view
from flintmq.store.recovery.parts import StoreParts

FILES_AT_ONCE_MAX = 10
"""Removing many large files at once would keep the disk from everything else."""

_HOUR_MS = 3_600_000


def percent_used(used_bytes: int, usable_bytes: int) -> int:
    """How full a disk is, rounded up."""
    total = used_bytes + usable_bytes
    return -(-used_bytes * 100 // total) if total > 0 else 0


def expired_count(
    finished_ms: Sequence[int], config: StoreConfig, percent: int, now_ms: int, *, due: bool
) -> int:
    """How many of the oldest files go.

    ``finished_ms`` tells of each file but the last when it got its last record.  ``due``
    says that it is the hour to remove what has expired.
    """
    if percent > config.clean_forced_percent:
        return min(len(finished_ms), FILES_AT_ONCE_MAX)
    if not due and percent <= config.clean_percent:
        return 0
    kept_from_ms = now_ms - config.retention_hours * _HOUR_MS
    count = 0
    for finished in finished_ms[:FILES_AT_ONCE_MAX]:
        if finished > kept_from_ms:
            break
        count += 1
    return count


def too_full(parts: StoreParts, percent: int) -> DiskFailed | None:
    """Why nothing more is appended on a disk so full, or nothing when there is room."""
    limit = parts.config.refuse_percent
    if percent <= limit:
        return None
    reason = f"the disk is {percent} % full, and {limit} % is the limit"
    return DiskFailed(str(parts.directory), "append to", reason, errno.ENOSPC)


def remove_expired(parts: StoreParts, percent: int, now_ms: int, *, due: bool) -> int:
    """Remove what is no longer kept from log, queues and index; tell how many files of the log."""
    oldest = parts.log.segments[: FILES_AT_ONCE_MAX + 1]
    finished = [_finished_ms(parts, segment, later) for segment, later in pairwise(oldest)]
    count = expired_count(finished, parts.config, percent, now_ms, due=due)
    for _ in range(count):
        parts.log.remove_first()
    if count:
        parts.queues.retain_from(parts.log.min_offset)
        parts.index.remove_before(parts.log.min_offset)
        parts.tombstones.forget_before(parts.log.min_offset)
    return count


def _finished_ms(parts: StoreParts, segment: Segment, later: Segment) -> int:
    """When a file got its last record: when the first of the next file was stored."""
    first = record_view(parts.log, later.start)
    return parts.disk.modified_ms(segment.path) if first is None else store_time_ms(first, 0)


class StoreExtent:
    """Looks at one open store.  Nothing is remembered: every question is asked again."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    @property
    def start_offset(self) -> LogOffset:
        """Where the oldest file of the log begins."""
        return self._parts.log.min_offset

    def earliest_ms(self) -> int | None:
        """When the oldest record of the log was stored, or nothing without one."""
        view = record_view(self._parts.log, self.start_offset)
        return None if view is None else store_time_ms(view, 0)

    def disk_bytes(self) -> tuple[int, int]:
        """Bytes used and bytes still usable on the disk of the store."""
        return self._parts.disk.usage(self._parts.directory)
