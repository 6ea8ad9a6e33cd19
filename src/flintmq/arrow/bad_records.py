"""What a task that reads rows does with records that cannot be decoded: the option ``onBadRecord``.

    quarantine    its row stays, with a null body
    skip          no row
    dead_letter   no row: it becomes a dead letter of the group; its row stays if brokers refuse
    stop          `UndecodableRecord`, and the task fails

Every one is reported in the log of the executor, with topic, queue, offset and reason.  A task
that runs again reports and copies again.

Invariant: a record either has a row, or is reported, or fails the task.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self, assert_never

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.dead_letter_copies import DeadLetterCopies
from flintmq.arrow.schema import OnBadRecord
from flintmq.errors import BrokerRefused, UndecodableRecord
from flintmq.logs import logger
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueRef

REPORTED_MAX: Final = 100
"""Records that a task reports one by one; the others are only counted."""

log = logger(__name__)


class BadReports:
    """The log lines of one task about bad records."""

    def __init__(self) -> None:
        self.count = 0

    def report(
        self, bad: BadRecord, queue: QueueRef, fate: str, level: int = logging.WARNING
    ) -> None:
        self.count += 1
        if self.count <= REPORTED_MAX:
            place = f"{queue.topic}/{queue.broker}/{queue.queue_id} at {bad.queue_offset}"
            log.log(level, "%s cannot be decoded: %s; %s", place, bad.reason, fate)

    def close(self) -> None:
        """At the end of the task."""
        if self.count > REPORTED_MAX:
            log.warning("%d more records cannot be decoded", self.count - REPORTED_MAX)


class BadRecords:
    """The bad records of one task, for a source.  Leave it by a ``with`` block."""

    def __init__(
        self,
        rule: OnBadRecord = OnBadRecord.QUARANTINE,
        access: Access | None = None,
        group: str | None = None,
    ) -> None:
        self.reports = BadReports()
        self._rule = rule
        self._access = access
        self._group = group
        self._copies: DeadLetterCopies | None = None
        self._at_end = ExitStack()
        self._at_end.callback(self.reports.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._at_end.close()

    def apply_rule(self, bad: BadRecord, queue: QueueRef) -> bool:
        """Apply the rule to a record; whether its row stays."""
        match self._rule:
            case OnBadRecord.QUARANTINE:
                self.reports.report(bad, queue, "its row has no body")
                return True
            case OnBadRecord.SKIP:
                self.reports.report(bad, queue, "it is skipped")
                return False
            case OnBadRecord.DEAD_LETTER:
                return not self._has_copied(bad, queue)
            case OnBadRecord.STOP:
                raise undecodable(bad, queue)
            case _:
                assert_never(self._rule)

    def _has_copied(self, bad: BadRecord, queue: QueueRef) -> bool:
        if self._copies is None:
            assert self._access is not None, "the options say who takes dead letters"
            assert self._group is not None, "the options say whose they are"
            line = self._at_end.enter_context(self._access.open())
            self._copies = DeadLetterCopies(line, self._group)
        try:
            self._copies.copy(bad, queue)
        except BrokerRefused as error:
            fate = f"no broker took it as a dead letter, its row has no body: {error}"
            self.reports.report(bad, queue, fate, logging.ERROR)
            return False
        self.reports.report(bad, queue, f"it is a dead letter of {self._group} now")
        return True


def undecodable(bad: BadRecord, queue: QueueRef) -> UndecodableRecord:
    """The error of a task with the rule ``stop``."""
    return UndecodableRecord(
        queue.topic, queue.broker, queue.queue_id, bad.queue_offset, bad.reason
    )
