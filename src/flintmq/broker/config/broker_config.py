"""The settings of a broker.

Defaults are RocketMQ's, except where docs/compatibility.md says otherwise: SQL92 filters are
on, a send is acknowledged when it is on the disk, and servers listen on loopback.

Invariant: a `BrokerConfig` that exists is one a broker can work with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flintmq.access.quotas import Quota
from flintmq.broker.config.pop_config import PopConfig
from flintmq.broker.config.replication_config import ReplicationConfig
from flintmq.model.broker_role import BrokerRole
from flintmq.model.topic import READ_WRITE, Permission
from flintmq.store.files.store_config import StoreConfig

HOLDS_MAX = 100_000
"""Pulls that may be held at once."""

UNSYNCED_SENDS_MAX = 100_000
"""Sends that may wait for the disk at once."""

TOPICS_MAX = 50_000
"""Topics that clients may create.  RocketMQ has no limit; clusters have thousands of them.  Each is
kept in memory, registered with name servers and written with every save: so many take 20 MB."""

GROUPS_MAX = 50_000
"""Groups that clients may create; each has a retry topic too once it has a member."""

TOPIC_QUEUES_MAX = 1_024
"""Queues of a topic that clients may create.  RocketMQ has no limit and 8 by default, 1,024 for its
own benchmark.  Several answers list every queue, and every queue may have files of its own."""

BROKER_ID_MAX = 2**31 - 1

BROKERS_MAX = 26
"""Brokers that are run together are named by the letters of the alphabet."""
"""Enough for any number of slaves; RocketMQ's own is a Java long."""

NAMES_PER_ADDRESS_MAX = 10_000
"""New topics and groups of one address in an hour: a fifth of all there may be.  Clusters have
thousands."""

GROUP_MEMBERS_MAX = 2_000
"""Members of a group that share its queues: all are notified whenever one joins or leaves."""


MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of one broker."""

    broker_name: str = "broker-a"
    cluster: str = "DefaultCluster"
    broker_id: int = 0
    """0 is a master; a slave has a number above 0."""
    role: BrokerRole = BrokerRole.ASYNC_MASTER
    ha_port: int | None = None
    """Where a master serves its slaves.  None: it serves none.  0: one above the port it listens
    on, or chosen by the system where that one is."""
    ha_master_address: str | None = None
    """host:port of the master's HA port.  None: a slave is told it by its name servers."""
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    pop: PopConfig = field(default_factory=PopConfig)
    region: str = "DefaultRegion"
    topics_max: int = TOPICS_MAX
    groups_max: int = GROUPS_MAX
    topic_queues_max: int = TOPIC_QUEUES_MAX
    group_members_max: int = GROUP_MEMBERS_MAX
    names_per_address_max: int = NAMES_PER_ADDRESS_MAX
    """Topics and groups that one address may make in an hour."""

    connections_max: int = 10_000
    connections_per_address_max: int = 0
    """0 is half of all, and no less than a thousand."""
    requests_per_second_max: int = 0
    """Of one address.  0 is no limit: connections get equal turns whatever they send."""
    quotas: tuple[Quota, ...] = ()
    """What accounts and groups may send and consume a second."""
    partial_bytes_max: int = 512 * MIB
    """What all connections may hold of frames that are not yet whole."""
    unread_bytes_max: int = 512 * MIB
    """What all connections may leave unread."""
    connection_unread_bytes_max: int = 64 * MIB
    trace_on: bool = True
    metrics_labels: tuple[tuple[str, str], ...] = ()
    """Labels that every metric gets beside its own."""
    fast_port: bool = True
    """Listen two ports below as well, where RocketMQ's fast channel goes; not when the system
    chooses the port."""
    store: StoreConfig = field(default_factory=StoreConfig)

    permission: int = int(READ_WRITE)
    auto_create_topic: bool = True
    auto_create_group: bool = True
    default_topic_queues: int = 8
    trace_topic: bool = False
    accept_sends_from_ms: int = 0
    reject_transactions: bool = False

    property_filter: bool = True
    """SQL92 subscriptions are served."""
    filter_supports_retry: bool = False
    """A retry topic is filtered by the group's subscription to the original topic."""
    bit_map_filter: bool = False
    """Evaluate SQL92 filters when a message arrives; needs extended queues."""

    long_polling: bool = True
    short_polling_ms: int = 1_000
    hold_sweep_ms: int = 5_000
    holds_max: int = HOLDS_MAX
    connection_holds_max: int = 0
    """0 is a quarter of all, and no less than a thousand."""
    slave_read: bool = False
    """A reader that is far behind is sent to a slave."""
    offset_check_in_slave: bool = False
    """A slave tells readers another offset, as a master does, where it has none at theirs."""
    acting_master: bool = False
    """A slave may take the place of its master for consumers while that is gone."""
    heartbeat_ms: int = 1_000
    """How often such brokers tell their name servers that they live."""
    not_active_ms: int = 10_000
    """How long such a broker may be silent before its name servers take it for gone."""
    lite_pull: bool = True
    pull_count_max: int = 32
    """Records in one answer, whatever a client asks for …"""
    large_pull_count_max: int = 4_096
    """… unless it says by its ``maxMsgBytes`` that it takes more."""

    notify_members: bool = True
    client_timeout_ms: int = 120_000
    client_scan_ms: int = 10_000
    lock_ms: int = 60_000
    server_side_reset: bool = True
    """An offset reset is done here (5.x); else the clients are asked to do it (4.9)."""
    save_offsets_ms: int = 5_000

    timers: bool = True
    timer_delay_ms_max: int = 3 * 24 * 3_600_000
    timers_max: int = 1_000_000
    """Timer messages that may wait at once."""
    recalls: bool = False
    """Whether producers may take timer messages back."""

    transaction_timeout_ms: int = 6_000
    transaction_check_ms: int = 30_000
    transaction_checks_max: int = 15
    store_replies: bool = True

    unsynced_sends_max: int = UNSYNCED_SENDS_MAX
    unsynced_bytes_max: int = 256 * 1024 * 1024
    """Sends, and their bytes, that may wait for the disk; more get SYSTEM_BUSY."""

    register_ms: int = 30_000
    copy_tables_ms: int = 10_000
    """How often a slave copies topics, groups and offsets from its master."""
    register_timeout_ms: int = 24_000
    sync_tables_ms: int = 10_000
    """How often queues and index are synced too and a checkpoint is written."""
    retain_ms: int = 10_000
    retain_hour: int = 4
    """The hour of the day at which expired files are deleted."""

    scrub_bytes_per_s: int = 0
    """How much of the log is checked again each second; 0 is none."""

    def __post_init__(self) -> None:
        if not self.broker_name or not self.cluster:
            raise ValueError("broker_name and cluster must not be empty")
        if not 0 <= self.permission <= int(READ_WRITE | Permission.INHERIT):
            raise ValueError("permission must be 0 to 7")
        self._check_role()
        for name in ("default_topic_queues", "pull_count_max", "holds_max", "timers_max"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0")
        for name in (
            "hold_sweep_ms",
            "short_polling_ms",
            "register_ms",
            "heartbeat_ms",
            "not_active_ms",
            "copy_tables_ms",
            "transaction_check_ms",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0")

    def _check_role(self) -> None:
        if self.role.is_master and self.broker_id != 0:
            raise ValueError("broker_id must be 0 for a master: give it the role SLAVE")
        if not self.role.is_master and not 0 < self.broker_id <= BROKER_ID_MAX:
            raise ValueError(f"broker_id of a slave must be 1 to {BROKER_ID_MAX}")
        if self.role is BrokerRole.SYNC_MASTER and self.ha_port is None:
            raise ValueError("a SYNC_MASTER needs ha_port: it waits for its slaves")

    @property
    def is_writable(self) -> bool:
        return bool(self.permission & Permission.WRITE)
