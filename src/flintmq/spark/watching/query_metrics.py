"""Metrics of plain streaming queries over topics, by a listener of the session.

    watch_queries(spark, metrics)      every query of the session with a source of ours counts

It counts what Spark reports of a micro-batch when it ends.  Runs of listeners and lakes that were
given metrics count themselves, and are left out here.

Invariant: a micro-batch is counted once.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from flintmq.errors import InvalidSetting
from flintmq.metrics.client_metrics import ClientMetrics
from flintmq.metrics.run_counts import BatchCounts, RunCounts
from flintmq.net.clock import wall_ms
from flintmq.spark.versions.progress_offsets import read_offset
from flintmq.spark.watching.query_progress import lag_by_topic

KIND = "stream"

_counting_themselves: set[str] = set()


def count_itself(query_id: object) -> None:
    """The query with this id has counts of its own."""
    _counting_themselves.add(str(query_id))


def watch_queries(spark: SparkSession, metrics: ClientMetrics) -> QueryMetrics:
    """Count the micro-batches of all queries of a session that read topics, from now on.

    ``spark.streams.removeListener`` with what it returns ends it.
    """
    session: object = spark
    if not isinstance(session, SparkSession):
        reason = "through Spark Connect the program is not where the query runs"
        raise InvalidSetting("spark", type(session).__name__, reason)
    made = QueryMetrics(metrics)
    spark.streams.addListener(made)
    return made


class QueryMetrics(StreamingQueryListener):
    """Counts what a session reports of its queries."""

    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics
        self._queries: dict[str, RunCounts] = {}
        self._last_ids: dict[str, int] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """What it reads is known with its first micro-batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        progress = event.progress
        query_id = str(progress.id)
        found = _read(progress)
        if found is None or query_id in _counting_themselves:
            return
        counts = self._queries.get(query_id)
        if counts is None:
            name = progress.name or query_id
            counts = self._queries[query_id] = self._metrics.spark_run(name, KIND, wall_ms())
        run_id = str(progress.runId)
        if found.messages and progress.batchId > self._last_ids.get(run_id, -1):
            self._last_ids[run_id] = progress.batchId
            counts.batch(found, wall_ms())
        else:
            counts.behind(found.lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing came."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's
        self._last_ids.pop(str(event.runId), None)
        counts = self._queries.pop(str(event.id), None)
        if counts is not None:
            counts.ended()


def _read(progress: StreamingQueryProgress) -> BatchCounts | None:
    """The micro-batch, of the sources that are ours; None where there is none."""
    messages, is_ours = 0, False
    lag: dict[str, int] | None = {}
    for source in progress.sources:
        end = read_offset(source.endOffset)
        if end is None or not _is_offset(end):
            continue
        is_ours = True
        messages += source.numInputRows
        left = lag_by_topic(end, read_offset(source.latestOffset))
        lag = None if lag is None or left is None else lag | left
    if not is_ours:
        return None
    return BatchCounts(messages, progress.durationMs.get("triggerExecution", 0), lag)


def _is_offset(tree: dict[str, Any]) -> bool:
    return "v" in tree and isinstance(tree.get("q"), dict)
