"""Topics as a table of Parquet, Delta or Iceberg, each message once: `lake`.

    topic(s) ─► stream with a checkpoint ─► `lake_frame`: columns, bodies ─► `lake_formats` ─► DIR

A batch counts when the format's own log has it (`flintmq.spark.pipelines.lake_formats`); one that
is run again after a crash is written again only if it did not count before.  A lake of Parquet has
to be read as ``spark.read.parquet(DIR)``, DIR itself: below it, and for programs that do not know
``_spark_metadata``, all files are there to be seen, those of a batch that is being written among
them; see `flintmq.spark.pipelines.lake_directory`.

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

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.arrow.schema import Form
from flintmq.core.group.consumer_settings import check_range
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.spark.bodies.body_schema import BodySchema, Given, read_schema
from flintmq.spark.environment.query_start import start_query
from flintmq.spark.environment.requirements import has_read_limits
from flintmq.spark.listeners.watched_query import LOOK_S, STOP_S, WatchedQuery
from flintmq.spark.options import source_table as table
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.pipelines.lake_directory import LakeDirectory
from flintmq.spark.pipelines.lake_formats import (
    LakeFormat,
    LakeTable,
    format_of,
    require_format,
    written_columns,
)
from flintmq.spark.pipelines.lake_frame import (
    COUNTED,
    QUARANTINED,
    evolved,
    lake_columns,
    lake_frame,
)
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


@dataclass(frozen=True, slots=True)
class LakeStatus:
    """The progress of a lake.  ``lag`` and the rate are of the last micro-batches."""

    is_active: bool
    batches: int
    messages: int
    per_second: float
    lag: int | None
    quarantined: int = 0
    """Messages whose bodies do not fit the schema."""


def lake(
    spark: SparkSession,
    topics: str | Sequence[str],
    to: str,
    *,
    format: str = LakeFormat.PARQUET,  # noqa: A002  # Spark's own word for it
    schema: Given | None = None,
    into: str | None = None,
    until_now: bool = False,
    checkpoint: str | None = None,
    every_s: float = EVERY_S,
    files: int | None = None,
    progress: bool = False,
    metrics: ClientMetrics | None = None,
    **options: object,
) -> Lake:
    """Start to write topics as a table in ``to``; returns once the query runs.

    ``format`` is parquet, delta or iceberg; the last two need a session with `lake_settings`.
    ``schema`` makes columns of bodies (`flintmq.spark.decode`), ``into`` one column of all of them;
    messages that do not fit are in the partition ``quarantined=1``.

    ``until_now`` ends it when all that is there now is written.  ``checkpoint`` is where the query
    remembers what it read, by default within ``to``; started again with the same, it goes on.
    ``every_s`` is how often files are written, and ``files`` how many a batch writes for each topic
    and day.  ``metrics`` counts micro-batches.  ``options`` are those of the source, such as
    ``namesrv``, ``tags``, ``consumerGroup`` or ``store``; without a place to start at, it is the
    oldest message.
    """
    kind = format_of(format)
    given = lake_options(topics, options)
    if not has_read_limits():
        given = _for_older(given, has_limits(options), until_now=until_now)
    bodies = None if schema is None else _bodies(schema)
    if into is not None and bodies is None:
        raise InvalidSetting("into", into, "has no meaning without a schema")
    parsed = check_source(given, stream=True)
    require_format(spark, kind)
    place = LakeDirectory(spark, to, checkpoint)
    tasks = spark.sparkContext.defaultParallelism if files is None else files
    tasks = min(tasks, FILES_MAX) if files is None else tasks
    check_range("files", tasks, (1, table.MIN_PARTITIONS_MAX))
    if not 0 <= every_s <= EVERY_S_MAX:
        raise InvalidSetting("every_s", str(every_s), f"is out of range, 0 to {EVERY_S_MAX}")
    place.require_own(kind)
    cleanup = ExitStack()
    try:
        if (lock := place.lock()) is not None:
            cleanup.enter_context(lock)
        if kind is LakeFormat.PARQUET and (swept := place.sweep()):
            log.info("%s: %d files that do not count are deleted", place.name, swept)
        spark.dataSource.register(RocketMQDataSource)
        columns = lake_columns(given, parsed, with_bodies=bodies is not None)
        read = spark.readStream.format("rocketmq").options(**columns).load()
        lake_table, exists = LakeTable(spark, kind, place.uri), place.kind is not None
        frame = lake_frame(read, parsed, bodies, into)
        frame = evolved(frame, written_columns(lake_table, exists=exists))
        lake_table.prepare(frame, exists=exists)
        writer = lake_table.writer(frame.coalesce(tasks))
        writer = writer.option("checkpointLocation", place.checkpoint)
        when = f"{round(every_s * 1000)} milliseconds"
        trigger: dict[str, Any] = {"availableNow": True} if until_now else {"processingTime": when}
        query = start_query(writer.trigger(**trigger))
    except BaseException:
        cleanup.close()
        raise
    sifts = bodies is not None
    return Lake(
        place.name, query, cleanup.close, progress=progress, is_sifting=sifts, metrics=metrics
    )


def lake_options(topics: str | Sequence[str], given: Mapping[str, object]) -> dict[str, str]:
    """The options of the source that a lake reads with."""
    options = as_texts(given, topics)
    if not has_option(options, table.STARTING_OFFSETS.name, table.STARTING_TIMESTAMP.name):
        options[table.STARTING_OFFSETS.name] = "earliest"
    if not has_limits(options):
        options[table.MAX_BYTES.name] = str(BATCH_BYTES)
    if SourceOptions.parse(options, stream=True).shape.form is not Form.ROCKETMQ:
        raise InvalidSetting(table.SCHEMA.name, Form.KAFKA, "a lake has RocketMQ's columns")
    return options


def has_limits(options: Mapping[str, object]) -> bool:
    """Whether the size of batches is given."""
    names = {name.lower() for name in options}
    return not names.isdisjoint({table.MAX_BYTES.name.lower(), table.MAX_OFFSETS.name.lower()})


def _for_older(given: Mapping[str, str], is_limited: bool, *, until_now: bool) -> dict[str, str]:
    """The same for a Spark that does not tell a source about limits and triggers.

    What is there now is one batch, unless the user has limits: those the source refuses then.
    """
    if not until_now:
        return {**given, table.TRIGGER.name: table.TriggerKind.INTERVAL.value}
    ours = () if is_limited else (table.MAX_BYTES.name,)
    return {name: text for name, text in given.items() if name not in ours}


def _bodies(schema: Given) -> BodySchema:
    if isinstance(schema, str) and schema in set(Form):  # an option of the source, by its name
        raise InvalidSetting(table.SCHEMA.name, schema, "a lake has RocketMQ's columns")
    return read_schema(schema)


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
        is_sifting: bool = False,
        metrics: ClientMetrics | None = None,
    ) -> None:
        super().__init__(path, query, progress=progress, metrics=metrics)
        self._is_sifting = is_sifting
        self.path = path
        self._release = release
        self._quarantined: dict[int, int] = {}
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
                sum(self._quarantined.values()),
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

    def _progressed(self) -> None:
        """Count the messages of each batch that do not fit."""
        for batch in self.query.recentProgress if self._is_sifting else ():
            counted = batch["observedMetrics"].get(COUNTED)
            if counted is not None:
                self._quarantined[batch["batchId"]] = counted[QUARANTINED] or 0

    def _close(self) -> None:
        """Unlock the directory."""
        self._release()
