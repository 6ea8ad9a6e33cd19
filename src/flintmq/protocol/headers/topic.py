"""Topics: made, shown and deleted."""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header, Int32
from flintmq.protocol.headers.common_headers import OfTopic


class CreateTopic(Header, frozen=True, kw_only=True):
    """17 UPDATE_AND_CREATE_TOPIC.

    ``attributes`` of 5.x are changes like ``+key=value,-key``.  4.9 ignores ``order``.
    """

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool
    attributes: str | None = None
    force: bool | None = None


class TopicConfigOf(OfTopic, frozen=True, kw_only=True):
    """GET_TOPIC_CONFIG (351)."""

    is_logical: bool | None = field(default=None, name="lo")


class ForgetTopic(OfTopic, frozen=True, kw_only=True):
    """216 DELETE_TOPIC_IN_NAMESRV; in all clusters unless one is named."""

    cluster_name: str | None = None


class TopicsOfCluster(Header, frozen=True, kw_only=True):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str
