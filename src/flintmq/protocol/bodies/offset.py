"""Tables of offsets.  Three of them are files: consumerOffset.json and delayOffset.json of a
broker, offsets.json of a broadcasting consumer.  And what a broker says of an offset that
is none.
"""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.queue import QueueField
from flintmq.protocol.bodies.version import DataVersion
from flintmq.protocol.fields import Int32, Int64


class ConsumerOffsets(Body, frozen=True, kw_only=True):
    """How far every group has come: by ``topic@group`` and queue id.

    4.9 has the table alone.  ``group_topic_map`` follows from it and may be left out.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = {}


class DelayOffsets(Body, frozen=True, kw_only=True):
    """The next offset to deliver of each delay level."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = {}


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """Answer to 308: offsets by queue id."""

    correction_offsets: dict[Int32, Int64] = {}


class LocalOffsets(Body, frozen=True, kw_only=True):
    """How far a broadcasting consumer has come.  It keeps this file itself."""

    offset_table: dict[QueueField, Int64] = {}


class OffsetMoved(Body, frozen=True, kw_only=True):
    """The body of a message in OFFSET_MOVED_EVENT: a group pulled from where nothing is."""

    consumer_group: str
    message_queue: QueueField
    offset_new: Int64
    offset_request: Int64
