"""How long puts take: from the first request of a turn to the answers of the turn.

    first request ──► write ──┬─► answers   async flush
          begin               └─► sync ──► answers   sync flush
                             end              durable

All messages of a turn took as long as the turn, so a turn costs two looks at the clock and one
entry, however many messages it has.  RocketMQ looks at each put; a batch is one put there, and
here as many as it has messages.  What the broker itself puts, such as delayed messages, counts.

Figures are of the last whole minute, as RocketMQ's are; before there is one, of the time since
the start, where RocketMQ says null.  The maximum is that of all time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, repeat
from math import ceil

from flintmq.broker.tables.broker_stats import Counter
from flintmq.metrics.families import Distribution

PERIOD_MS = 60_000
"""How long RocketMQ counts before it shows what it counted."""

KEPT_MS_MAX = 10_001
"""Longer times are all the same to the figures, so a period has at most so many entries."""

_SHOWN = (
    ("[<=0ms]", 0),
    ("[0~10ms]", 9),
    ("[10~50ms]", 49),
    ("[50~100ms]", 99),
    ("[100~200ms]", 199),
    ("[200~500ms]", 499),
    ("[500ms~1s]", 999),
    ("[1~2s]", 1_999),
    ("[2~3s]", 2_999),
    ("[3~4s]", 3_999),
    ("[4~5s]", 4_999),
    ("[5~10s]", 9_999),
    ("[10s~]", KEPT_MS_MAX),
)
"""Names as RocketMQ prints them, and the longest time in each."""

PUT_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Of the distribution since the start, for metrics."""

_STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1_000, 9))
"""Width and number of the buckets that percentiles are taken from, as in RocketMQ."""

_BOUNDS = tuple(accumulate(chain.from_iterable(repeat(*step) for step in _STEPS)))


class PutTimes:
    """The time puts take.  ``puts`` counts the messages that were put."""

    def __init__(self, puts: Counter, now_ms: int) -> None:
        self.longest_ms = 0
        self.failed_count = 0
        """Messages that were refused because they could not be stored."""
        self.since_start = Distribution(PUT_BOUNDS_S)
        """Seconds."""
        self._puts = puts
        self._timed = 0  # of those
        self._began_ms: int | None = None
        self._unsynced: deque[tuple[int, int, int]] = deque()  # stop, beginning, count
        self._counts: dict[int, int] = {}  # messages by milliseconds, in this period
        self._last: dict[int, int] | None = None  # in the one before
        self._until_ms = now_ms + PERIOD_MS

    def begin(self, now_ms: int) -> None:
        """The first request of a turn came."""
        self._began_ms = now_ms

    def end(self, stop: int | None, began_ms: int, clock: Callable[[], int]) -> None:
        """The turn is written.  Those who wait for the disk wait for it up to ``stop``.

        A turn that nothing but the clock began, began at ``began_ms``.
        """
        if self._began_ms is not None:
            began_ms, self._began_ms = self._began_ms, None
        count = self._count_untimed()
        if not count:
            return
        if stop is None:
            now_ms = clock()
            self._count(now_ms - began_ms, count, now_ms)
        else:
            self._unsynced.append((stop, began_ms, count))

    def durable(self, durable_to: int, now_ms: int) -> None:
        """The disk has everything up to there."""
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= durable_to:
            _, began_ms, count = unsynced.popleft()
            self._count(now_ms - began_ms, count, now_ms)

    def not_written(self) -> None:
        """The write of a turn failed."""
        self.failed_count += self._count_untimed()

    def not_synced(self) -> None:
        """A sync failed: whoever waits for it is refused."""
        self.failed_count += sum(count for _, _, count in self._unsynced)
        self._unsynced.clear()

    def distribution(self, now_ms: int) -> str:
        """How many puts took how long, in RocketMQ's words, a space behind each."""
        totals = [0] * len(_SHOWN)
        for took_ms, count in self._shown(now_ms).items():
            totals[bisect_left(_SHOWN, took_ms, key=lambda shown: shown[1])] += count
        return "".join(f"{name}:{total} " for (name, _), total in zip(_SHOWN, totals, strict=True))

    def percentile(self, share: float, now_ms: int) -> float:
        """The time that such a share of puts did not exceed, in milliseconds."""
        totals = [0] * (len(_BOUNDS) + 1)
        for took_ms, count in self._shown(now_ms).items():
            totals[bisect_left(_BOUNDS, took_ms)] += count
        left = ceil(sum(totals) * share)
        for total, (low_ms, high_ms) in zip(totals, _spans(), strict=True):
            if left <= total:
                return low_ms + ((high_ms - low_ms) * left / total if total else 0.0)
            left -= total
        raise AssertionError("a share is at most 1")

    def carry(self, delta_ms: int) -> None:
        """Move along with the clock."""
        self._until_ms += delta_ms
        self._unsynced = deque((stop, ms + delta_ms, n) for stop, ms, n in self._unsynced)
        if self._began_ms is not None:
            self._began_ms += delta_ms

    def _count_untimed(self) -> int:
        count = self._puts.times - self._timed
        self._timed = self._puts.times
        return count

    def _count(self, took_ms: int, count: int, now_ms: int) -> None:
        if now_ms >= self._until_ms:
            self._next_period(now_ms)
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms
        kept_ms = min(max(took_ms, 0), KEPT_MS_MAX)  # a clock may be moved back
        self._counts[kept_ms] = self._counts.get(kept_ms, 0) + count
        self.since_start.add(max(took_ms, 0) / 1_000, count)

    def _shown(self, now_ms: int) -> dict[int, int]:
        if now_ms >= self._until_ms:
            self._next_period(now_ms)
        return self._counts if self._last is None else self._last

    def _next_period(self, now_ms: int) -> None:
        late_ms = now_ms - self._until_ms
        self._last = self._counts if late_ms < PERIOD_MS else {}
        self._counts = {}
        self._until_ms += late_ms - late_ms % PERIOD_MS + PERIOD_MS


def _spans() -> Iterator[tuple[int, int]]:
    """Where each bucket begins and ends; the last has no end and counts as its beginning."""
    yield from zip((0, *_BOUNDS), (*_BOUNDS, _BOUNDS[-1]), strict=True)
