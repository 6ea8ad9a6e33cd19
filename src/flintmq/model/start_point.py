"""Where a group without an offset starts: the words and values that every consumer takes.

    "last"                        RocketMQ's rule: the end; a young queue from its beginning
    "first", "earliest", "start"  the oldest message
    "end", "latest"               the end, also of a young queue
    datetime, "2026-11-17T08:30", 1794803628010     the first message stored at that time or later
    0, 1500                       this offset, in every queue
    "timestamp"                   the time in start_at_ms, half an hour ago without it

A queue is young while its first message is still in the broker's memory, as that of a topic of
the last hours usually is.  Brokers tell a group without an offset that it stands at 0 there,
whatever it says about where to start, so that it misses nothing of a new topic.  "end", offsets and
times given as such (`StartPoint.is_exact`) do not follow that answer.

Whole numbers below `OFFSET_MAX` are offsets, others milliseconds since 1970.  A time without a zone
is local time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from flintmq.errors import InvalidSetting
from flintmq.model.group import ConsumeFromWhere

OFFSET_MAX: Final = 10_000_000_000
"""As milliseconds this is in April 1970, before any message was stored."""

TIME_MS_MAX: Final = 2**63 - 1

_ACCEPTED: Final = (
    "give first (earliest, start), last, end (latest), timestamp, a datetime, an ISO 8601 time, "
    "milliseconds since 1970, or an offset"
)


@dataclass(frozen=True, slots=True)
class StartPoint:
    """A start that RocketMQ has no word for.  ``where`` is what brokers are told instead."""

    where: ConsumeFromWhere
    time_ms: int | None = None
    offset: int | None = None
    is_exact: bool = True
    """Whether a broker that gives 0 for a young queue is asked if the group has an offset."""

    def __str__(self) -> str:
        if self.offset is not None:
            return f"offset {self.offset}"
        if self.time_ms is not None:
            return datetime.fromtimestamp(self.time_ms / 1000, UTC).isoformat()
        return "end" if self.is_exact else self.where.value


END: Final = StartPoint(ConsumeFromWhere.LAST_OFFSET)

_WORDS: Final[dict[str, ConsumeFromWhere | StartPoint]] = {
    "first": ConsumeFromWhere.FIRST_OFFSET,
    "earliest": ConsumeFromWhere.FIRST_OFFSET,
    "start": ConsumeFromWhere.FIRST_OFFSET,
    "last": ConsumeFromWhere.LAST_OFFSET,
    "end": END,
    "latest": END,
    "timestamp": ConsumeFromWhere.TIMESTAMP,
}


def read_start(value: object) -> ConsumeFromWhere | StartPoint:
    """What a user wrote for ``start_from``; `InvalidSetting` for anything else."""
    if isinstance(value, ConsumeFromWhere | StartPoint):
        return value
    if isinstance(value, datetime):
        return _at_time(round(value.astimezone().timestamp() * 1000), value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _at_number(value)
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if text.isascii() and text.isdecimal():
            return _at_number(int(text))
        try:
            return read_start(datetime.fromisoformat(text))
        except ValueError:
            pass
    raise InvalidSetting("start_from", str(value)[:80], _ACCEPTED)


def start_point(start_from: ConsumeFromWhere | StartPoint) -> StartPoint:
    """One of RocketMQ's own starts as a `StartPoint`; it follows the rule for young queues."""
    if isinstance(start_from, StartPoint):
        return start_from
    return StartPoint(start_from, is_exact=False)


def _at_number(number: int) -> StartPoint:
    if 0 <= number < OFFSET_MAX:
        return StartPoint(ConsumeFromWhere.FIRST_OFFSET, offset=number)
    return _at_time(number, number)


def _at_time(time_ms: int, value: object) -> StartPoint:
    if not 0 <= time_ms <= TIME_MS_MAX:
        raise InvalidSetting("start_from", str(value)[:80], _ACCEPTED)
    return StartPoint(ConsumeFromWhere.TIMESTAMP, time_ms=time_ms)
