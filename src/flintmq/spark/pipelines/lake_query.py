"""Topics as Parquet files, each message once: `lake`.

    topic(s) ─► stream with a checkpoint ─► DIR/topic=…/day=…/part-….parquet

The day is that of the store time, in UTC, whatever the session's time zone.  A batch counts when
Spark notes its files in ``DIR/_spark_metadata``; one that is run again after a crash is written
again only if it did not count before.  So ``spark.read.parquet(DIR)`` gives every message exactly
once, at any time, also while a query writes.  It has to be DIR itself: below it, and for programs
that do not know ``_spark_metadata``, all files are there to be seen, those of a batch that is
being written among them; see `flintmq.spark.pipelines.lake_directory`.

Files are as large as batches make them.  A query that follows a topic runs one batch a minute; one
that reads what is there takes batches of `BATCH_BYTES`.  Each batch writes at most ``files`` files
for each topic and day.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.arrow.schema import BAD_RECORD, PROPERTIES, Form, Properties
from flintmq.core.group.consumer_settings import check_range
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.spark.environment.query_start import start_query
from flintmq.spark.listeners.watched_query import LOOK_S, STOP_S, WatchedQuery
from flintmq.spark.options import source_table as table
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.pipelines.lake_directory import LakeDirectory
from flintmq.spark.source.data_source import RocketMQDataSource
from flintmq.spark.source.preflight import as_texts, check_source, has_option

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

log = logger("flintmq.spark")

EVERY_S: Final = 60.0
"""How often a query that follows topics writes files.  More often makes them small."""

EVERY_S_MAX: Final = 86_400.0

BATCH_BYTES: Final = 1024 * 1024 * 1024
"""Of one batch.  What a crash makes a query read again."""

FILES_MAX: Final = 16
"""Files of one topic and day in a batch, and tasks that read, unless told otherwise."""

TOPIC: Final = "topic"
DAY: Final = "day"
STORE_TIME: Final = "store_time"
DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """The progress of a lake.  ``lag`` and the rate are of the last micro-batches."""

    is_active: bool
    batches: int
    messages: int
    per_second: float
    lag: int | None


def lake(
    spark: SparkSession,
    topics: str | Sequence[str],
    to: str,
    *,
    until_now: bool = False,
    checkpoint: str | None = None,
    every_s: float = EVERY_S,
    files: int | None = None,
    progress: bool = False,
    metrics: ClientMetrics | None = None,
    **options: object,
) -> Lake:
    """Start to write topics as Parquet under ``to``; returns once the query runs.

    ``until_now`` ends it when all that is there now is written.  ``checkpoint`` is where the query
    remembers what it read, by default within ``to``; started again with the same, it goes on.
    ``every_s`` is how often files are written, and ``files`` how many a batch writes for each topic
    and day.  ``metrics`` counts micro-batches.  ``options`` are those of the source, such as
    ``namesrv``, ``tags``, ``consumerGroup`` or ``store``; without a place to start at, it is the
    oldest message.
    """
    given = lake_options(topics, options)
    parsed = check_source(given, stream=True)
    place = LakeDirectory(spark, to, checkpoint)
    tasks = spark.sparkContext.defaultParallelism if files is None else files
    tasks = min(tasks, FILES_MAX) if files is None else tasks
    check_range("files", tasks, (1, table.MIN_PARTITIONS_MAX))
    if not 0 <= every_s <= EVERY_S_MAX:
        raise InvalidSetting("every_s", str(every_s), f"is out of range, 0 to {EVERY_S_MAX}")
    place.require_own()
    cleanup = ExitStack()
    try:
        if (lock := place.lock()) is not None:
            cleanup.enter_context(lock)
        if swept := place.sweep():
            log.info("%s: %d files of a batch that did not end are deleted", place.name, swept)
        spark.dataSource.register(RocketMQDataSource)
        frame = by_day(spark.readStream.format("rocketmq").options(**_read(given, parsed)).load())
        wanted = [name for name in _wanted(parsed) if name != TOPIC]
        writer = (
            frame.select(*wanted, TOPIC, DAY)
            .coalesce(tasks)
            .writeStream.format("parquet")
            .partitionBy(TOPIC, DAY)
            .option("path", place.uri)
            .option("checkpointLocation", place.checkpoint)
        )
        when = f"{round(every_s * 1000)} milliseconds"
        trigger: dict[str, Any] = {"availableNow": True} if until_now else {"processingTime": when}
        query = start_query(writer.trigger(**trigger))
    except BaseException:
        cleanup.close()
        raise
    return Lake(place.name, query, cleanup.close, progress=progress, metrics=metrics)


def lake_options(topics: str | Sequence[str], given: Mapping[str, object]) -> dict[str, str]:
    """The options of the source that a lake reads with."""
    options = as_texts(given, topics)
    if not has_option(options, table.STARTING_OFFSETS.name, table.STARTING_TIMESTAMP.name):
        options[table.STARTING_OFFSETS.name] = "earliest"
    if not has_option(options, table.MAX_BYTES.name, table.MAX_OFFSETS.name):
        options[table.MAX_BYTES.name] = str(BATCH_BYTES)
    if SourceOptions.parse(options, stream=True).shape.form is not Form.ROCKETMQ:
        raise InvalidSetting(table.SCHEMA.name, Form.KAFKA, "a lake has RocketMQ's columns")
    return options


def by_day(frame: DataFrame) -> DataFrame:
    """The frame with a column ``day``: the UTC day of the store time."""
    return frame.withColumn(DAY, day_of(f.col(STORE_TIME)))


def day_of(moment: Column) -> Column:
    """The day in UTC; Spark's own would be that of the session."""
    days = f.floor(f.unix_micros(moment) / f.lit(DAY_US))
    return f.date_from_unix_date(days.cast("int"))


