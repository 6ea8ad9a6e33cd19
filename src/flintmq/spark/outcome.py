"""What became of each message: one row, for whatever sink wants to keep it.

    consumed    its listener is done with it
    sent back   the broker has it again and delivers it later
    dead        it is a dead letter of the group now
    failed      nobody has it any more: in broadcasting nothing is sent back
    bad record  it cannot be decoded, and no listener saw it; its error says what became of it

``topic`` is where the message was first sent to; ``queue_topic``, ``broker``, ``queue_id`` and
``queue_offset`` say where it was read, which for a retry is the retry topic.  The time and the
milliseconds are those of the call of its listener, which a batch shares.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

ERROR_CHARACTERS_MAX: Final = 1_000
"""How much of an error a row repeats."""


class OutcomeKind(StrEnum):
    CONSUMED = "consumed"
    SENT_BACK = "sent back"
    DEAD = "dead"
    FAILED = "failed"
    BAD_RECORD = "bad record"


class OutcomeRow(NamedTuple):
    """The columns, in their order.  ``started_us`` counts from 1970."""

    topic: str
    queue_topic: str
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    outcome: str
    reconsume_times: int
    started_us: int
    milliseconds: float
    error: str | None


OUTCOME_SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("queue_topic", StringType()),
        StructField("broker", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("queue_offset", LongType()),
        StructField("message_id", StringType()),
        StructField("outcome", StringType()),
        StructField("reconsume_times", IntegerType()),
        StructField("started_time", TimestampType()),
        StructField("milliseconds", DoubleType()),
        StructField("error", StringType()),
    ]
)

OUTCOME_ARROW: Final = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("queue_topic", pa.string()),
        pa.field("broker", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("message_id", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("reconsume_times", pa.int32()),
        pa.field("started_time", pa.timestamp("us", tz="UTC")),
        pa.field("milliseconds", pa.float64()),
        pa.field("error", pa.string()),
    ]
)
"""The same for Arrow, as Spark wants it."""


def outcome_batch(rows: list[OutcomeRow]) -> pa.RecordBatch:
    """Rows as one Arrow batch."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(OUTCOME_ARROW)
    arrays = [
        pa.array(column, type=field.type)
        for column, field in zip(columns, OUTCOME_ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTCOME_ARROW)
