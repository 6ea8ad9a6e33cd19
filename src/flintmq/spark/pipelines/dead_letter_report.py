"""Dead letters of a group as a frame, and how many there are by reason, topic and day.

    topic         where the message was first sent to; null where it does not say
    day           on which it was buried, in UTC
    reason        why, see below
    tries         how often it was sent back
    and           message_id, origin_message_id, tags, keys, born_time, store_time, properties,
                  and broker, queue_id, queue_offset of the dead letter itself
    bad_reason    why it cannot be decoded; null where it can

What the reason is says `reports.dead_letter_figures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from flintmq.arrow.schema import BAD_RECORD
from flintmq.errors import InvalidSetting
from flintmq.model import properties as names
from flintmq.model.group import check_group_name, dead_letter_topic
from flintmq.reports.dead_letter_figures import (
    GROUPS_MAX,
    ID_PATTERN,
    NUMBER_PATTERN,
    PICTURE,
    REASON_CHARACTERS_MAX,
    UNKNOWN,
    DeadLetterGroup,
    DeadLetterReport,
)
from flintmq.reports.report_output import ready_directory
from flintmq.spark.options import source_table as table
from flintmq.spark.outcomes.outcome_rows import OUTCOME_SCHEMA, OutcomeKind
from flintmq.spark.pipelines.lake_frame import by_day
from flintmq.spark.source.data_source import RocketMQDataSource
from flintmq.spark.source.preflight import as_texts, check_source, has_option

_READ: Final = (
    "broker,queue_id,queue_offset,message_id,tags,keys,born_time,store_time,"
    "reconsume_times,properties"
)
_BAD_OPTIONS: Final = (table.ON_BAD_RECORD, table.INCLUDE_BAD_RECORD)


def dead_letter_report(
    spark: SparkSession,
    group: str,
    out: str | None = None,
    *,
    outcomes: DataFrame | str | None = None,
    reason_property: str | None = None,
    where: str | None = None,
    **options: object,
) -> DeadLetterReport:
    """Count the dead letters of a group; with ``out``, write table and picture there.

    ``outcomes`` are the rows of `flintmq.spark.run`, or where they are as Parquet.  ``where`` is a
    condition of Spark SQL on the columns of `dead_letters`.  ``options`` are those of the source,
    such as ``namesrv``, ``store``, ``tags``, ``startingTimestamp``.
    """
    if out is not None:
        ready_directory(out, PICTURE)
    given = dead_letter_options(group, options)
    check_source(given, stream=False)
    frame = letter_frame(spark, given, outcomes, reason_property, body=False)
    if where is not None:
        frame = frame.where(where)
    counted = frame.groupBy("topic", "reason", "day").agg(
        f.count("*").alias("messages"),
        f.max("tries").alias("tries_max"),
        f.min(f.unix_millis("store_time")).alias("first_ms"),
        f.max(f.unix_millis("store_time")).alias("last_ms"),
    )
    counted = counted.persist()
    try:
        total = counted.agg(f.sum("messages")).collect()[0][0] or 0
        order = f.desc("messages"), f.col("day"), f.col("topic"), f.col("reason")
        rows = counted.orderBy(*order).limit(GROUPS_MAX).collect()
    finally:
        counted.unpersist()
    groups = tuple(
        DeadLetterGroup(
            row.topic,
            row.reason,
            row.day.isoformat(),
            row.messages,
            row.tries_max,
            row.first_ms,
            row.last_ms,
        )
        for row in rows
    )
    left_out = total - sum(each.messages for each in groups)
    report = DeadLetterReport(group, total, groups, left_out)
    if out is not None:
        report.write(out)
    return report


def dead_letters(
    spark: SparkSession,
    group: str,
    *,
    outcomes: DataFrame | str | None = None,
    reason_property: str | None = None,
    body: bool = False,
    **options: object,
) -> DataFrame:
    """The dead letters of a group, one row each; with ``body`` also their bodies and flags."""
    given = dead_letter_options(group, options)
    check_source(given, stream=False)
    return letter_frame(spark, given, outcomes, reason_property, body=body)


def dead_letter_options(group: str, given: Mapping[str, object]) -> dict[str, str]:
    """The options of the source that reads the dead letters of a group."""
    check_group_name(group)
    options = as_texts(given, dead_letter_topic(group))
    for option in (table.SCHEMA, table.COLUMNS_WANTED, table.PROPERTIES_AS, *_BAD_OPTIONS):
        if has_option(options, option.name):
            raise InvalidSetting(option.name, "", "dead letters have columns of their own")
    return options


def letter_frame(
    spark: SparkSession,
    options: Mapping[str, str],
    outcomes: DataFrame | str | None,
    reason_property: str | None,
    *,
    body: bool,
) -> DataFrame:
    """The frame of dead letters, from options that were checked."""
    columns = f"{_READ},body,flag" if body else _READ
    spark.dataSource.register(RocketMQDataSource)
    reader = spark.read.format("rocketmq").options(**options)
    reader = reader.option("columns", f"{columns},{BAD_RECORD}").option("properties", "map")
    frame = by_day(reader.load())
    carried = f.col("properties")
    frame = frame.select(
        f.coalesce(
            _filled(carried[names.DLQ_ORIGIN_TOPIC]), _filled(carried[names.RETRY_TOPIC])
        ).alias("topic"),
        "day",
        f.col("reconsume_times").alias("tries"),
        "message_id",
        f.coalesce(
            _filled(carried[names.DLQ_ORIGIN_MESSAGE_ID]),
            _filled(carried[names.ORIGIN_MESSAGE_ID]),
        ).alias("origin_message_id"),
        *(name for name in columns.split(",") if name not in ("message_id", "reconsume_times")),
        f.col(f"{BAD_RECORD}.reason").alias("bad_reason"),
    )
    known: list[Column] = []
    if reason_property is not None:
        known.append(_filled(carried[reason_property]))
    if outcomes is not None:
        frame = frame.join(_last_errors(spark, outcomes), "message_id", "left")
        known.append(_filled(f.col("last_error")))
    known += [_filled(carried[names.DLQ_REASON]), f.col("bad_reason")]
    tried = f.format_string(UNKNOWN, f.col("tries"))
    frame = frame.withColumn("reason", f.coalesce(*(same_words(each) for each in known), tried))
    return frame.drop("last_error")


def same_words(error: Column) -> Column:
    """The first line of an error, without what differs from message to message."""
    line = f.trim(f.substring_index(f.trim(error), "\n", 1))
    alike = f.regexp_replace(f.regexp_replace(line, ID_PATTERN, "#"), NUMBER_PATTERN, "#")
    return f.substring(alike, 1, REASON_CHARACTERS_MAX)


def _last_errors(spark: SparkSession, outcomes: DataFrame | str) -> DataFrame:
    """The error of the last outcome of each dead message."""
    rows = spark.read.parquet(outcomes) if isinstance(outcomes, str) else outcomes
    missing = {"message_id", "outcome", "started_time", "error"} - set(rows.columns)
    if missing:
        reason = f"has no column {min(missing)}; outcomes have {', '.join(OUTCOME_SCHEMA.names)}"
        raise InvalidSetting("outcomes", str(outcomes)[:80], reason)
    dead = rows.where(f.col("outcome").isin(OutcomeKind.DEAD.value, OutcomeKind.BAD_RECORD.value))
    last = f.max_by("error", "started_time").alias("last_error")
    return dead.groupBy("message_id").agg(last)


def _filled(text: Column) -> Column:
    """Null where there is nothing to read."""
    return f.when(f.trim(text) != "", text)