def _wanted(parsed: SourceOptions) -> tuple[str, ...]:
    shape = parsed.shape
    properties = () if shape.properties is Properties.OFF else (PROPERTIES,)
    return shape.columns + properties + ((BAD_RECORD,) if shape.bad_record else ())


def _read(options: Mapping[str, str], parsed: SourceOptions) -> dict[str, str]:
    """Source options with the columns that distinguish files."""
    columns = dict.fromkeys((*_wanted(parsed), TOPIC, STORE_TIME))
    overruled = {table.COLUMNS_WANTED.name.lower(), table.PROPERTIES_AS.name.lower()}
    read = {name: text for name, text in options.items() if name.lower() not in overruled}
    read[table.COLUMNS_WANTED.name] = ",".join(columns)
    if parsed.shape.properties is not Properties.OFF:
        read[table.PROPERTIES_AS.name] = parsed.shape.properties
    return read


class Lake(WatchedQuery):
    """A query that writes a lake.  Leaving a ``with`` block stops it."""

    kind = "lake"

    def __init__(
        self,
        path: str,
        query: StreamingQuery,
        release: Callable[[], None],
        *,
        progress: bool,
        metrics: ClientMetrics | None = None,
    ) -> None:
        super().__init__(path, query, progress=progress, metrics=metrics)
        self.path = path
        self._release = release
        self._watcher.start()

    def status(self) -> LakeStatus:
        """How many messages are written, and how many are left."""
        with self._lock:
            figures = self._figures
            return LakeStatus(
                self.query.isActive,
                figures.batches,
                figures.messages,
                figures.per_second,
                figures.lag,
            )

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """End the query, between two micro-batches if one ends in time; whether it did.

        A micro-batch that is interrupted is written when the lake is started again.
        """
        deadline_s = time.monotonic() + timeout_s
        while self.query.isActive and self.query.status["isTriggerActive"]:
            if time.monotonic() >= deadline_s:
                break
            time.sleep(LOOK_S / 5)
        rested = not self.query.isActive or not self.query.status["isTriggerActive"]
        self._stop_query()
        return rested

    def _close(self) -> None:
        """Unlock the directory."""
        self._release()
