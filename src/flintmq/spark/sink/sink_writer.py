"""Rows into topics: the writers of a batch and of a stream.

    driver                                 task                            driver
    columns and options are checked ─► rows ─► messages ─► stored ─► Sent ─► commit: counted
                                       any error fails the task; Spark tries it again

At least once: a task that is tried again and a batch that is run again send their rows again,
each under the same `ROW_PROPERTY`, by which consumers drop repeats (`drop_repeats`).  Nothing
can be taken back: an aborted write leaves what was stored.

A stream's rows are named by its query id and batch, which Spark hands to tasks as local
properties; they stay the same over restarts from a checkpoint.  A batch's rows are named by the
option runId, or else by a name made on the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from flintmq.client.producer.packing_producer import PackingProducer
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.spark.environment.jvm_socket import FromJvm
from flintmq.spark.options.sink_options import SinkOptions, sink_options
from flintmq.spark.sink.bad_rows import BadRows
from flintmq.spark.sink.row_identity import prefix_of
from flintmq.spark.sink.sink_rows import ANYWHERE, OutRow, RowPlan, plan_rows
from flintmq.spark.sink.sink_send import Sending, first_turn
from flintmq.spark.versions.arrow_writer import DataSourceStreamArrowWriter

log = logger(__name__)

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark gives to all jobs of a streaming query."""


@dataclass(frozen=True, slots=True)
class Sent(WriterCommitMessage):
    """Counts of what one task has stored and skipped."""

    partition: int
    rows: int
    body_bytes: int
    requests: int
    skipped: int = 0
    first_skipped: str = ""
    """The first skipped row of the task, and why it makes no message."""


def writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer of a batch; `InvalidSetting` when it cannot work."""
    if overwrite:
        raise InvalidSetting("mode", "overwrite", "a topic can only be appended to: mode append")
    chosen = sink_options(options)
    return BatchWriter(chosen, plan_rows(schema, chosen), chosen.run_id or uuid.uuid4().hex)


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: ARG001  # the output mode complete: the whole result, again
) -> DataSourceStreamArrowWriter:
    """The writer of a stream; `InvalidSetting` when it cannot work."""
    chosen = sink_options(options, streaming=True)
    return StreamWriter(chosen, plan_rows(schema, chosen))


class BatchWriter(FromJvm, DataSourceArrowWriter):
    """Writes a frame once."""

    def __init__(self, options: SinkOptions, plan: RowPlan, run_id: str) -> None:
        self._options = options
        self._plan = plan
        self._run_id = run_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return send_rows(iterator, self._options, self._plan, self._run_id, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log.info("write %s: %s", self._run_id, _counted(messages))
        _warn_of_skipped(f"write {self._run_id}", messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("write %s failed, but %s", self._run_id, _counted(messages))


class StreamWriter(FromJvm, DataSourceStreamArrowWriter):
    """Writes the batches of a query."""

    def __init__(self, options: SinkOptions, plan: RowPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        query_id, batch_id = _local(QUERY_ID), _local(BATCH_ID)
        write = query_id.replace("-", "")
        return send_rows(iterator, self._options, self._plan, write, int(batch_id))

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        log.info("batch %d: %s", batch_id, _counted(messages))
        _warn_of_skipped(f"batch {batch_id}", messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        log.warning("batch %d failed, but %s", batch_id, _counted(messages))


def send_rows(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    plan: RowPlan,
    write: str,
    batch: int,
) -> Sent:
    """Send all rows of this task's partition and wait until they are stored."""
    partition = _context().partitionId()
    first = next(batches, None)
    if first is None:
        return Sent(partition, 0, 0, 0)
    prefix, rows = prefix_of(write, batch, partition), 0
    with (
        PackingProducer(options.group, **options.producer_settings()) as producer,
        Sending(producer, options, first_turn(write, batch, partition)) as sending,
        BadRows(options, prefix, lambda bad: sending.add(OutRow(bad, ANYWHERE))) as bad,
    ):
        some: pa.RecordBatch | None = first
        while some is not None:
            packed = plan.packed(some, producer, prefix, rows, options.batch_bytes)
            if packed is not None:
                sending.add_packed(packed)
            else:
                for row in plan.rows(some, prefix, rows, bad):
                    sending.add(row)
            rows += some.num_rows
            some = next(batches, None)
        sending.finish()
        bad.finish()
        stored = rows - bad.skipped
        return Sent(partition, stored, sending.body_bytes, sending.requests, bad.skipped, bad.first)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context


def _local(name: str) -> str:
    value = _context().getLocalProperty(name)
    assert value is not None, f"Spark does not say {name}"
    return value


def _warn_of_skipped(
    what: str, messages: Sequence[WriterCommitMessage | None], options: SinkOptions
) -> None:
    sent = [each for each in messages if isinstance(each, Sent) and each.skipped]
    if sent:
        count = sum(each.skipped for each in sent)
        where = f", and are in {options.quarantine}" if options.quarantine else ""
        first = sent[0].first_skipped
        log.warning("%s: %d rows are not sent%s; the first is %s", what, count, where, first)


def _counted(messages: Sequence[WriterCommitMessage | None]) -> str:
    sent = [message for message in messages if isinstance(message, Sent)]
    rows, requests = sum(part.rows for part in sent), sum(part.requests for part in sent)
    body_bytes = sum(part.body_bytes for part in sent)
    how = f"by {len(sent)} tasks in {requests} requests"
    return f"{rows} messages of {body_bytes} bytes are stored {how}"
