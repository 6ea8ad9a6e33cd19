"""The outcomes of one page as columns: call after call goes in, one Arrow batch comes out.

Most calls consume all they were given, so what is the same in all rows of a page or of a call is
written once, and no object is made for a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.spark.outcome import OUTCOME_ARROW, OutcomeKind

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
    """The rows of one page."""

    def __init__(self, queue: QueueRef) -> None:
        self._queue = queue
        self._messages: list[ReceivedMessage] = []
        self._counts: list[int] = []
        self._started_us: list[int] = []
        self._spent_ms: list[float] = []
        self._fates: dict[int, Fate] = {}  # of rows that were not simply consumed

    def add(
        self,
        messages: Sequence[ReceivedMessage],
        started_us: int,
        spent_ms: float,
        fates: Sequence[Fate] | None = None,
    ) -> None:
        """The messages of one call; all of them consumed, unless their fates are told."""
        if fates is not None:
            first = len(self._messages)
            for place, fate in enumerate(fates, first):
                if fate is not CONSUMED:
                    self._fates[place] = fate
        self._messages += messages
        self._counts.append(len(messages))
        self._started_us.append(started_us)
        self._spent_ms.append(spent_ms)

    def batch(self) -> pa.RecordBatch | None:
        """All rows; None when there are none."""
        messages, queue = self._messages, self._queue
        if not messages:
            return None
        outcomes, errors = self._outcomes()
        made = {
            "topic": list(map(_topic, messages)),
            "queue_topic": self._same(queue.topic, pa.string()),
            "broker": self._same(queue.broker, pa.string()),
            "queue_id": self._same(queue.queue_id, pa.int32()),
            "queue_offset": list(map(_queue_offset, messages)),
            "message_id": [message.message_id for message in messages],
            "outcome": outcomes,
            "reconsume_times": list(map(_reconsume_times, messages)),
            "started_time": np.repeat(np.array(self._started_us, np.int64), self._counts),
            "milliseconds": np.repeat(np.array(self._spent_ms, np.float64), self._counts),
            "error": errors,
        }
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for field in OUTCOME_ARROW
            for column in (made[field.name],)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=OUTCOME_ARROW)

    def _outcomes(self) -> tuple[pa.Array, pa.Array]:
        count = len(self._messages)
        if not self._fates:
            return self._same(CONSUMED.kind.value, pa.string()), pa.nulls(count, pa.string())
        fates = [self._fates.get(place, CONSUMED) for place in range(count)]
        return (
            pa.array([fate.kind.value for fate in fates], pa.string()),
            pa.array([fate.error for fate in fates], pa.string()),
        )

    def _same(self, value: str | int, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self._messages))
