"""A chosen part of a group's dead letters, sent again by tasks, no faster than allowed.

    plan_replay ──► which queues, from where to where; counted by topic and day: the dry run
        run     ──► piece by piece of those queues, the oldest first
                      tasks send at their share of the rate; each dead letter gives one row back
                      rows go to the log, if there is one

What a plan has counted is what it sends: dead letters that come later, perhaps because a replay
failed again, are not in it.  Those that cannot be decoded are counted, and are not sent: nobody
could decode them then either.

A dead letter that cannot be sent is a row with an error and no failed task, because Spark would
begin a failed task anew and send again what it had sent.  After `FAILURES_MAX` failures in a row
a task sends no more, and the run ends with its piece.

At least once: a driver or executor that dies takes with it what it knew of the piece at hand.
Consumers tell a repeat by its message id, which stays the same.  A run with the log of an earlier
one passes over what that one sent.
"""

from __future__ import annotations

import csv
import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flintmq.arrow.reading.open_queues import open_queues
from flintmq.core.admin.dead_letters import REPLAY_RATE, ReplayTo
from flintmq.errors import InvalidSetting
from flintmq.model.group import with_namespace
from flintmq.model.queue import QueueOffset, Span
from flintmq.spark.options import source_table as table
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.pipelines.dead_letter_replay_task import (
    FAILED,
    LETTER_COLUMNS,
    NOT_TRIED,
    PASSED_OVER,
    SENT,
    SentRow,
    TaskPlan,
    send_rows,
)
from flintmq.spark.pipelines.dead_letter_report import dead_letter_options, letter_frame
from flintmq.spark.source.offset_ranges import batch_spans
from flintmq.spark.source.preflight import check_source, has_option, require_driver

PIECE_MESSAGES: Final = 10_000
"""Of one Spark job: what is at stake when a driver dies, and rows that it holds."""

PIECE_S: Final = 30
"""About how long a piece takes at least, so that slow replays show progress."""

TASK_RATE: Final = 200.0
"""Messages a second for which one task is enough: one after the other, a few milliseconds each."""

RATE_MAX: Final = 1_000_000.0

LOG_HEAD: Final = ("group", *SentRow._fields)

Progress = Callable[[int, int], None]
"""Called with how many dead letters were looked at, of how many."""


