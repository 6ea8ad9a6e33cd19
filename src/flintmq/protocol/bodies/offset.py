"""Tables of offsets, and the times of messages that a group has yet to read.

Three tables are files: consumerOffset.json and delayOffset.json of a broker, offsets.json of a
broadcasting consumer.  `TimerPositions`, how far a broker has delivered its timer messages, is a
file of our own.  `OffsetMovedEvent` is what a broker answers to an offset that its queue does
not have.  `ConsumeTimeSpans` answers QUERY_CONSUME_TIME_SPAN (303).
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Self

from flintmq.model.light_queue import LIGHT_QUEUE_ID, is_light
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.common_bodies import DataVersion, QueueField
from flintmq.protocol.fields import Int32, Int64


class ConsumerOffsets(Body, frozen=True, kw_only=True):
    """How far every group has come: by ``topic@group`` and queue id.

    4.9 has the table alone.  ``group_topic_map`` follows from it and may be left out.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = {}


class LightOffsets(Body, frozen=True, kw_only=True):
    """`ConsumerOffsets` of a broker with light queues, in a file of its own.

    Groups of light queues (``%LMQ%…``) have one offset by ``topic@group``, without a queue id.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    lmq_offset_table: dict[str, Int64] = {}
    offset_table: dict[str, dict[Int32, Int64]] = {}

    @classmethod
    def of(cls, offsets: ConsumerOffsets) -> LightOffsets:
        """The same offsets."""
        light, plain = {}, {}
        for place, queues in offsets.offset_table.items():
            if is_light(place.partition("@")[2]) and queues.keys() == {LIGHT_QUEUE_ID}:
                light[place] = queues[LIGHT_QUEUE_ID]
            else:
                plain[place] = queues
        return cls(data_version=offsets.data_version, lmq_offset_table=light, offset_table=plain)

    def plain(self) -> ConsumerOffsets:
        """The same offsets, all by queue id."""
        light = {place: {LIGHT_QUEUE_ID: at} for place, at in self.lmq_offset_table.items()}
        return ConsumerOffsets(
            data_version=self.data_version, offset_table=self.offset_table | light
        )


class DelayOffsets(Body, frozen=True, kw_only=True):
    """The next offset to deliver of each delay level."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = {}


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """Answer to QUERY_CORRECTION_OFFSET (308): offsets by queue id."""

    correction_offsets: dict[Int32, Int64] = {}


class LocalOffsets(Body, frozen=True, kw_only=True):
    """How far a broadcasting consumer has come.  It keeps this file itself."""

    offset_table: dict[QueueField, Int64] = {}


class OffsetMovedEvent(Body, frozen=True, kw_only=True):
    """The body of a message in OFFSET_MOVED_EVENT: a group pulled from where nothing is."""

    consumer_group: str
    message_queue: QueueField
    offset_new: Int64
    offset_request: Int64


class TimerPositions(Body, frozen=True, kw_only=True):
    """Of the messages before ``next_offset``, those up to a time and an offset were delivered.

    Delivery goes by time and, within a millisecond, by queue offset; so one pair says it all,
    but for the ``late`` ones: they came when their turn was over, and still wait.  Nothing
    before ``low_offset`` waits.
    """

    delivered_ms: Int64 = -1
    delivered_offset: Int64 = -1
    late: tuple[Int64, ...] = ()
    low_offset: Int64 = 0
    next_offset: Int64 = 0


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
