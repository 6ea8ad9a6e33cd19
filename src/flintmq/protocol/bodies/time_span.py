"""QUERY_CONSUME_TIME_SPAN (303): how old the messages are that a group has yet to read."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Self

from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.queue import QueueField
from flintmq.protocol.fields import Int64


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """Times of one queue, in milliseconds and as text for people."""

    consume_time_stamp: Int64 = 0
    consume_time_stamp_str: str | None = None
    delay_time: Int64 = 0
    max_time_stamp: Int64 = 0
    max_time_stamp_str: str | None = None
    message_queue: QueueField
    min_time_stamp: Int64 = 0
    min_time_stamp_str: str | None = None

    @classmethod
    def of(
        cls,
        queue: QueueRef,
        *,
        min_ms: int,
        max_ms: int,
        consumed_ms: int,
        delay_ms: int,
        zone: tzinfo = UTC,
    ) -> Self:
        """Fill in the texts.  A Java broker writes them in its local time."""
        return cls(
            consume_time_stamp=consumed_ms,
            consume_time_stamp_str=format_time(consumed_ms, zone),
            delay_time=delay_ms,
            max_time_stamp=max_ms,
            max_time_stamp_str=format_time(max_ms, zone),
            message_queue=queue,
            min_time_stamp=min_ms,
            min_time_stamp_str=format_time(min_ms, zone),
        )


class ConsumeTimeSpans(Body, frozen=True, kw_only=True):
    consume_time_span_set: tuple[QueueTimeSpan, ...] = ()


def format_time(time_ms: int, zone: tzinfo) -> str:
    """``2026-11-15#23:39:48:352``."""
    moment = datetime.fromtimestamp(time_ms // 1000, zone)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03d}"
