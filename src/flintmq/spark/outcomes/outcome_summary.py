"""The summary table of a run: one row for each listener and micro-batch, for dashboards.

    run_id            string     the query; the same after a restart with the same checkpoint
    batch_id          long       the micro-batch, from 0
    group             string     the consumer group
    topic             string     the topic that the messages were sent to
    listener          string     the function; null where the app has none for the topic
    ended_time        timestamp  when the listeners of the micro-batch had run
    messages          long       all of them; the next five add up to it
    consumed          long
    sent_back         long       they are redelivered
    dead              long       they are dead letters of the group
    failed            long       dropped, in broadcasting
    bad_records       long       they could not be decoded
    redelivered       long       of all messages, those that were not delivered for the first time
    calls             long       how often the listener was called
    call_ms_sum       double     the time of all calls
    call_ms_max       double     the longest call
    first_call_time   timestamp  when the first call began
    last_call_time    timestamp  when the last call began
    errors            long       messages with an error
    last_error        string     the error of the last call that failed

Files of a micro-batch are in ``run_id=…/batch_id=…`` below the path, which Spark, DuckDB and Polars
read as two columns.  A micro-batch that runs again replaces its files; in Delta the second write
is dropped by its transaction; any other format gets a second row with the same ``run_id``,
``batch_id`` and ``topic``.

Invariant: a micro-batch has one row for each topic that it had messages of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from flintmq.spark.outcomes.outcome_rows import IS_FIRST, OutcomeKind

RUN_ID: Final = "run_id"
BATCH_ID: Final = "batch_id"

FILE_FORMATS: Final = frozenset({"avro", "csv", "json", "orc", "parquet"})
"""Formats whose files go to a directory for each micro-batch."""

QUERY_ID: Final = "sql.streaming.queryId"
"""Where Spark tells the code of a micro-batch which query it is of."""


@dataclass(frozen=True)
class SummaryOf:
    """Whose outcomes they are: the group, and its listeners by topic."""

    group: str
    listeners: Mapping[str, str]
    run_id: str
    """Where Spark does not say which query it is: through Spark Connect."""


def summarize(frame: DataFrame, of: SummaryOf) -> DataFrame:
    """The summary of one micro-batch of outcomes."""
    outcome, spent, is_first = f.col("outcome"), f.col("milliseconds"), f.col(IS_FIRST)
    error, started = f.col("error"), f.col("started_time")
    names = f.create_map(*[f.lit(text) for pair in of.listeners.items() for text in pair])
    counted: list[Column] = [
        f.count_if(outcome == kind.value).alias(name)
        for name, kind in (
            ("consumed", OutcomeKind.CONSUMED),
            ("sent_back", OutcomeKind.SENT_BACK),
            ("dead", OutcomeKind.DEAD),
            ("failed", OutcomeKind.FAILED),
            ("bad_records", OutcomeKind.BAD_RECORD),
        )
    ]
    return frame.groupBy("topic").agg(
        f.first(f.lit(of.group)).alias("group"),
        f.first(names[f.col("topic")]).alias("listener"),
        f.first(f.current_timestamp()).alias("ended_time"),
        f.count("*").alias("messages"),
        *counted,
        f.count_if(f.col("reconsume_times") > 0).alias("redelivered"),
        f.count_if(is_first).alias("calls"),
        f.coalesce(f.sum(f.when(is_first, spent)), f.lit(0.0)).alias("call_ms_sum"),
        f.max(f.when(is_first, spent)).alias("call_ms_max"),
        f.min(f.when(is_first, started)).alias("first_call_time"),
        f.max(f.when(is_first, started)).alias("last_call_time"),
        f.count(error).alias("errors"),
        f.max_by(error, f.when(error.isNotNull(), started)).alias("last_error"),
    )


def write_summary(
    frame: DataFrame, batch_id: int, of: SummaryOf, kind: str, options: Mapping[str, Any]
) -> None:
    """Write the summary of one micro-batch; once, where the format makes that possible."""
    run_id = _query_id(frame) or of.run_id
    summary = summarize(frame, of).coalesce(1)
    path = options.get("path")
    if kind in FILE_FORMATS and path is not None:
        place = f"{str(path).rstrip('/')}/{RUN_ID}={run_id}/{BATCH_ID}={batch_id}"
        summary.write.format(kind).mode("overwrite").options(**{**options, "path": place}).save()
        return
    summary = summary.select(
        f.lit(run_id).alias(RUN_ID), f.lit(batch_id).cast("long").alias(BATCH_ID), "*"
    )
    writer = summary.write.format(kind).mode("append").options(**options)
    if kind == "delta":
        writer = writer.option("txnAppId", run_id).option("txnVersion", batch_id)
    writer.save()


def _query_id(frame: DataFrame) -> str | None:
    session: object = frame.sparkSession
    if not isinstance(session, SparkSession):
        return None
    found: str | None = session.sparkContext.getLocalProperty(QUERY_ID)
    return found
