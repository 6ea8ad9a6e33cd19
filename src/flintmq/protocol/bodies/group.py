"""Consumer groups at a broker: their settings, their SQL92 filters, their queue locks.

`GroupTable` is also the file subscriptionGroup.json, `FilterTable` the file consumerFilter.json,
which keeps the filters of groups that are offline too.  `LockRequest` and `LockAnswer` belong to
LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): which member has a queue to itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from flintmq.protocol.bodies.body import Body, Json, OpenBody, RequestBody, custom
from flintmq.protocol.bodies.common_bodies import DataVersion, QueueField
from flintmq.protocol.fields import Int32, Int64


class GroupConfig(OpenBody, frozen=True, kw_only=True):
    """One consumer group of a broker.

    The optional fields are of 5.x.  ``group_retry_policy`` and ``subscription_data_set`` are
    carried along: this broker retries by delay levels, as 4.9 does.
    """

    attributes: dict[str, str] | None = None
    broker_id: Int64 = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool | None = None
    consume_timeout_minute: Int32 | None = None
    group_name: str
    group_retry_policy: dict[str, Json] | None = None
    group_sys_flag: Int32 | None = None
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int32 = 16
    retry_queue_nums: Int32 = 1
    subscription_data_set: tuple[dict[str, Json], ...] | None = None
    which_broker_when_consume_slowly: Int64 = 1


if TYPE_CHECKING:
    GroupConfigField: TypeAlias = GroupConfig
else:
    GroupConfigField = custom(GroupConfig.from_fields)


class GroupTable(Body, frozen=True, kw_only=True):
    """Every group of a broker: answer to 201, and a file.

    ``forbidden_table`` (5.x) has bits by group and topic.
    """

    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, Int32]] | None = None
    subscription_group_table: dict[str, GroupConfigField] = {}


class GroupList(Body, frozen=True, kw_only=True):
    """Answer to QUERY_TOPIC_CONSUME_BY_WHO (300): groups that consume a topic."""

    group_list: tuple[str, ...] = ()


class GroupForbidden(Body, frozen=True, kw_only=True):
    """Answer to UPDATE_AND_GET_GROUP_FORBIDDEN (353): may this group read this topic?"""

    group: str
    readable: bool = True
    topic: str


class BloomBits(Body, frozen=True, kw_only=True):
    """The bits a filter has in the bit map of every message of its topic."""

    bit_num: Int32 = 0
    bit_pos: tuple[Int32, ...] = ()


class GroupFilter(Body, frozen=True, kw_only=True):
    """One filter of one group, and since when it is there."""

    bloom_filter_data: BloomBits | None = None
    born_time: Int64 = 0
    client_version: Int64 = 0
    consumer_group: str
    dead: bool = False
    dead_time: Int64 = 0
    expression: str = ""
    expression_type: str = "SQL92"
    topic: str


class TopicFilters(Body, frozen=True, kw_only=True):
    """The filters of one topic by group."""

    group_filter_data: dict[str, GroupFilter] = {}
    topic: str | None = None


class FilterTable(Body, frozen=True, kw_only=True):
    """The filters of a broker by topic."""

    filter_data_by_topic: dict[str, TopicFilters] = {}


class LockRequest(RequestBody, frozen=True, kw_only=True):
    """The queues to lock, to renew, or to unlock.  The last field is of 5.x."""

    client_id: str
    consumer_group: str
    mq_set: tuple[QueueField, ...] = ()
    only_this_broker: bool | None = None


class LockAnswer(Body, frozen=True, kw_only=True):
    """The queues that are now locked for whoever asked."""

    lock_ok_mq_set: tuple[QueueField, ...] = msgspec.field(name="lockOKMQSet", default=())