@dataclass(frozen=True, slots=True)
class ChosenLetters:
    """How many dead letters of one topic and day a plan has; ``topic`` None is unknown."""

    topic: str | None
    day: str
    messages: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a run ended.  ``errors`` has the failures by what they said."""

    sent: int
    failed: int
    not_tried: int
    errors: Mapping[str, int]
    passed_over: int = 0
    """Sent by an earlier run, as the log says."""


def plan_replay(
    spark: SparkSession,
    group: str,
    *,
    topics: Sequence[str] = (),
    days: Sequence[str] = (),
    where: str | None = None,
    outcomes: DataFrame | str | None = None,
    reason_property: str | None = None,
    **options: object,
) -> ReplayPlan:
    """Choose dead letters of a group and count them; nothing is sent.

    ``topics`` are the original ones, ``days`` those of the burial in UTC, as 2026-11-15.  ``where``
    is a condition of Spark SQL on the columns of `dead_letters`.  ``options`` are those of the
    source, such as ``namesrv``, ``tags``, ``sql``, ``startingTimestamp``.
    """
    require_driver(spark, "tasks cannot be given a function of ours")
    given = dead_letter_options(group, options)
    if has_option(given, table.STORE.name):
        raise InvalidSetting(table.STORE.name, "", "a store directory takes no messages")
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        reason = "dead letters would be sent twice: set it to false"
        raise InvalidSetting("spark.speculation", "true", reason)
    parsed = check_source(given, stream=False)
    with closing(open_queues(parsed.access, parsed.store)) as queues:
        spans = batch_spans(queues, parsed)

    def frame(spans: Sequence[Span], tasks: int) -> DataFrame:
        exact = _between(given, spans, tasks)
        found = letter_frame(spark, exact, outcomes, reason_property, body=True)
        if topics:
            found = found.where(f.col("topic").isin(list(topics)))
        if days:
            found = found.where(f.col("day").cast("string").isin(list(days)))
        return found if where is None else found.where(where)

    is_bad = f.col("bad_reason").isNotNull()
    groups = frame(spans, 1).groupBy("topic", "day")
    counts = f.count_if(~is_bad).alias("messages"), f.count_if(is_bad).alias("bad")
    counted = groups.agg(*counts).orderBy("day", "topic").collect()
    chosen = tuple(
        ChosenLetters(row.topic, row.day.isoformat(), row.messages)
        for row in counted
        if row.messages
    )
    bad_records = sum(row.bad for row in counted)
    return ReplayPlan(spark, group, chosen, parsed, spans, frame, bad_records)


class ReplayPlan:
    """Dead letters that were chosen.  `run` sends them, and sends them again when called again."""

    def __init__(
        self,
        spark: SparkSession,
        group: str,
        chosen: tuple[ChosenLetters, ...],
        options: SourceOptions,
        spans: Sequence[Span],
        frame: Callable[[Sequence[Span], int], DataFrame],
        bad_records: int = 0,
    ) -> None:
        self.group = group
        self.chosen = chosen
        self.bad_records = bad_records
        """How many cannot be decoded, and are left out."""
        self._spark = spark
        self._options = options
        self._spans = spans
        self._frame = frame

    def __repr__(self) -> str:
        return f"<ReplayPlan of {self.group!r}: {self.messages} dead letters>"

    @property
    def messages(self) -> int:
        """How many dead letters name the topic they came from."""
        return sum(each.messages for each in self.chosen if each.topic is not None)

    @property
    def without_topic(self) -> int:
        """How many dead letters name no topic, and are left out."""
        return sum(each.messages for each in self.chosen if each.topic is None)

    def run(
        self,
        *,
        to: ReplayTo = ReplayTo.GROUP,
        rate: float = REPLAY_RATE,
        log: str | None = None,
        progress: Progress | None = None,
    ) -> Replayed:
        """Send them, ``rate`` a second, to the group alone or to everybody who reads the topic."""
        if not 0 < rate <= RATE_MAX:
            raise InvalidSetting("rate", str(rate), f"give a number above 0, {RATE_MAX:g} at most")
        kept = None if log is None else ReplayLog(Path(log).expanduser())
        cores = self._spark.sparkContext.defaultParallelism
        tasks = max(1, min(cores, math.ceil(rate / TASK_RATE)))
        group = with_namespace(self._options.access.namespace, self.group)
        piece = max(1, min(PIECE_MESSAGES, math.ceil(rate * PIECE_S)))
        done = {} if kept is None else kept.sent(self.group)
        total, looked = sum(map(len, self._spans)), 0
        counts: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for spans in pieces(self._spans, piece):
            sent_before = frozenset(_within(done, spans))
            plan = TaskPlan(self._options.access, group, to, rate / tasks, sent_before)
            can_go = f.col("topic").isNotNull() & f.col("bad_reason").isNull()
            frame = self._frame(spans, tasks).where(can_go)
            chosen = frame.select(*LETTER_COLUMNS).coalesce(tasks)
            rows = chosen.rdd.mapPartitions(send_rows(plan)).collect()
            if kept is not None:
                kept.append(self.group, rows)
            counts.update(row.outcome for row in rows)
            errors.update(row.error for row in rows if row.error is not None)
            looked += sum(map(len, spans))
            if progress is not None:
                progress(looked, total)
            if counts[NOT_TRIED]:
                break
        return Replayed(
            counts[SENT],
            counts[FAILED],
            self.messages - counts[SENT] - counts[FAILED] - counts[PASSED_OVER],
            dict(errors),
            counts[PASSED_OVER],
        )


def pieces(spans: Sequence[Span], count: int) -> Iterator[list[Span]]:
    """The spans in pieces of about ``count`` messages together, from their starts on."""
    filled = sum(len(span) > 0 for span in spans)
    if not filled:
        return
    each = max(1, count // filled)
    for at in range(0, max(map(len, spans)), each):
        yield [
            Span(
                span.queue,
                QueueOffset(min(span.start + at, span.stop)),
                QueueOffset(min(span.start + at + each, span.stop)),
            )
            for span in spans
        ]


class ReplayLog:
    """The file of a replay: a line for each dead letter that was sent or failed, only appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.parent.is_dir():
            raise InvalidSetting("log", str(path), f"there is no directory {path.parent}")

    def sent(self, group: str) -> dict[tuple[str, int], list[int]]:
        """The dead letters of a group that were sent: offsets by broker and queue, sorted."""
        found: dict[tuple[str, int], list[int]] = {}
        if not self._path.exists():
            return found
        with self._path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or LOG_HEAD) != LOG_HEAD:
                reason = "is there already and is no log of a replay"
                raise InvalidSetting("log", str(self._path), reason)
            for line in reader:
                if line["group"] == group and line["outcome"] == SENT:
                    queue = line["broker"], int(line["queue_id"])
                    found.setdefault(queue, []).append(int(line["queue_offset"]))
        for offsets in found.values():
            offsets.sort()
        return found

    def append(self, group: str, rows: Sequence[SentRow]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if not file.tell():
                writer.writerow(LOG_HEAD)
            writer.writerows((group, *row) for row in rows if row.outcome != PASSED_OVER)


def _within(
    sent: Mapping[tuple[str, int], list[int]], spans: Sequence[Span]
) -> Iterator[tuple[str, int, int]]:
    """The offsets of these spans that were sent before."""
    for span in spans:
        queue = span.queue
        offsets = sent.get((queue.broker, queue.queue_id), [])
        for offset in offsets[bisect_left(offsets, span.start) : bisect_left(offsets, span.stop)]:
            yield queue.broker, queue.queue_id, offset


def _between(given: Mapping[str, str], spans: Sequence[Span], tasks: int) -> dict[str, str]:
    """Source options that read exactly these spans."""
    places = (
        table.STARTING_OFFSETS,
        table.STARTING_TIMESTAMP,
        table.ENDING_OFFSETS,
        table.ENDING_TIMESTAMP,
        table.MIN_PARTITIONS,
    )
    overruled = {option.name.lower() for option in places}
    options = {name: text for name, text in given.items() if name.lower() not in overruled}
    starts: dict[str, Any] = {}
    stops: dict[str, Any] = {}
    for span in spans:
        queue = span.queue
        for tree, offset in ((starts, span.start), (stops, span.stop)):
            brokers = tree.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker, {})[str(queue.queue_id)] = int(offset)
    options[table.STARTING_OFFSETS.name] = json.dumps(starts)
    options[table.ENDING_OFFSETS.name] = json.dumps(stops)
    options[table.MIN_PARTITIONS.name] = str(tasks)
    return options
