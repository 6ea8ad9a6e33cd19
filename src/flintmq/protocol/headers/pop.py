"""Pop consumption of 5.x: the broker hands out messages and keeps track of them.

A popped message is named by its receipt, ``extra_info``: start offset, pop time, invisible
time, revive queue, retry flag, broker, queue and offset, separated by spaces.
"""

from __future__ import annotations

from flintmq.protocol.fields import Header, Int32, Int64
from flintmq.protocol.headers.common_headers import Named


class PopMessage(Named, frozen=True, kw_only=True):
    """POP_MESSAGE (200050); queue -1 is any; ``init_mode`` 0 starts at the oldest, 1 at the end.

    RocketMQ asks for all numbers, and takes 0 for those that are missing.
    """

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    invisible_time: Int64 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    init_mode: Int32 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopAnswer(Header, frozen=True, kw_only=True):
    """To 200050; the last three list offsets, joined by semicolons."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessage(Named, frozen=True, kw_only=True):
    """ACK_MESSAGE (200051)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTime(AckMessage, frozen=True, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    invisible_time: Int64


class InvisibleTimeAnswer(Header, frozen=True, kw_only=True):
    """Answer to CHANGE_MESSAGE_INVISIBLETIME (200053): the parts of the new receipt."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessage(Named, frozen=True, kw_only=True):
    """PEEK_MESSAGE (200052)."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class AwaitMessage(Named, frozen=True, kw_only=True):
    """NOTIFICATION (200054)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


class AwaitAnswer(Header, frozen=True, kw_only=True):
    """Answer to NOTIFICATION (200054)."""

    has_msg: bool
    polling_full: bool = False


class PollingOf(Named, frozen=True, kw_only=True):
    """POLLING_INFO (200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingAnswer(Header, frozen=True, kw_only=True):
    """Answer to POLLING_INFO (200055)."""

    polling_num: Int32


class RecallMessage(Named, frozen=True, kw_only=True):
    """RECALL_MESSAGE (370)."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallAnswer(Header, frozen=True, kw_only=True):
    """Answer to RECALL_MESSAGE (370)."""

    msg_id: str
