"""The progress of a query: figures from Spark's progress reports, and how they are shown.

The figures are batches, messages, rate, lag and the time left.  They are shown as a live line on a
terminal, a log line for each micro-batch, and a plot.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from rich.console import Console
from rich.live import Live
from rich.text import Text

from flintmq.logs import logger
from flintmq.metrics.run_counts import BatchCounts
from flintmq.spark.outcomes.outcome_rows import REPORT
from flintmq.spark.outcomes.task_reports import counts_of
from flintmq.spark.versions.progress_offsets import read_offset
from flintmq.spark.watching.query_progress import lag_by_topic

POINTS_MAX: Final = 10_000
"""Micro-batches that a plot shows; the oldest are dropped first."""

OBSERVED: Final = "flintmq"
BAD_RECORDS: Final = "bad_records"
"""The key under which the progress of a query has the count."""

REPORTS: Final = "reports"
"""The same for the reports of tasks."""

RECENT: Final = 5
"""Micro-batches over which the rate is averaged."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One micro-batch.  ``lag`` is the number of messages after it when it was planned."""

    batch_id: int
    time: str
    messages: int
    duration_ms: int
    lag: int | None
    end: dict[str, Any] = field(repr=False)
    bad_records: int = 0
    """Messages that could not be decoded."""
    reports: tuple[str, ...] = field(default=(), repr=False)
    """What tasks report to the driver; see `flintmq.spark.outcomes.task_reports`."""
    counts: BatchCounts | None = field(default=None, repr=False)
    """The same for metrics, with the outcomes."""
    tasks_ms: int = 0
    """How long its tasks and sinks took."""
    calls: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Calls of listeners by topic."""

    @property
    def per_second(self) -> float:
        return self.messages * 1000 / self.duration_ms if self.duration_ms else 0.0


def read_figures(progress: Mapping[str, Any]) -> BatchFigures | None:
    """The figures in a progress report of Spark; None where it has no end offset."""
    sources = progress.get("sources") or []
    if len(sources) != 1:
        return None
    end = read_offset(sources[0].get("endOffset"))
    if end is None:
        return None
    lag = lag_by_topic(end, read_offset(sources[0].get("latestOffset")))
    durations = progress.get("durationMs") or {}
    reports = _reports(progress)
    counts = counts_of(reports)
    counted = progress.get("numInputRows") or sources[0].get("numInputRows")  # the latter: Connect
    messages = int(counted or 0)
    took_ms = int(durations.get("triggerExecution") or 0)
    return BatchFigures(
        int(progress["batchId"]),
        str(progress["timestamp"]),
        messages,
        took_ms,
        None if lag is None else sum(lag.values()),
        end,
        _bad_records(progress) + counts.bad_records,
        reports,
        BatchCounts(messages, took_ms, lag, counts.outcomes, counts.times),
        int(durations.get("addBatch") or took_ms),
        counts.calls,
    )


def observe_bad(frame: DataFrame, is_bad: Column, *more: Column) -> DataFrame:
    """Have Spark count the bad records of each micro-batch."""
    return frame.observe(OBSERVED, f.count_if(is_bad).alias(BAD_RECORDS), *more)


def observe_outcomes(frame: DataFrame) -> DataFrame:
    """Have Spark collect the reports of tasks, which have the counts."""
    return frame.observe(OBSERVED, f.collect_list(REPORT).alias(REPORTS))


def _observed(progress: Mapping[str, Any]) -> Any:
    return (progress.get("observedMetrics") or {}).get(OBSERVED)


def _reports(progress: Mapping[str, Any]) -> tuple[str, ...]:
    observed = _observed(progress)
    return () if observed is None or REPORTS not in observed else tuple(observed[REPORTS] or ())


def _bad_records(progress: Mapping[str, Any]) -> int:
    """What `observe_bad` counted."""
    observed = _observed(progress)
    if observed is None or BAD_RECORDS not in observed:
        return 0
    return int(observed[BAD_RECORDS] or 0)


class Figures:
    """The totals of a run so far, and its last micro-batches."""

    def __init__(self) -> None:
        self.points: deque[BatchFigures] = deque(maxlen=POINTS_MAX)
        self.batches = 0
        self.messages = 0
        self.bad_records = 0
        self.lag: int | None = None
        self.lags: Mapping[str, int] | None = None
        """The same by topic."""
        self.end: dict[str, Any] | None = None
        self._last_id = -1

    def add(self, all_progress: Iterable[Mapping[str, Any]]) -> list[BatchFigures]:
        """Add the recent progress reports of a query; the micro-batches that are new."""
        new = []
        for progress in all_progress:
            if int(progress.get("batchId") or 0) <= self._last_id:
                continue  # Spark tells the last hundred again and again
            found = read_figures(progress)
            if found is None:
                continue
            self.end, self.lag = found.end, found.lag
            self.lags = None if found.counts is None else found.counts.lag
            if found.batch_id > self._last_id and found.messages:
                self._last_id = found.batch_id
                self.batches += 1
                self.messages += found.messages
                self.bad_records += found.bad_records
                self.points.append(replace(found, reports=(), counts=None))
                new.append(found)
        return new

    @property
    def per_second(self) -> float:
        """Messages per second over the last micro-batches."""
        some = list(self.points)[-RECENT:]
        spent_ms = sum(each.duration_ms for each in some)
        return sum(each.messages for each in some) * 1000 / spent_ms if spent_ms else 0.0

    @property
    def left_s(self) -> float | None:
        """The time that the lag takes at this rate; None where it is not known."""
        if self.lag is None or not self.per_second:
            return None
        return self.lag / self.per_second


log = logger("flintmq.spark")


def log_batch(group: str, batch: BatchFigures) -> None:
    lag = "" if batch.lag is None else f", lag {batch.lag}"
    bad = f", {batch.bad_records} bad records" if batch.bad_records else ""
    log.info(
        "%s: batch %d, %d messages in %d ms, %.0f a second%s%s",
        group,
        batch.batch_id,
        batch.messages,
        batch.duration_ms,
        batch.per_second,
        lag,
        bad,
    )


def progress_text(group: str, figures: Figures) -> str:
    """The text of the live line."""
    parts = [
        group,
        f"{figures.batches} batches",
        f"{figures.messages:,} messages",
        f"{figures.per_second:,.0f}/s",
    ]
    if figures.bad_records:
        parts.append(f"{figures.bad_records:,} bad records")
    if figures.lag is not None:
        parts.append(f"lag {figures.lag:,}")
    if figures.lag and figures.left_s is not None:
        parts.append(f"{_duration(figures.left_s)} left")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class LiveLine:
    """A line of progress on stderr, updated in place; nothing where stderr is no terminal."""

    def __init__(self, group: str, console: Console | None = None) -> None:
        self._group = group
        console = console or Console(stderr=True)
        self._live = Live(console=console, transient=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, figures: Figures) -> None:
        if self._live is not None:
            self._live.update(Text(progress_text(self._group, figures)))


def plot(points: Sequence[BatchFigures], path: str, title: str) -> None:
    """Rate and lag over time, as a PNG."""
    figure_class: Any = importlib.import_module("matplotlib.figure").Figure
    figure = figure_class(figsize=(9, 5), layout="constrained")
    rate, lag = figure.subplots(2, 1, sharex=True)
    times = [datetime.fromisoformat(each.time) for each in points]
    rate.plot(times, [each.per_second for each in points], marker=".")
    rate.set_ylabel("messages a second")
    rate.set_title(title)
    known = [(time, each.lag) for time, each in zip(times, points, strict=True)]
    shown = [(time, value) for time, value in known if value is not None]
    lag.plot([time for time, _ in shown], [value for _, value in shown], marker=".", color="C1")
    lag.set_ylabel("lag, messages")
    for axis in (rate, lag):
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.autofmt_xdate()
    figure.savefig(path, format="png", dpi=120)
