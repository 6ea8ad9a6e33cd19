"""What is counted of a Spark query, in the program that started it.

    progress of the query, for each micro-batch ─► `RunCounts` ─┬─► samples for Prometheus
                                                                └─► `RunReport` for the console

Tasks run in other processes.  What they count comes with the progress of the query when a
micro-batch ends, so nothing is counted for a message here.

Invariant: a query that ended leaves its counts and takes its gauges with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flintmq.metrics.families import Distribution, Family, Samples, counter, gauge, histogram
from flintmq.metrics.run_reports import POINTS_MAX, BatchPoint, RunReport

BATCH_BOUNDS_MS: Final = (100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
CALL_BOUNDS_MS: Final = (1, 5, 10, 100, 10_000, 60_000)
"""Those of listeners on threads."""

RECENT: Final = 5
"""Micro-batches over which the rate is averaged."""

_WHO: Final = ("run", "kind")

BATCHES: Final = counter(
    "flintmq_spark_batches_total", "Micro-batches with messages that ended.", *_WHO
)
MESSAGES: Final = counter("flintmq_spark_messages_total", "Rows that they read from topics.", *_WHO)
OUTCOMES: Final = counter(
    "flintmq_spark_outcomes_total",
    "Messages of listeners, by what came of them: consumed, sent back (they come again), "
    "dead (letters), failed, bad record.",
    *(*_WHO, "outcome"),
)
BATCH_TIME: Final = histogram(
    "flintmq_spark_batch_time_milliseconds",
    "One micro-batch, from its planning to its commit.",
    BATCH_BOUNDS_MS,
    *_WHO,
)
CALL_TIME: Final = histogram(
    "flintmq_spark_listener_time_milliseconds",
    "One call of a listener in a task.",
    CALL_BOUNDS_MS,
    *_WHO,
)
ACTIVE: Final = gauge("flintmq_spark_active", "1 while the query runs.", *_WHO)
RATE: Final = gauge(
    "flintmq_spark_messages_per_second",
    f"Messages a second while the last {RECENT} micro-batches ran.",
    *_WHO,
)
LAG: Final = gauge(
    "flintmq_spark_lag_messages",
    "Messages behind the last micro-batch when it was planned.",
    *(*_WHO, "topic"),
)

FAMILIES: tuple[Family, ...] = (
    BATCHES,
    MESSAGES,
    OUTCOMES,
    BATCH_TIME,
    CALL_TIME,
    ACTIVE,
    RATE,
    LAG,
)


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Calls of listeners in one micro-batch: how many in each bucket, and how long in all."""

    counts: tuple[int, ...] = (0,) * (len(CALL_BOUNDS_MS) + 1)
    sum_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """One micro-batch that ended."""

    messages: int
    took_ms: int
    lag: Mapping[str, int] | None = None
    outcomes: Mapping[str, int] = field(default_factory=dict)
    calls: CallTimes = CallTimes()


class RunCounts:
    """What one query counts, on any thread."""

    def __init__(self, name: str, kind: str, now_ms: int) -> None:
        self.name = name
        self.kind = kind
        self.is_active = True
        self._started_ms = now_ms
        self._lock = threading.Lock()
        self._batches = 0
        self._messages = 0
        self._lag: dict[str, int] | None = None
        self._outcomes: dict[str, int] = {}
        self._batch_times = Distribution(BATCH_BOUNDS_MS)
        self._call_times = Distribution(CALL_BOUNDS_MS)
        self._points: deque[BatchPoint] = deque(maxlen=POINTS_MAX)

    def began(self, now_ms: int) -> None:
        """A query of the same name began anew; what was counted stays."""
        with self._lock:
            self.is_active, self._started_ms = True, now_ms

    def ended(self) -> None:
        """The query runs no more."""
        self.is_active = False

    def batch(self, batch: BatchCounts, now_ms: int) -> None:
        """A micro-batch with messages ended."""
        with self._lock:
            self._batches += 1
            self._messages += batch.messages
            self._keep_lag(batch.lag)
            for outcome, count in batch.outcomes.items():
                self._outcomes[outcome] = self._outcomes.get(outcome, 0) + count
            self._batch_times.add(batch.took_ms)
            times = self._call_times
            times.counts = [a + b for a, b in zip(times.counts, batch.calls.counts, strict=True)]
            times.sum += batch.calls.sum_ms
            behind = None if batch.lag is None else sum(batch.lag.values())
            self._points.append(BatchPoint(now_ms, batch.messages, batch.took_ms, behind))

    def behind(self, lag: Mapping[str, int] | None) -> None:
        """What was left when the query looked last, by topic."""
        with self._lock:
            self._keep_lag(lag)

    def _keep_lag(self, lag: Mapping[str, int] | None) -> None:
        self._lag = None if lag is None else dict(lag)

    @property
    def per_second(self) -> float:
        some = list(self._points)[-RECENT:]
        spent_ms = sum(each.took_ms for each in some)
        return sum(each.messages for each in some) * 1000 / spent_ms if spent_ms else 0.0

    def fill(self, samples: dict[Family, Samples]) -> None:
        who = (self.name, self.kind)
        with self._lock:
            samples[ACTIVE].add(int(self.is_active), *who)
            samples[BATCHES].add(self._batches, *who)
            samples[MESSAGES].add(self._messages, *who)
            samples[BATCH_TIME].add(self._batch_times, *who)
            for outcome, count in self._outcomes.items():
                samples[OUTCOMES].add(count, *who, outcome)
            if self._call_times.count:
                samples[CALL_TIME].add(self._call_times, *who)
            if self.is_active:
                samples[RATE].add(self.per_second, *who)
                for topic, count in (self._lag or {}).items():
                    samples[LAG].add(count, *who, topic)

    def report(self) -> RunReport:
        """The figures of now, for people."""
        with self._lock:
            return RunReport(
                self.name,
                self.kind,
                self.is_active,
                self._started_ms,
                self._batches,
                self._messages,
                self.per_second,
                self._lag,
                dict(self._outcomes),
                self._call_times.count,
                self._call_times.sum,
                list(self._points),
            )
