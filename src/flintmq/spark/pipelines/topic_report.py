"""Statistics of topics, over time: `topic_report`.

    summary.csv     one line for each topic, and one for all together
    over_time.csv   the same in steps of time
    tags.csv        messages of each tag
    keys.csv        the keys that most messages have
    retries.csv     second and later deliveries, and dead letters, of each group
    report.png      a picture of it

Times are store times, in UTC.  Sizes are those of bodies, unpacked.  Latency is from the sender's
clock to the broker's: where the two differ it is off by as much, and may be negative.  Quantiles
are Spark's approximate ones, good to a ten thousandth.

A retried message is stored again in the retry topic of its group, not in its own; so retries are
read there, of the groups that are known to read the topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from flintmq.errors import InvalidSetting
from flintmq.spark.options import source_table as table
from flintmq.spark.pipelines.report_output import ReportTable, ready_directory, utc_text
from flintmq.spark.pipelines.retry_counts import RetryCount, count_retries, retry_frame
from flintmq.spark.pipelines.topic_plot import plot_topics
from flintmq.spark.source.data_source import RocketMQDataSource
from flintmq.spark.source.preflight import as_texts, check_source, has_option

STEPS_MAX: Final = 200
"""Steps of time unless told otherwise; more cannot be seen in a picture."""

STEPS_ASKED_MAX: Final = 100_000
"""Steps of time that may be asked for."""

STEPS_MS: Final = tuple(
    1_000 * seconds
    for seconds in (
        *(1, 2, 5, 10, 15, 30),
        *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
        *(3_600 * hours for hours in (1, 2, 3, 6, 12)),
        *(86_400 * days for days in (1, 7, 28, 364)),
    )
)

NAMES_MAX: Final = 100
"""Tags and keys that are listed for each topic, the most frequent ones."""

QUANTILES: Final = (0.5, 0.9, 0.99)

ALL: Final = "*"
"""What stands in place of a topic for all together; no topic is called so."""

PICTURE: Final = "report.png"

_COLUMNS: Final = "topic,store_time,born_time,tags,keys,body"


@dataclass(frozen=True, slots=True)
class Numbers:
    """Messages that have a topic, and perhaps a step of time, in common.

    Quantiles are those of `QUANTILES` and then the largest; sizes in bytes, latencies in
    milliseconds, null where no message says when it was born.
    """

    topic: str
    messages: int
    body_bytes: int
    first_ms: int | None
    last_ms: int | None
    sizes: tuple[int, ...]
    latencies_ms: tuple[int | None, ...]
    clock_ahead: int
    """Messages that were stored before they were born."""
    untagged: int
    without_key: int
    bad_records: int = 0
    """Messages that cannot be decoded; what is said of bodies is said of the others."""


@dataclass(frozen=True, slots=True)
class Step:
    """What was stored in one step of time."""

    start_ms: int
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class NameCount:
    """How many messages of a topic have a tag or a key; ``name`` None is none."""

    topic: str
    name: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class TopicReport:
    """Everything that was counted.  Topic `ALL` is all of them together."""

    summary: tuple[Numbers, ...]
    step_ms: int
    steps: tuple[Step, ...]
    tags: tuple[NameCount, ...]
    keys: tuple[NameCount, ...]
    retries: tuple[RetryCount, ...]

    @property
    def total(self) -> Numbers:
        return next(each for each in self.summary if each.topic == ALL)

    def tables(self) -> tuple[ReportTable, ...]:
        """The tables, as they are written to files."""
        return (
            ReportTable("summary", _SUMMARY_HEAD, tuple(map(self._summary_row, self.summary))),
            ReportTable("over_time", _STEP_HEAD, tuple(map(self._step_row, self.steps))),
            ReportTable("tags", ("topic", "tag", "messages"), _names(self.tags)),
            ReportTable("keys", ("topic", "key", "messages"), _names(self.keys)),
            ReportTable(
                "retries",
                ("start", "topic", "consumer_group", "what", "messages"),
                tuple(
                    (utc_text(each.start_ms), each.topic, each.group, each.kind, each.messages)
                    for each in self.retries
                ),
            ),
        )

    def write(self, out: str) -> tuple[Path, ...]:
        """All tables and the picture; where they are."""
        directory = ready_directory(out, PICTURE)
        picture = directory / PICTURE
        plot_topics(self, picture)
        return (*(each.write(directory) for each in self.tables()), picture)

    def _summary_row(self, of: Numbers) -> tuple[object, ...]:
        first, last = of.first_ms, of.last_ms
        spent_s = 0.0 if first is None or last is None else (last - first) / 1000
        peak = max(
            (each.numbers.messages for each in self.steps if each.numbers.topic == of.topic),
            default=0,
        )
        return (
            of.topic,
            of.messages,
            of.body_bytes,
            utc_text(first),
            utc_text(last),
            _rate(of.messages, spent_s),
            _rate(peak, self.step_ms / 1000),
            *of.sizes,
            *of.latencies_ms,
            of.clock_ahead,
            of.untagged,
            of.without_key,
            self._retried(of.topic, "retry"),
            self._retried(of.topic, "dead letter"),
            of.bad_records,
        )

    def _retried(self, topic: str, kind: str) -> int:
        return sum(
            each.messages
            for each in self.retries
            if each.kind == kind and topic in (ALL, each.topic)
        )

    def _step_row(self, step: Step) -> tuple[object, ...]:
        of, step_s = step.numbers, self.step_ms / 1000
        return (
            utc_text(step.start_ms),
            step_s,
            of.topic,
            of.messages,
            _rate(of.messages, step_s),
            _rate(of.body_bytes, step_s),
            *of.sizes,
            *of.latencies_ms,
        )


_QUANTILE_NAMES: Final = (*(f"p{round(100 * each)}" for each in QUANTILES), "max")
_SIZE_NAMES: Final = tuple(f"size_{each}_bytes" for each in _QUANTILE_NAMES)
_LATENCY_NAMES: Final = tuple(f"latency_{each}_ms" for each in _QUANTILE_NAMES)
_SUMMARY_HEAD: Final = (
    *("topic", "messages", "body_bytes", "first", "last", "per_second", "peak_per_second"),
    *_SIZE_NAMES,
    *_LATENCY_NAMES,
    *("stored_before_born", "untagged", "without_key", "retries", "dead_letters", "bad_records"),
)
_STEP_HEAD: Final = (
    *("start", "seconds", "topic", "messages", "per_second", "bytes_per_second"),
    *_SIZE_NAMES,
    *_LATENCY_NAMES,
)


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
        summary = counted or (_NOTHING,)
        total = next(each for each in summary if each.topic == ALL)
        found = [each.topic for each in summary if each.topic != ALL]
        retried = retry_frame(spark, given, parsed, found, total.first_ms)
        ends_ms = [total.last_ms]
        if retried is not None:
            retried = _kept(kept, retried)
            ends_ms += retried.agg(f.max("stored_ms")).collect()[0]
        step_ms = _step_ms(total.first_ms, max(filter(None, ends_ms), default=0), step_ms)
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
    """What has to be known of each message, and no more: it is kept while it is counted."""
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


_NO_SIZES: Final = (0,) * (len(QUANTILES) + 1)
_NO_LATENCIES: Final = (None,) * (len(QUANTILES) + 1)
_NOTHING: Final = Numbers(ALL, 0, 0, None, None, _NO_SIZES, _NO_LATENCIES, 0, 0, 0)


def _step_ms(first_ms: int | None, last_ms: int, asked_ms: int | None) -> int:
    """A step that people use, of which there are not too many."""
    spent_ms = 0 if first_ms is None else last_ms - first_ms
    if asked_ms is not None:
        if spent_ms // asked_ms > STEPS_ASKED_MAX:
            reason = f"would make more than {STEPS_ASKED_MAX} steps"
            raise InvalidSetting("step_ms", str(asked_ms), reason)
        return asked_ms
    return next((each for each in STEPS_MS if spent_ms <= each * STEPS_MAX), STEPS_MS[-1])


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


def _names(counts: Sequence[NameCount]) -> tuple[tuple[object, ...], ...]:
    return tuple((each.topic, each.name, each.messages) for each in counts)


def _rate(amount: int, seconds: float) -> float | None:
    return round(amount / seconds, 3) if seconds > 0 else None
