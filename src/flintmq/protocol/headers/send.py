"""Sending: 10 and 324 in long field names, 310, 320 and 325 in letters, and their answers.

Both request classes have the same attributes, so one processor serves both.  What brokers
really need is required; the rest may be missing.
"""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header, Int32, Int64


class SendMessage(Header, frozen=True, kw_only=True):
    """10 SEND_MESSAGE and 324 SEND_REPLY_MESSAGE.

    A queue id below 0 lets the broker choose.  ``is_batch``, not the code, says that the
    body holds several messages.  ``default_topic`` is the template for a topic that is not
    there yet.
    """

    producer_group: str | None = None
    topic: str
    default_topic: str | None = None
    default_topic_queue_nums: Int32 | None = None
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    is_batch: bool = field(default=False, name="batch")
    broker_name: str | None = field(default=None, name="bname")


class SendMessageV2(Header, frozen=True, kw_only=True):
    """310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE and 325 SEND_REPLY_MESSAGE_V2."""

    producer_group: str | None = field(default=None, name="a")
    topic: str = field(name="b")
    default_topic: str | None = field(default=None, name="c")
    default_topic_queue_nums: Int32 | None = field(default=None, name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(default=None, name="i")
    reconsume_times: Int32 = field(default=0, name="j")
    unit_mode: bool = field(default=False, name="k")
    max_reconsume_times: Int32 | None = field(default=None, name="l")
    is_batch: bool = field(default=False, name="m")
    broker_name: str | None = field(default=None, name="n")


class SendAnswer(Header, frozen=True, kw_only=True):
    """The message was taken: codes 0, 10, 11 and 12.

    ``msg_id`` is the offset message id, for a batch one per message joined by commas, and
    ``queue_offset`` that of the first.  4.9 knows no ``transaction_id``.  Tracing is on
    unless ``trace_on`` is ``false``.
    """

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    trace_on: str | None = field(default=None, name="TRACE_ON")
    region: str | None = field(default=None, name="MSG_REGION")


class SendRefusal(Header, frozen=True, kw_only=True):
    """Every other code.  Java clients fail on an answer without fields.

    A reply that reached nobody is refused and yet stored, so it has an id.
    """

    msg_id: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    trace_on: str | None = field(default=None, name="TRACE_ON")
    region: str | None = field(default=None, name="MSG_REGION")


class PushReply(Header, frozen=True, kw_only=True):
    """326 PUSH_REPLY_MESSAGE_TO_CLIENT; hosts are written ``ip:port``."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64
