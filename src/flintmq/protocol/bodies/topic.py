"""Topics as brokers configure and report them.  `TopicTable` is also the file topics.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from flintmq.model.topic import READ_WRITE, Permission
from flintmq.protocol.bodies.body import Body, Json, OpenBody, RequestBody, custom
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.fields import Int32

SINGLE_TAG = "SINGLE_TAG"
"""The filter type of every topic in practice; the other name is MULTI_TAG."""


class TopicConfig(OpenBody, frozen=True, kw_only=True):
    """One topic of a broker.  ``attributes`` is of 5.x."""

    attributes: dict[str, str] | None = None
    order: bool = False
    perm: Int32 = int(READ_WRITE)
    read_queue_nums: Int32 = 16
    topic_filter_type: str = SINGLE_TAG
    topic_name: str
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16

    @property
    def permission(self) -> Permission:
        return Permission(self.perm & 0xF)


if TYPE_CHECKING:
    TopicConfigField: TypeAlias = TopicConfig
else:
    TopicConfigField = custom(TopicConfig.from_fields)


class TopicTable(Body, frozen=True, kw_only=True):
    """Every topic of a broker: answer to 21, part of a registration, and a file.

    Static topics (the three mapping fields, 5.x) are carried along and not interpreted.
    """

    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfigField] = {}
    topic_queue_mapping_detail_map: dict[str, Json] | None = None
    topic_queue_mapping_info_map: dict[str, Json] | None = None


class TopicConfigList(RequestBody, frozen=True, kw_only=True):
    """Request UPDATE_AND_CREATE_TOPIC_LIST (18): topics to create or change together."""

    topic_config_list: tuple[TopicConfigField, ...] = ()


class TopicList(Body, frozen=True, kw_only=True):
    """Names of topics: 206, 224, 304, 305, 311 to 313, 343."""

    broker_addr: str | None = None
    topic_list: tuple[str, ...] = ()
