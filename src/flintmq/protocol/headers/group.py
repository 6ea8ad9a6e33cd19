"""Consumer groups: their members, their failed messages, their configuration."""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header, Int32, Int64
from flintmq.protocol.headers.common_headers import Named


class HeartbeatAnswer(Header, frozen=True, kw_only=True):
    """To 34 HEART_BEAT.  4.9 says nothing, and is then sent whole heartbeats."""

    supports_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscription_changed: bool | None = field(default=None, name="IS_SUB_CHANGE")


class UnregisterClient(Header, frozen=True, kw_only=True):
    """35 UNREGISTER_CLIENT; C++ clients send both groups, one of them empty."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class SendBackHeader(Named, frozen=True, kw_only=True):
    """36 CONSUMER_SEND_MSG_BACK; ``offset`` is a log offset.

    A delay level below 0 means the dead letter queue, 0 lets the broker choose.
    """

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class DeleteGroup(Header, frozen=True, kw_only=True):
    """207 DELETE_SUBSCRIPTIONGROUP; 4.9 and 5.x differ in the name of one field."""

    group_name: str
    remove_offset: bool | None = None
    clean_offset: bool | None = None


class ConsumeStatsOf(Header, frozen=True, kw_only=True):
    """208 GET_CONSUME_STATS; all topics of the group unless one is named."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class SubscriptionOf(Header, frozen=True, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345)."""

    group: str
    topic: str | None = None


class ForbidGroup(Header, frozen=True, kw_only=True):
    """353 UPDATE_AND_GET_GROUP_FORBIDDEN; without ``readable`` it only asks."""

    group: str
    topic: str
    readable: bool | None = None


class CorrectionOffset(Header, frozen=True, kw_only=True):
    """308 QUERY_CORRECTION_OFFSET; the groups to compare are joined by commas."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class CloneGroupOffset(Header, frozen=True, kw_only=True):
    """CLONE_GROUP_OFFSET (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False
