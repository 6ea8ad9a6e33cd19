"""The outcome of each message that a run of listeners read: one row, in one Arrow batch a page.

    consumed    its listener consumed it
    sent back   the broker stored it again and redelivers it later
    dead        it is a dead letter of the group now
    failed      it is dropped: in broadcasting nothing is sent back
    bad record  it cannot be decoded, and no listener got it; its error says what was done with it

``topic`` is the topic that the message was first sent to; ``queue_topic``, ``broker``,
``queue_id`` and ``queue_offset`` say where it was read, which for a retry is the retry topic.  The
time and the milliseconds are those of the call of its listener; all messages of a call share them.

Most calls consume all messages they get, so values that are equal in all rows of a page or of a
call are written once, and no object is made for a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef

REPORT: Final = "report"
"""What a task reports to the driver, in one row of a page."""

IS_FIRST: Final = "is_first"
"""Whether a row is the first of a call of a listener."""

SETTLE: Final = "settle"
"""What becomes of a popped message that was not consumed; a column of runs that pop."""

HIDDEN: Final = (REPORT, IS_FIRST, SETTLE)
"""Columns that sinks do not see."""

ERROR_CHARACTERS_MAX: Final = 1_000
"""How much of an error a row repeats."""


class OutcomeKind(StrEnum):
    CONSUMED = "consumed"
    SENT_BACK = "sent back"
    DEAD = "dead"
    FAILED = "failed"
    BAD_RECORD = "bad record"


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
        StructField(REPORT, StringType()),
        StructField(IS_FIRST, BooleanType()),
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
        pa.field(REPORT, pa.string()),
        pa.field(IS_FIRST, pa.bool_()),
    ]
)
"""The same for Arrow, as Spark wants it."""


SLIM_SCHEMA: Final = StructType([StructField(REPORT, StringType())])
SLIM_ARROW: Final = pa.schema([pa.field(REPORT, pa.string())])
"""Of a run without a sink: rows are only counted, and nobody reads them."""

POPPED_SCHEMA: Final = StructType([*OUTCOME_SCHEMA.fields, StructField(SETTLE, StringType())])
POPPED_ARROW: Final = OUTCOME_ARROW.append(pa.field(SETTLE, pa.string()))
"""The same for runs that pop."""

SLIM_POPPED_SCHEMA: Final = StructType([*SLIM_SCHEMA.fields, StructField(SETTLE, StringType())])
SLIM_POPPED_ARROW: Final = SLIM_ARROW.append(pa.field(SETTLE, pa.string()))


_FIELDS: Final = ReceivedMessage._fields
_topic = itemgetter(_FIELDS.index("topic"))
_queue_offset = itemgetter(_FIELDS.index("queue_offset"))
_reconsume_times = itemgetter(_FIELDS.index("reconsume_times"))


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one message."""

    kind: OutcomeKind
    error: str | None = None


CONSUMED: Final = Fate(OutcomeKind.CONSUMED)


class OutcomeColumns:
    """The rows of one page; ``queue`` is None for popped messages, which are of any queues."""

    def __init__(self, queue: QueueRef | None, *, is_slim: bool = False) -> None:
        self._queue = queue
        self._is_slim = is_slim
        self._messages: list[ReceivedMessage] = []
        self._counts: list[int] = []
        self._started_us: list[int] = []
        self._spent_ms: list[float] = []
        self._firsts: list[int] = []
        self._settle: dict[int, str] = {}
        self._fates: dict[int, Fate] = {}  # of rows that were not simply consumed

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._messages)

    def add(
        self,
        messages: Sequence[ReceivedMessage],
        started_us: int,
        spent_ms: float,
        fates: Sequence[Fate] | None = None,
        *,
        is_call: bool = True,
        settle: Sequence[str | None] = (),
    ) -> None:
        """Add the messages of one call; all of them consumed, unless ``fates`` says otherwise.

        Without ``is_call`` no listener was called with them.  ``settle`` is for popped ones.
        """
        for place, text in enumerate(settle, len(self._messages)):
            if text is not None:
                self._settle[place] = text
        if is_call:
            self._firsts.append(len(self._messages))
        if fates is not None:
            first = len(self._messages)
            for place, fate in enumerate(fates, first):
                if fate is not CONSUMED:
                    self._fates[place] = fate
        self._messages += messages
        self._counts.append(len(messages))
        self._started_us.append(started_us)
        self._spent_ms.append(spent_ms)

    def batch(self, report: Callable[[], str | None] | None = None) -> pa.RecordBatch | None:
        """The outcome rows as one Arrow batch; None when there are none.

        The first row has the ``report`` of the page.
        """
        messages = self._messages
        if not messages:
            return None
        if self._is_slim:
            columns = [self._reports(None if report is None else report())]
            if self._queue is None:
                columns.append(self._verdicts())
            schema = SLIM_ARROW if self._queue is not None else SLIM_POPPED_ARROW
            return pa.RecordBatch.from_arrays(columns, schema=schema)
        schema = OUTCOME_ARROW if self._queue is not None else POPPED_ARROW
        outcomes, errors = self._outcomes()
        reported = None if report is None else report()
        made: dict[str, Any] = {
            "topic": list(map(_topic, messages)),
            **self._places(),
            "queue_offset": list(map(_queue_offset, messages)),
            "message_id": [message.message_id for message in messages],
            "outcome": outcomes,
            "reconsume_times": list(map(_reconsume_times, messages)),
            "started_time": np.repeat(np.array(self._started_us, np.int64), self._counts),
            "milliseconds": np.repeat(np.array(self._spent_ms, np.float64), self._counts),
            "error": errors,
            REPORT: self._reports(reported),
            IS_FIRST: self._are_first(),
        }
        if self._queue is None:
            made[SETTLE] = self._verdicts()
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for field in schema
            for column in (made[field.name],)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _verdicts(self) -> pa.Array:
        count = len(self._messages)
        if not self._settle:
            return pa.nulls(count, pa.string())
        return pa.array([self._settle.get(place) for place in range(count)], pa.string())

    def _places(self) -> dict[str, Any]:
        queue, messages = self._queue, self._messages
        if queue is None:
            return {
                "queue_topic": [message.topic for message in messages],
                "broker": [message.broker for message in messages],
                "queue_id": [message.queue_id for message in messages],
            }
        return {
            "queue_topic": self._same(queue.topic, pa.string()),
            "broker": self._same(queue.broker, pa.string()),
            "queue_id": self._same(queue.queue_id, pa.int32()),
        }

    def _outcomes(self) -> tuple[pa.Array, pa.Array]:
        count = len(self._messages)
        if not self._fates:
            return self._same(CONSUMED.kind.value, pa.string()), pa.nulls(count, pa.string())
        fates = [self._fates.get(place, CONSUMED) for place in range(count)]
        return (
            pa.array([fate.kind.value for fate in fates], pa.string()),
            pa.array([fate.error for fate in fates], pa.string()),
        )

    def _reports(self, reported: str | None) -> pa.Array:
        if reported is None:
            return pa.nulls(len(self._messages), pa.string())
        return pa.array([reported, *[None] * (len(self._messages) - 1)], pa.string())

    def _are_first(self) -> np.ndarray:
        made = np.zeros(len(self._messages), np.bool_)
        made[self._firsts] = True
        return made

    def _same(self, value: str | int, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self._messages))
