"""The tables of a broker: its settings, its log, topics, groups, offsets, clients and so on.

`BrokerState` adds the schedules that work on these tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from flintmq.access.accounts import Accounts
from flintmq.access.quotas import Quotas
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.limits.compile_budget import CompileBudget
from flintmq.broker.limits.name_budget import NameBudget
from flintmq.broker.requests.hooks import Hooks
from flintmq.broker.requests.outcome import Tell
from flintmq.broker.tables.broker_stats import Stats
from flintmq.broker.tables.clients import Clients
from flintmq.broker.tables.filters import ConsumerFilters
from flintmq.broker.tables.groups import Groups
from flintmq.broker.tables.held_pulls import HeldPulls
from flintmq.broker.tables.offsets import Offsets
from flintmq.broker.tables.put_times import PutTimes
from flintmq.broker.tables.queue_locks import BrokerQueueLocks
from flintmq.broker.tables.topics import BrokerTopics
from flintmq.core.replication.follow_status import FollowStatus
from flintmq.core.replication.slave_acks import SlaveAcks
from flintmq.errors import DiskFailed
from flintmq.model.broker_role import BrokerRole
from flintmq.model.host import Host
from flintmq.model.message_id import MonthlyIds
from flintmq.net.channels.watchdog import Stalls
from flintmq.net.refusals import Refusals
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.store.message_log import MessageLog

AfterWrite: TypeAlias = Callable[[DiskFailed | None], None]
"""Called with how the write of its turn ended: None when everything is stored."""


MayPublish: TypeAlias = Callable[[str, str], bool]
"""Called with the address of a connection and a topic."""


class RegisteredTopics(NamedTuple):
    """The encoded list of all topics that name servers got, and the state it was made of."""

    version: DataVersion
    permission: int
    body: bytes


class NextRole(NamedTuple):
    """Another role of a broker; ``copies_tables``: once more from the master before."""

    role: BrokerRole
    broker_id: int
    copies_tables: bool


@dataclass(slots=True, kw_only=True)
class BrokerTables:
    """The tables of one broker, without its sockets and its schedules."""

    config: BrokerConfig
    """Replaced as a whole when an admin changes a setting."""
    address: str
    """``host:port`` as routes give it to clients."""
    host: Host
    """That address as records and message ids hold it."""
    log: MessageLog
    topics: BrokerTopics
    groups: Groups
    offsets: Offsets
    clients: Clients
    locks: BrokerQueueLocks
    filters: ConsumerFilters
    held: HeldPulls
    stats: Stats
    put_times: PutTimes
    pick: Callable[[int], int]
    """A random number from 0 to below the argument."""
    started_ms: int
    own_ids: MonthlyIds
    """For messages whose sender gave them none."""
    accounts: Accounts | None = None
    """Who may do what; None where access control is off."""
    may_publish: MayPublish | None = None
    """Whether the client at an address may publish in a topic; None where everybody may."""
    refusals: Refusals = field(default_factory=Refusals)
    """How often each limit refused something."""
    names: NameBudget = field(default_factory=NameBudget)
    """Topics and groups that addresses may make."""
    quotas: Quotas = field(default_factory=Quotas)
    """What accounts and groups may send and consume a second."""
    ha_address: str | None = None
    """``host:port`` where slaves fetch the log; None where none are served."""
    master_ha_address: str | None = None
    """Of a slave: where it fetches its master's log, as a name server told it last."""
    slaves: SlaveAcks = field(default_factory=SlaveAcks)
    """The slaves that are connected to this broker, and what they have."""
    following: FollowStatus = field(default_factory=FollowStatus)
    """Of a slave: how far it follows its master."""
    compiling: CompileBudget = field(default_factory=CompileBudget)
    hooks: Hooks = field(default_factory=Hooks)
    outbox: list[Tell] = field(default_factory=list)
    after_write: list[AfterWrite] = field(default_factory=list)
    pull_ms_max: int = 0
    """How long the slowest pull took."""
    unsynced_count: int = 0
    unsynced_bytes: int = 0
    """Sends that wait for the disk now."""
    config_version: DataVersion = field(default_factory=DataVersion)
    """Which settings are in force, for tools that ask."""
    registered_topics: RegisteredTopics | None = None
    """The last registration of all topics, so that it need not be encoded again."""
    failed_saves: int = 0
    """How often names or tables could not be saved."""
    stalls: Stalls = field(default_factory=Stalls)
    """How often the loop was blocked."""
    clock_moved_ms: int = 0
    """By how much the clock was moved since the start."""
    is_stopping: bool = False
    """No new sends: the broker is about to stop."""
    is_read_only: bool = False
    """Nothing is appended but what a master sends: this is a slave, or a master that was fenced."""
    is_fenced: bool = False
    """A master that another one is about to replace: read-only, and not registered again."""
    next_role: NextRole | None = None
    """The role with which the broker is about to start again."""
    role_fault: str = ""
    """Why the last change of roles came to nothing."""
    master_address: str | None = None
    """Of a slave: where its master listens, as a name server told it last."""

    @property
    def takes_commits_of_pulls(self) -> bool:
        """Whether the offset that a pull carries is stored.

        Clients let only those pulls carry one that go to the master of their route.
        """
        is_stand_in = self.config.acting_master and not self.config.role.is_master
        return not self.is_read_only or is_stand_in

    @property
    def has_new_names(self) -> bool:
        """Whether topics or groups changed since they were last saved."""
        return self.topics.is_dirty or self.groups.is_dirty

    def own_ms(self, client_ms: int) -> int:
        """A time that a client tells, on the clock of this broker, which tests may have moved."""
        return client_ms + self.clock_moved_ms

    def carry(self, delta_ms: int) -> None:
        """The clock is about to move by so much: nothing expires because of that."""
        self.clock_moved_ms += delta_ms
        self.clients.carry(delta_ms)
        self.locks.carry(delta_ms)
        self.stats.carry(delta_ms)
        self.put_times.carry(delta_ms)
