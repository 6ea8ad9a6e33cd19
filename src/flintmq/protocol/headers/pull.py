"""Pulling: PULL_MESSAGE (11), LITE_PULL_MESSAGE (361) and their answers."""

from __future__ import annotations

from enum import IntFlag

from msgspec import field

from flintmq.protocol.fields import Header, Int32, Int64


class PullFlag(IntFlag):
    """The bits of ``sys_flag`` in a pull."""

    COMMIT_OFFSET = 1  # store ``commit_offset`` for the group as well
    SUSPEND = 2  # wait for messages if there are none
    SUBSCRIPTION = 4  # filter by ``subscription``, not by what the heartbeat said
    CLASS_FILTER = 8  # filter by uploaded code: old, and served by nobody
    LITE_PULL = 16  # the sender is a lite pull consumer


class PullMessage(Header, frozen=True, kw_only=True):
    """Give messages of one queue from ``queue_offset`` on.

    A missing subscription is ``*``, a missing expression type is TAG.
    """

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64 = 0
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_forward_client_id: str | None = field(default=None, name="proxyFrowardClientId")
    broker_name: str | None = field(default=None, name="bname")


class PullAnswer(Header, frozen=True, kw_only=True):
    """Found, nothing yet, nothing that matches, or wrong offset: codes 0, 19, 20 and 21."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class PullRefusal(Header, frozen=True, kw_only=True):
    """Every other code.  5.x tells with 16 who forbids it.

    1 is the broker, 2 the group, 3 the topic, 4 broadcasting, 5 the subscription.
    """

    forbidden_type: Int32 | None = None
