"""Statistics of topics, over time, counted by Spark: `topic_report`.

What is counted, and how it is shown, is that of `reports.topic_figures`.  Quantiles are Spark's
approximate ones, good to a ten thousandth.

A retried message is stored again in the retry topic of its group, not in its own; so retries are
read there, of the groups that are known to read the topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from flintmq.errors import InvalidSetting
from flintmq.reports.report_output import ready_directory
from flintmq.reports.topic_figures import (
    ALL,
    NAMES_MAX,
    NOTHING,
    QUANTILES,
    NameCount,
    Numbers,
    Step,
    choose_step_ms,
)
from flintmq.reports.topic_files import PICTURE, TopicReport
from flintmq.spark.options import source_table as table
from flintmq.spark.pipelines.retry_counts import count_retries, retry_frame
from flintmq.spark.source.data_source import RocketMQDataSource
from flintmq.spark.source.preflight import as_texts, check_source, has_option

_COLUMNS: Final = "topic,store_time,born_time,tags,keys,body"


def topic_report(
    spark: SparkSession,
    topics: str | Sequence[str] = (),
    out: str | None = None,
    *,
    step_ms: int | None = None,
    **options: object,
) -> TopicReport:
    """Count what topics hold; with ``out``, write tables and a picture there.

    Without ``topics``, all of them, if ``options`` name a ``store`` directory.  ``step_ms`` is the
    step of time; without it one is chosen.  ``options`` are those of the source, such as
    ``namesrv``, ``store``, ``tags``, ``startingTimestamp``, ``endingTimestamp``.
    """
    if out is not None:
        ready_directory(out, PICTURE)
    if step_ms is not None and step_ms < 1:
        raise InvalidSetting("step_ms", str(step_ms), "give a number above 0")
    given = report_options(topics, options)
    parsed = check_source(given, stream=False)
    spark.dataSource.register(RocketMQDataSource)
    with ExitStack() as kept:
        frame = _kept(kept, _frame(spark, given))
        counted = tuple(_numbers(row) for row in _counted(frame.rollup("topic")))
        summary = counted or (NOTHING,)
        total = next(each for each in summary if each.topic == ALL)
        found = [each.topic for each in summary if each.topic != ALL]
        retried = retry_frame(spark, given, parsed, found, total.first_ms)
        ends_ms = [total.last_ms]
        if retried is not None:
            retried = _kept(kept, retried)
            ends_ms += retried.agg(f.max("stored_ms")).collect()[0]
        step_ms = choose_step_ms(total.first_ms, max(filter(None, ends_ms), default=0), step_ms)
        report = TopicReport(
            summary,
            step_ms,
            _steps(frame, step_ms),
            _count_names(frame.select("topic", f.col("tags").alias("name"))),
            _count_names(frame.select("topic", f.explode("keys").alias("name"))),
            () if retried is None else count_retries(retried, parsed.access.namespace, step_ms),
        )
    if out is not None:
        report.write(out)
    return report


def _kept(until: ExitStack, frame: DataFrame) -> DataFrame:
    """A frame that is read once, however often it is counted."""
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    until.callback(frame.unpersist)
    return frame


def report_options(topics: str | Sequence[str], given: Mapping[str, object]) -> dict[str, str]:
    """The options of the source that a report reads with."""
    options = as_texts(given, topics)
    names = (table.SUBSCRIBE.name, table.SUBSCRIBE_PATTERN.name, table.ASSIGN.name)
    if not has_option(options, *names):
        if not has_option(options, table.STORE.name):
            raise InvalidSetting("topics", "", "name a topic, or a store directory to read whole")
        options[table.SUBSCRIBE_PATTERN.name] = ".*"
    for name in (table.SCHEMA.name, table.COLUMNS_WANTED.name, table.PROPERTIES_AS.name):
        if has_option(options, name):
            raise InvalidSetting(name, "", "a report reads the columns that it needs")
    return options


def _frame(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The columns that are counted, and no more: the frame is persisted while it is counted."""
    read = spark.read.format("rocketmq").options(**options).option("columns", _COLUMNS).load()
    stored, born = f.unix_millis("store_time"), f.unix_millis("born_time")
    return read.select(
        "topic",
        stored.alias("stored_ms"),
        (stored - born).alias("latency_ms"),
        f.octet_length("body").alias("size"),
        "tags",
        "keys",
    )


def _counted(groups: Any) -> list[Any]:
    """The numbers of each group."""
    shares = list(QUANTILES)
    rows: list[Any] = groups.agg(
        f.count("*").alias("messages"),
        f.sum("size").alias("body_bytes"),
        f.min("stored_ms").alias("first_ms"),
        f.max("stored_ms").alias("last_ms"),
        f.percentile_approx("size", shares).alias("sizes"),
        f.max("size").alias("size_max"),
        f.percentile_approx("latency_ms", shares).alias("latencies"),
        f.max("latency_ms").alias("latency_max"),
        f.count_if(f.col("latency_ms") < 0).alias("clock_ahead"),
        f.count_if(f.col("tags").isNull()).alias("untagged"),
        f.count_if(f.size("keys") < 1).alias("without_key"),
        f.count_if(f.col("size").isNull()).alias("bad_records"),
    ).collect()
    return sorted(rows, key=lambda row: row["topic"] or "")


def _numbers(row: Any) -> Numbers:
    unknown: tuple[None, ...] = (None,) * len(QUANTILES)
    return Numbers(
        ALL if row.topic is None else row.topic,
        row.messages,
        row.body_bytes or 0,
        row.first_ms,
        row.last_ms,
        (*(row.sizes or (0,) * len(QUANTILES)), row.size_max or 0),
        (*(row.latencies or unknown), row.latency_max),
        row.clock_ahead,
        row.untagged,
        row.without_key,
        row.bad_records,
    )


def _steps(frame: DataFrame, step_ms: int) -> tuple[Step, ...]:
    start = f.col("stored_ms") - f.pmod(f.col("stored_ms"), f.lit(step_ms))
    stepped = frame.where(f.col("stored_ms").isNotNull()).withColumn("start_ms", start)
    rows = [
        row for row in _counted(stepped.rollup("start_ms", "topic")) if row.start_ms is not None
    ]
    rows.sort(key=lambda row: (row.start_ms, row.topic or ""))
    return tuple(Step(row.start_ms, _numbers(row)) for row in rows)


def _count_names(frame: DataFrame) -> tuple[NameCount, ...]:
    """The most frequent names of each topic, and of all together."""
    counted = frame.groupBy("topic", "name").agg(f.count("*").alias("messages"))
    together = counted.groupBy("name").agg(f.sum("messages").alias("messages"))
    both = counted.unionByName(together.withColumn("topic", f.lit(ALL)))
    by_count = Window.partitionBy("topic").orderBy(f.desc("messages"), f.col("name"))
    most = both.withColumn("place", f.row_number().over(by_count))
    rows = most.where(f.col("place") <= NAMES_MAX).orderBy("topic", "place").collect()
    return tuple(NameCount(row.topic, row.name, row.messages) for row in rows)
