"""How fast a group consumes, from looks at its lag.

Members commit every few seconds, and somebody who looks more often sees the offsets stand still and
jump.  So a rate is a mean from one commit to a later one: it is known once two commits of a queue
were seen, and 0 once none was seen for long.

    looks     |  |  |  |  |  |  |  |
    commits     x        x        x         x, offset at the last one - x, offset at the first one
                └─ seen ─┴─ known ┴─►       ──────────────────────────────────────────────────────
                                                         time between these two

Invariant: a rate is never negative, and never 0 between two commits of a group that consumes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from flintmq.core.admin.lag import GroupLag, QueueLag
from flintmq.model.queue import QueueRef

WINDOW_MS: Final = 60_000
"""How far back a mean goes: long enough for several commits, short enough to follow a change."""

STALL_MS: Final = 15_000
"""Without a commit for so long a queue stands still: three times the default of members."""

COMMITS_KEPT: Final = 3
"""Commits that are kept whatever their age, for groups that commit once in minutes."""


@dataclass(frozen=True, slots=True)
class LagTrend:
    """How a lag changes: messages a second out and in, and how long until there is none.

    What is not known yet is None.  ``drain_s`` is None too where the lag does not shrink.
    """

    consumed_per_s: float | None
    stored_per_s: float | None
    drain_s: float | None

    @classmethod
    def of(cls, consumed_per_s: float | None, stored_per_s: float | None, lag: int) -> LagTrend:
        drain_s = 0.0 if lag == 0 else None
        if lag and consumed_per_s is not None and stored_per_s is not None:
            shrinks_per_s = consumed_per_s - stored_per_s
            drain_s = lag / shrinks_per_s if shrinks_per_s > 0 else None
        return cls(consumed_per_s, stored_per_s, drain_s)


class LagWatch:
    """The trend of one group's lag, from samples in the order of time."""

    def __init__(self) -> None:
        self._queues: dict[QueueRef, _QueueHistory] = {}

    def add(self, found: GroupLag, now_ms: int) -> tuple[LagTrend, dict[QueueRef, LagTrend]]:
        """Add a sample; the trend of the group, and of each queue."""
        known = self._queues
        self._queues = {each.queue: known.get(each.queue, _QueueHistory()) for each in found.queues}
        by_queue = {}
        consumed: list[float] = []
        stored: list[float] = []
        is_known = True
        for each in found.queues:
            history = self._queues[each.queue]
            history.add(each, now_ms)
            out, into = history.consumed_per_s(now_ms), history.stored_per_s(now_ms)
            by_queue[each.queue] = LagTrend.of(out, into, each.lag)
            consumed += [] if out is None else [out]
            stored += [] if into is None else [into]
            is_known &= out is not None or (each.lag == 0 and not history.commits)
        total = LagTrend.of(
            sum(consumed) if consumed and is_known else None,
            sum(stored) if stored else None,
            found.lag,
        )
        return total, by_queue


class _OffsetAt(NamedTuple):
    time_ms: int
    offset: int


@dataclass(slots=True)
class _QueueHistory:
    """Where a queue and its group were."""

    commits: deque[_OffsetAt] = field(default_factory=deque)
    """Looks at which the committed offset was another than before."""
    ends: deque[_OffsetAt] = field(default_factory=deque)
    committed: int | None = None
    since_ms: int = 0

    def add(self, each: QueueLag, now_ms: int) -> None:
        if self.committed is None or each.consumer_offset < self.committed:  # new, or moved back
            self.commits.clear()
            self.since_ms = now_ms
        elif each.consumer_offset > self.committed:
            self.commits.append(_OffsetAt(now_ms, each.consumer_offset))
        if self.ends and each.max_offset < self.ends[-1].offset:
            self.ends.clear()
        self.committed = each.consumer_offset
        self.ends.append(_OffsetAt(now_ms, each.max_offset))
        while len(self.commits) > COMMITS_KEPT and self.commits[0].time_ms < now_ms - WINDOW_MS:
            self.commits.popleft()
        while len(self.ends) > 2 and self.ends[0].time_ms < now_ms - WINDOW_MS:
            self.ends.popleft()

    def consumed_per_s(self, now_ms: int) -> float | None:
        times = [each.time_ms for each in self.commits]
        gaps = [later - time for time, later in pairwise(times)]
        stall_ms = max([STALL_MS, *(3 * gap for gap in gaps)])
        if now_ms - (times[-1] if times else self.since_ms) >= stall_ms:
            return 0.0
        if len(self.commits) < 2:
            return None
        return _rate(self.commits[0], self.commits[-1])

    def stored_per_s(self, now_ms: int) -> float | None:
        return _rate(self.ends[0], self.ends[-1]) if self.ends[0].time_ms < now_ms else None


def _rate(first: _OffsetAt, last: _OffsetAt) -> float:
    return (last.offset - first.offset) * 1000 / (last.time_ms - first.time_ms)
