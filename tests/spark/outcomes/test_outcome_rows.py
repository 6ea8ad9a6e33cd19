"""Outcomes that are collected as columns are those that rows would give."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from flintmq.core.reading.read_span import EVERYTHING
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.spark.outcomes.outcome_rows import (
    CONSUMED,
    OUTCOME_ARROW,
    Fate,
    OutcomeColumns,
    OutcomeKind,
)
from support.record_examples import EXAMPLE
from support.spark.pages import page_of

QUEUE = QueueRef("%RETRY%g", "broker-b", 3)


def message(offset: int, reconsume_times: int = 0) -> ReceivedMessage:
    (one,) = page_of(EXAMPLE).messages(EVERYTHING)
    return one._replace(queue_offset=QueueOffset(offset), reconsume_times=reconsume_times)


def row(
    one: ReceivedMessage, fate: Fate, started_us: int, spent_ms: float, *, is_first: bool
) -> tuple[object, ...]:
    return (
        one.topic,
        QUEUE.topic,
        QUEUE.broker,
        QUEUE.queue_id,
        one.queue_offset,
        one.message_id,
        fate.kind.value,
        one.reconsume_times,
        started_us,
        spent_ms,
        fate.error,
        None,
        is_first,
    )


def test_calls_that_consumed_all_and_calls_that_did_not() -> None:
    first, second = [message(1), message(2, 4)], [message(3), message(4)]
    fates = [CONSUMED, Fate(OutcomeKind.SENT_BACK, "ValueError: no")]
    made = OutcomeColumns(QUEUE)

    made.add(first, 1_000, 2.5)
    made.add(second, 3_000, 0.5, fates)

    rows = [
        row(first[0], fates[0], 1_000, 2.5, is_first=True),
        row(first[1], fates[0], 1_000, 2.5, is_first=False),
        row(second[0], fates[0], 3_000, 0.5, is_first=True),
        row(second[1], fates[1], 3_000, 0.5, is_first=False),
    ]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), OUTCOME_ARROW, strict=True)
    ]
    assert made.batch() == pa.RecordBatch.from_arrays(arrays, schema=OUTCOME_ARROW)


def test_where_all_was_consumed() -> None:
    some = [message(n) for n in range(5)]
    made = OutcomeColumns(replace(QUEUE, queue_id=0))

    made.add(some, 7, 0.0, [CONSUMED] * 5)
    batch = made.batch()

    assert batch is not None
    assert set(batch.column("outcome").to_pylist()) == {"consumed"}
    assert batch.column("error").null_count == 5


def test_nothing_makes_no_batch() -> None:
    made = OutcomeColumns(QUEUE)
    made.add([], 0, 0.0)

    assert made.batch() is None
