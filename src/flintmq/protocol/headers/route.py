"""Between name server, brokers and clients: who is there, and who has a topic."""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header, Int32, Int64
from flintmq.protocol.headers.common_headers import OfTopic


class RouteOf(OfTopic, frozen=True, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    accept_standard_json_only: bool | None = None


class BrokerIdentity(Header, frozen=True, kw_only=True):
    """104 UNREGISTER_BROKER and 322 QUERY_DATA_VERSION; id 0 is the master."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class RegisterBroker(BrokerIdentity, frozen=True, kw_only=True):
    """103 REGISTER_BROKER; a ``body_crc32`` of 0 is not checked."""

    ha_server_addr: str
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = field(default=None, name="__ZONE_NAME")


class RegisterAnswer(Header, frozen=True, kw_only=True):
    """Answer to REGISTER_BROKER (103): where the master is; only a slave gets it."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class DataVersionAnswer(Header, frozen=True, kw_only=True):
    """Answer to QUERY_DATA_VERSION (322)."""

    changed: bool


class BrokerHeartbeat(Header, frozen=True, kw_only=True):
    """904 BROKER_HEARTBEAT; all but the first three are for controllers."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class BrokerMembersHeader(Header, frozen=True, kw_only=True):
    """GET_BROKER_MEMBER_GROUP (901)."""

    cluster_name: str
    broker_name: str


class MinBrokerIdChange(Header, frozen=True, kw_only=True):
    """NOTIFY_MIN_BROKER_ID_CHANGE (905)."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class WritePermOf(Header, frozen=True, kw_only=True):
    """205 WIPE_WRITE_PERM_OF_BROKER and 327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermAnswer(Header, frozen=True, kw_only=True):
    """Answer to WIPE_WRITE_PERM_OF_BROKER (205): how many topics lost a writable queue."""

    wipe_topic_count: Int32


class AddWritePermAnswer(Header, frozen=True, kw_only=True):
    """Answer to ADD_WRITE_PERM_OF_BROKER (327)."""

    add_topic_count: Int32
