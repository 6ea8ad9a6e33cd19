"""Applies the app's rule to the records of a listener's queue that cannot be decoded.

    dead_letter   the broker copies it to the dead letters of the group
    skip          it is reported; in broadcasting that is the rule
    stop          `UndecodableRecord`: the task fails before any listener of its page is called

Each has a row with the outcome ``bad record``, whose error has the reason and what was done.  Where
a broker refuses to copy it, the row and the log of the executor say so, and the task continues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flintmq.arrow.bad_records import BadReports, undecodable
from flintmq.arrow.reading.access import Line
from flintmq.arrow.reading.dead_letter_copies import DeadLetterCopies
from flintmq.core.bad_record_rule import stops
from flintmq.core.consumer.assigned_queue import as_listeners_see
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.errors import BrokerRefused
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueRef
from flintmq.net.clock import wall_ms
from flintmq.protocol.records.sift import as_stored
from flintmq.spark.outcomes.outcome_counts import OutcomeCounts
from flintmq.spark.outcomes.outcome_rows import (
    ERROR_CHARACTERS_MAX,
    Fate,
    OutcomeColumns,
    OutcomeKind,
)


class BadOutcomes:
    """The bad records of one task that runs listeners."""

    def __init__(
        self, queue: QueueRef, settings: ConsumerSettings, tries_max: int, line: Line
    ) -> None:
        self._queue = queue
        self._settings = settings
        self._rule = settings.bad_rule
        self._reports = BadReports()
        self._copies = DeadLetterCopies(
            line, settings.wire_group, tries_max=tries_max, unit_mode=settings.unit_mode
        )

    def settle(
        self, bad: Sequence[BadRecord], outcomes: OutcomeColumns, counts: OutcomeCounts
    ) -> None:
        """Apply the rule to bad records, and add a row for each."""
        for one in bad:
            if stops(self._rule, one):
                raise undecodable(one, self._queue)
        fates = [self._fate(one) for one in bad]
        messages = as_listeners_see(
            list(map(as_stored, bad)),
            self._queue,
            is_retry=self._queue.topic == self._settings.retry_topic,
            namespace=self._settings.namespace,
        )
        counts.add_rows(len(fates), fates)
        outcomes.add(messages, wall_ms() * 1_000, 0.0, fates, is_call=False)

    def close(self) -> None:
        self._reports.close()

    def _fate(self, bad: BadRecord) -> Fate:
        became, level = "it is skipped", logging.WARNING
        if self._rule == "dead_letter":
            became = "it is a dead letter of the group now"
            try:
                self._copies.copy(bad, self._queue)
            except BrokerRefused as error:
                became, level = f"no broker took it as a dead letter: {error}", logging.ERROR
        self._reports.report(bad, self._queue, became, level)
        reason = bad.reason[: ERROR_CHARACTERS_MAX - len(became) - 2]
        return Fate(OutcomeKind.BAD_RECORD, f"{reason}; {became}"[:ERROR_CHARACTERS_MAX])
