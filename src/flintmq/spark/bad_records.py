"""What a task does with records that cannot be decoded: the rule of the option ``onBadRecord``.

    quarantine    its row stays, with a null body
    skip          no row
    stop          `UndecodableRecord`, and the task fails

Every one is reported in the log of the executor, with topic, queue, offset and reason.  A task
that runs again reports again.

Invariant: a record either has a row, or is reported, or fails the task.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Self

from flintmq.errors import UndecodableRecord
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueRef
from flintmq.spark.shape import OnBadRecord

REPORTED_MAX: Final = 100
"""Records that a task reports one by one; of the others it tells how many there were."""

log = logging.getLogger(__name__)


class BadRecords:
    """The bad records of one task.  Leaving a ``with`` block tells of those not reported yet."""

    def __init__(self, rule: OnBadRecord = OnBadRecord.QUARANTINE) -> None:
        self._rule = rule
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.count > REPORTED_MAX:
            log.warning("%d more records cannot be decoded", self.count - REPORTED_MAX)

    def take(self, bad: BadRecord, queue: QueueRef) -> bool:
        """Do with a record as the rule says; whether its row stays."""
        if self._rule is OnBadRecord.STOP:
            raise undecodable(bad, queue)
        self.count += 1
        keeps_row = self._rule is OnBadRecord.QUARANTINE
        if self.count <= REPORTED_MAX:
            log.warning(
                "%s; %s", place_and_reason(bad, queue), "no body" if keeps_row else "skipped"
            )
        return keeps_row


def undecodable(bad: BadRecord, queue: QueueRef) -> UndecodableRecord:
    """The error of a task that may not go on."""
    return UndecodableRecord(
        queue.topic, queue.broker, queue.queue_id, bad.queue_offset, bad.reason
    )


def place_and_reason(bad: BadRecord, queue: QueueRef) -> str:
    """A bad record in words."""
    place = f"{queue.topic}/{queue.broker}/{queue.queue_id} at {bad.queue_offset}"
    return f"{place} cannot be decoded: {bad.reason}"
