"""Consumer groups as brokers configure them.  `GroupTable` is also subscriptionGroup.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from flintmq.protocol.bodies.body import Body, Json, OpenBody, custom
from flintmq.protocol.bodies.version import DataVersion
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
    """Answer to 300: groups that consume a topic."""

    group_list: tuple[str, ...] = ()


class GroupForbidden(Body, frozen=True, kw_only=True):
    """Answer to 353: may this group read this topic?"""

    group: str
    readable: bool = True
    topic: str
