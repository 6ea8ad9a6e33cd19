"""Registrations of brokers and how they are kept: replicas and their limits.

A broker name stands for replicas with the same messages.  The one with id 0 is the master;
of the others the lowest leads when the master is lost.

Anybody may register, so everything has a limit; what is over it is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec.structs import replace

from flintmq.errors import InvalidName, Overloaded
from flintmq.model.route import MASTER_ID
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable

Peer: TypeAlias = Hashable
"""What stands for one connection."""

Place: TypeAlias = tuple[str, str]
"""A cluster and an address in it."""

SILENCE_MS = 120_000
"""How long a broker may be silent that names no time of its own."""

REPLICAS_MAX = 1_024
"""Anybody may register; real clusters have tens.  The answer to 106 lists them all: 10 ms."""

PEER_REPLICAS_MAX = 64
"""Of one connection: a broker has one, or a few in one process."""

TOPICS_MAX = 200_000
"""Names of topics: four brokers with as many as one of ours may have, and none in common.  Several
answers go through all of them: 30 ms."""

TOPIC_QUEUES_MAX = 65_536
"""Queues of a topic at one broker: clients refuse a route with more."""

QUEUES_MAX = 1_000_000
"""Topics times brokers.  Fifty thousand topics on ten brokers are half of it."""

NAME_CHARACTERS_MAX = 1_024
"""No name or address is as long; the longest topic that brokers make has some 400."""

FILTER_SERVERS_MAX = 64
"""Of one replica.  Nothing since 4.x has any."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a broker."""

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha_address: str
    table: TopicTable
    filter_servers: tuple[str, ...] = ()
    acting_master: bool | None = None
    """Whether a slave may act as master; None from releases that do not know of it."""
    zone: str | None = None
    timeout_ms: int = SILENCE_MS

    @property
    def place(self) -> Place:
        return self.cluster, self.address

    @property
    def topics(self) -> tuple[TopicConfig, ...]:
        return tuple(self.table.topic_config_table.values())

    def __str__(self) -> str:
        return f"{self.cluster}/{self.broker}/{self.broker_id} at {self.address}"

    def check(self) -> None:
        """Raise `InvalidName` or `Overloaded` for what no real broker would register."""
        names = (self.cluster, self.broker, self.address, self.ha_address, self.zone or "")
        check_names(names)
        check_names(self.filter_servers)
        check_names(config.topic_name for config in self.topics)
        if len(self.filter_servers) > FILTER_SERVERS_MAX:
            raise Overloaded("filter servers of a broker", FILTER_SERVERS_MAX, "FILTER_SERVERS_MAX")


@dataclass(frozen=True, slots=True)
class Registered:
    """What a slave learns of its master.  A master learns nothing."""

    ha_address: str | None = None
    master_address: str | None = None


@dataclass(slots=True)
class Replica:
    """One broker process that lives."""

    place: Place
    broker: str
    broker_id: int
    ha_address: str
    version: DataVersion
    filter_servers: tuple[str, ...]
    peer: Peer
    seen_ms: int
    timeout_ms: int

    @property
    def address(self) -> str:
        return self.place[1]


@dataclass(slots=True)
class Broker:
    """One broker name."""

    cluster: str
    acting_master: bool = False
    zone: str | None = None
    replicas: dict[int, Replica] = field(default_factory=dict)

    def entry(self, name: str) -> BrokerEntry:
        return BrokerEntry(
            broker_addrs={at: self.replicas[at].address for at in sorted(self.replicas)},
            broker_name=name,
            cluster=self.cluster,
            enable_acting_master=self.acting_master,
            zone_name=self.zone,
        )


def is_older(given: Registration, than: Replica) -> bool:
    """Whether another replica that holds the same id was elected later."""
    return (given.table.data_version.state_version or 0) < (than.version.state_version or 0)


def check_names(names: Iterable[str]) -> None:
    """Raise `InvalidName` for a name that is too long."""
    for name in names:
        if len(name) > NAME_CHARACTERS_MAX:
            reason = f"is longer than {NAME_CHARACTERS_MAX} characters"
            raise InvalidName("name or address", f"{name[:40]}…", reason)


def check_queues(entry: QueueEntry) -> None:
    """Raise `Overloaded` for more queues than a route may have."""
    if not 0 <= max(entry.read_queue_nums, entry.write_queue_nums) <= TOPIC_QUEUES_MAX:
        raise Overloaded("queues of a topic", TOPIC_QUEUES_MAX, "TOPIC_QUEUES_MAX")


def queues_of(broker: str, config: TopicConfig, read_only: bool) -> QueueEntry:
    return QueueEntry(
        broker_name=broker,
        perm=config.perm & ~int(Permission.WRITE) if read_only else config.perm,
        read_queue_nums=min(config.read_queue_nums, TOPIC_QUEUES_MAX),
        topic_sys_flag=config.topic_sys_flag,
        write_queue_nums=min(config.write_queue_nums, TOPIC_QUEUES_MAX),
    )


def with_acting_master(broker: BrokerEntry, queues: QueueEntry) -> BrokerEntry:
    """A broker whose first slave stands in the place of the master it has lost.

    Only for queues nobody writes to, and only if the broker allows it.
    """
    addresses = broker.broker_addrs
    writable = queues.perm & Permission.WRITE
    if MASTER_ID in addresses or not broker.enable_acting_master or writable:
        return broker
    first = min(addresses)
    others = {at: address for at, address in addresses.items() if at != first}
    return replace(broker, broker_addrs={MASTER_ID: addresses[first], **others})
