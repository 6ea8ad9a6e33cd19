"""Counts a report on dead letters in this process: the same figures that Spark counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.message import ReceivedMessage
from flintmq.reports.dead_letter_figures import (
    GROUPS_MAX,
    UNKNOWN,
    DeadLetterGroup,
    DeadLetterReport,
    same_words_text,
)
from flintmq.reports.report_output import utc_time


class CountedLetter(NamedTuple):
    """What a report has to know of a dead letter."""

    topic: str | None
    reason: str
    tries: int
    stored_ms: int


def counted_letter(
    message: ReceivedMessage, bad: BadRecord | None = None, reason_property: str | None = None
) -> CountedLetter:
    """A dead letter as it is counted; ``bad`` says why it cannot be decoded."""
    carried = message.properties
    reasons = (
        "" if reason_property is None else carried.get(reason_property, ""),
        carried.get(names.DLQ_REASON, ""),
        "" if bad is None else bad.reason,
    )
    known = next((each for each in reasons if each.strip()), None)
    origins = (carried.get(names.DLQ_ORIGIN_TOPIC, ""), carried.get(names.RETRY_TOPIC, ""))
    return CountedLetter(
        next((each for each in origins if each.strip()), None),
        UNKNOWN % message.reconsume_times if known is None else same_words_text(known),
        message.reconsume_times,
        message.store_ms,
    )


def count_dead_letters(group: str, letters: Iterable[CountedLetter]) -> DeadLetterReport:
    """How many there are by topic, reason and day, the largest groups first."""
    found: dict[tuple[str | None, str, str], list[CountedLetter]] = {}
    for each in letters:
        moment = utc_time(each.stored_ms)
        day = "" if moment is None else moment.date().isoformat()
        found.setdefault((each.topic, each.reason, day), []).append(each)
    groups = [
        DeadLetterGroup(
            topic,
            reason,
            day,
            len(same),
            max(each.tries for each in same),
            min(each.stored_ms for each in same),
            max(each.stored_ms for each in same),
        )
        for (topic, reason, day), same in found.items()
    ]
    groups.sort(key=lambda each: (-each.messages, each.day, each.topic or "", each.reason))
    total = sum(each.messages for each in groups)
    kept = tuple(groups[:GROUPS_MAX])
    return DeadLetterReport(group, total, kept, total - sum(each.messages for each in kept))
