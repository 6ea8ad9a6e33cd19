"""Which brokers hold a topic, with how many queues, and where they listen.

A `Route` is what a name server knows at one moment.  It answers two questions: which queues
a producer may write to, and which queues a consumer group has to share out.

Invariant: a route has at most `BROKERS_MAX` brokers, and `QUEUES_MAX` queues in each direction,
so a bad peer cannot make a client build an endless list or connect to everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flintmq.model.queue import QueueRef
from flintmq.model.topic import Permission

MASTER_ID = 0
"""The broker id of the replica that takes writes."""

QUEUES_MAX = 16_384
"""Every queue of a route becomes an object in a client; real topics have tens of them."""

BROKERS_MAX = 1_024
"""Brokers of one topic: a client connects to each of them.  The largest clusters have hundreds."""

REPLICAS_MAX = 64
"""Replicas of one broker; real ones have a handful."""


@dataclass(frozen=True, slots=True)
class BrokerReplicas:
    """One broker name and the addresses of its replicas, by broker id."""

    cluster: str
    broker: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        return self.addresses.get(MASTER_ID)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many queues of a topic one broker holds, and what may be done with them."""

    broker: str
    read_count: int
    write_count: int
    permission: Permission

    def __post_init__(self) -> None:
        if self.read_count < 0 or self.write_count < 0:
            raise ValueError(f"{self.broker}: a topic cannot have fewer than 0 queues")


@dataclass(frozen=True, slots=True)
class Route:
    """Brokers and queues of one topic.

    ``order`` fixes the queues of an ordered topic, as ``broker-a:4;broker-b:4``: producers
    then use exactly these, whether the brokers are there or not.
    """

    brokers: tuple[BrokerReplicas, ...]
    queues: tuple[QueueCounts, ...]
    order: str = ""

    def __post_init__(self) -> None:
        if len(self.brokers) > BROKERS_MAX or len(self.queues) > BROKERS_MAX:
            raise ValueError(f"a route of more than {BROKERS_MAX} brokers")
        if any(len(replicas.addresses) > REPLICAS_MAX for replicas in self.brokers):
            raise ValueError(f"a broker of more than {REPLICAS_MAX} replicas")
        if sum(counts.read_count for counts in self.queues) > QUEUES_MAX:
            raise ValueError(f"a route of more than {QUEUES_MAX} queues to read")
        if sum(counts.write_count for counts in self.queues) > QUEUES_MAX:
            raise ValueError(f"a route of more than {QUEUES_MAX} queues to write")
        if sum(count for _, count in self._ordered()) > QUEUES_MAX:
            raise ValueError(f"an order of more than {QUEUES_MAX} queues")

    def address(self, broker: str, broker_id: int = MASTER_ID) -> str | None:
        for replicas in self.brokers:
            if replicas.broker == broker:
                return replicas.addresses.get(broker_id)
        return None

    def publish_queues(self, topic: str) -> list[QueueRef]:
        """Queues a producer may choose from: writable, on brokers that have a master."""
        if self.order:
            return [
                QueueRef(topic, broker, queue_id)
                for broker, count in self._ordered()
                for queue_id in range(count)
            ]
        masters = {replicas.broker for replicas in self.brokers if replicas.master is not None}
        return [
            QueueRef(topic, counts.broker, queue_id)
            for counts in sorted(self.queues, key=lambda counts: counts.broker)
            if counts.permission & Permission.WRITE and counts.broker in masters
            for queue_id in range(counts.write_count)
        ]

    def subscribe_queues(self, topic: str) -> list[QueueRef]:
        """Queues a group shares out, in the order every member must use."""
        return sorted(
            QueueRef(topic, counts.broker, queue_id)
            for counts in self.queues
            if counts.permission & Permission.READ
            for queue_id in range(counts.read_count)
        )

    def _ordered(self) -> Iterator[tuple[str, int]]:
        for part in filter(None, self.order.split(";")):
            broker, _, count = part.rpartition(":")
            if not broker or not count.isdecimal():
                raise ValueError(f"{part!r} is not broker:count")
            yield broker, int(count)
