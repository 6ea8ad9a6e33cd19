"""Every call of a listener, kept: counted in the tally, and as rows of a Parquet table.

    on Spark     the rows that a run gives out for each message, batch by batch
    on threads   the same columns, written down around each call

The table is a directory to which files are added, each by one of the two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from flintmq.cli.demo.tally import SPARK, THREADS, Attempt, Tally
from flintmq.client.run_app import App
from flintmq.core.group.app import AppListener
from flintmq.core.group.listener_results import Consumed, Dead, Outcome, outcomes_of
from flintmq.model.group import retry_topic
from flintmq.model.message import ReceivedMessage
from flintmq.net.clock import wall_ms
from flintmq.spark.listeners.outcome_rows import (
    OUTCOME_ARROW,
    OutcomeKind,
    OutcomeRow,
    outcome_batch,
)

RUN_BY: Final = "run_by"
"""The column that says who called the listener."""

SCHEMA: Final = OUTCOME_ARROW.append(pa.field(RUN_BY, pa.string()))


class Attempts:
    """The table.  Any thread may add to it."""

    def __init__(self, directory: Path, tally: Tally) -> None:
        self.directory = directory
        directory.mkdir()
        self._tally = tally
        self._lock = threading.Lock()
        self._rows: list[OutcomeRow] = []
        self._files = 0

    def take_frame(self, frame: Any, _batch_id: int) -> None:
        """A batch of Spark: what `flintmq.spark.run` calls as its sink."""
        table = frame.toArrow().cast(OUTCOME_ARROW)
        columns = (table.column(name).to_pylist() for name in _TALLIED)
        self._tally.take(SPARK, [Attempt(*_with_micros(row)) for row in zip(*columns, strict=True)])
        self._write(table, SPARK)

    def take_rows(self, rows: list[OutcomeRow]) -> None:
        """Calls on threads."""
        some = [
            Attempt(each.topic, each.message_id, each.outcome, each.started_us) for each in rows
        ]
        self._tally.take(THREADS, some)
        with self._lock:
            self._rows += rows

    def flush(self) -> None:
        """Write what was taken from threads so far."""
        with self._lock:
            rows, self._rows = self._rows, []
        if rows:
            self._write(pa.Table.from_batches([outcome_batch(rows)]), THREADS)

    def _write(self, table: pa.Table, run_by: str) -> None:
        if not table.num_rows:
            return
        with self._lock:
            self._files += 1
            path = self.directory / f"{run_by.lower()}-{self._files:05}.parquet"
        by = pa.array([run_by] * table.num_rows, pa.string())
        pq.write_table(table.append_column(SCHEMA.field(RUN_BY), by), path)


_TALLIED: Final = ("topic", "message_id", "outcome", "started_time")


def _with_micros(row: tuple[str, str, str, datetime]) -> tuple[str, str, str, int]:
    return (*row[:3], round(row[3].timestamp() * 1_000_000))


# On threads


def watched(app: App, take: Callable[[list[OutcomeRow]], None]) -> App:
    """The same app, with every call of its listeners told."""
    copy = App(app.group, **app.settings)
    for each in app.listeners:
        wanted = each.subscription
        copy.listener(
            wanted.topic,
            tags=wanted.tags,
            sql=wanted.sql,
            batch_max=wanted.batch_max,
            ordered=wanted.ordered,
        )(_told(each, app, take))
    return copy


def _told(
    listener: AppListener, app: App, take: Callable[[list[OutcomeRow]], None]
) -> Callable[[tuple[ReceivedMessage, ...]], object]:
    tries_max = int(app.settings["retry_max"])
    is_ordered = bool(listener.subscription.ordered)

    def call(messages: tuple[ReceivedMessage, ...]) -> object:
        started_us, start_ns = wall_ms() * 1_000, perf_counter_ns()
        result = listener.function(messages)
        spent_ms = (perf_counter_ns() - start_ns) / 1e6
        outcomes = outcomes_of(result, len(messages)).outcomes or (Consumed(),) * len(messages)
        rows = []
        for message, outcome in zip(messages, outcomes, strict=True):
            kind, error = _fate(message, outcome, tries_max)
            if is_ordered and kind is OutcomeKind.SENT_BACK:
                continue  # it is tried in place, and is no outcome yet
            is_retry = message.reconsume_times > 0 and not is_ordered
            rows.append(
                OutcomeRow(
                    message.topic,
                    retry_topic(app.group) if is_retry else message.topic,
                    message.broker,
                    message.queue_id,
                    message.queue_offset,
                    message.message_id,
                    kind.value,
                    message.reconsume_times,
                    started_us,
                    spent_ms,
                    error,
                )
            )
        take(rows)
        return result

    return call


def _fate(
    message: ReceivedMessage, outcome: Outcome, tries_max: int
) -> tuple[OutcomeKind, str | None]:
    """A broker makes a dead letter of what comes back after the last try."""
    if isinstance(outcome, Consumed):
        return OutcomeKind.CONSUMED, None
    if isinstance(outcome, Dead) or message.reconsume_times >= tries_max:
        return OutcomeKind.DEAD, outcome.reason
    return OutcomeKind.SENT_BACK, outcome.reason
