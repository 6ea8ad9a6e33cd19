"""The tables of a name server: which brokers live, at which addresses, and with which topics.

    topic ─► broker name ─► queues
                  │
                  └─► replica by id ─► cluster and address, who registered it, when last seen

Brokers register all of it and nothing is asked of them.  A replica lives until it unregisters,
its connection is lost or it is silent for too long.  Topics are only added and changed; they
are removed with the last replica of their broker, or when somebody deletes them.

Where RocketMQ 5.3.3 leaves remains, this does not.  A registration that is refused changes
nothing.  A lost connection takes along every replica that registered over it, not one of
them; a silent replica closes its connection only if no other one uses it.  A replica whose id
or name went to another is forgotten at once.

Refused: more replicas or queues than the limits below, names longer than any real one.

Invariant: every replica is found by its place and by its broker and id, and by nothing else;
every queue belongs to a broker with at least one replica, which has its topic in ``_topics_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from flintmq.errors import Overloaded
from flintmq.logs import logger
from flintmq.model.route import MASTER_ID
from flintmq.model.topic import READ_WRITE, Permission, TopicFlag
from flintmq.nameserver.replicas import (
    PEER_REPLICAS_MAX,
    QUEUES_MAX,
    REPLICAS_MAX,
    TOPICS_MAX,
    Broker,
    Peer,
    Place,
    Registered,
    Registration,
    Replica,
    check_names,
    check_queues,
    is_older,
    queues_of,
    with_acting_master,
)
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.route import BrokerMembers, ClusterMembers, QueueEntry, TopicRoute

log = logger(__name__)

MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Replicas use the routes of such topics to find each other, so ids in them stay true."""


class RouteTable:
    """The tables.  Times are given by the caller; nothing here waits or sends."""

    def __init__(self) -> None:
        self.changes = 0
        """Grows whenever an answer about routes may have become another one."""
        self._topics: dict[str, dict[str, QueueEntry]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}  # of a broker, in the order they came
        self._queue_count = 0
        self._brokers: dict[str, Broker] = {}
        self._clusters: dict[str, dict[str, None]] = {}  # names in the order they came
        self._replicas: dict[Place, Replica] = {}

    def __repr__(self) -> str:
        return f"<Routes, {len(self._topics)} topics, {len(self._replicas)} replicas>"

    # What brokers register.

    def register(
        self, given: Registration, peer: Peer, now_ms: int, *, delete_missing: bool = False
    ) -> Registered | None:
        """Take a replica in, or renew it; None when it is refused.

        A replica that is not known must bring all its topics.  One topic alone is what a
        broker sends after a change, so its full list has been lost and will be sent again.
        """
        given.check()
        broker = self._brokers.get(given.broker) or Broker(given.cluster)
        before = broker.replicas.get(given.broker_id)
        moved = [
            replica
            for replica in broker.replicas.values()
            if replica.address == given.address and replica.broker_id != given.broker_id
        ]
        if before is not None and before.address != given.address and is_older(given, before):
            log.warning("%s ignored: %s was elected later", given, before.address)
            for replica in moved:
                self._forget(replica)
            return Registered()
        if before is None and len(given.topics) == 1:
            log.warning("%s refused: it has not registered all its topics yet", given)
            return None
        self._check_limits(given)
        self._check_peer(given, peer)
        known = self._replicas.get(given.place)
        for replica in moved:
            self._detach(replica)
        if known is not None and known.broker != given.broker:
            self._forget(known)
            known = None
        if before is not None and before.place != given.place:
            del self._replicas[before.place]
        self._attach(given, broker, peer, now_ms)
        changed = known is None or not known.version.matches(given.table.data_version)
        self._take_topics(given, broker, changed or before is None, delete_missing)
        if before is None:
            log.info("%s registered", given)
        if given.broker_id == MASTER_ID or MASTER_ID not in broker.replicas:
            return Registered()
        master = broker.replicas[MASTER_ID]
        return Registered(ha_address=master.ha_address, master_address=master.address)

    def unregister(self, cluster: str, broker: str, address: str) -> None:
        """A broker unregisters.  An unknown one is no error."""
        replica = self._replicas.get((cluster, address))
        if replica is not None and replica.broker == broker:
            log.info("%s unregistered", address)
            self._forget(replica)

    def refresh(self, cluster: str, address: str, now_ms: int) -> None:
        """Renew a replica that is known."""
        replica = self._replicas.get((cluster, address))
        if replica is not None:
            replica.seen_ms = now_ms

    def teller(self, broker: str) -> Peer | None:
        """The connection over which the master of a broker was registered last."""
        known = self._brokers.get(broker)
        master = None if known is None else known.replicas.get(MASTER_ID)
        return None if master is None else master.peer

    def known_version(self, cluster: str, address: str) -> DataVersion | None:
        """The version of its topics that a replica registered last."""
        replica = self._replicas.get((cluster, address))
        return None if replica is None else replica.version

    # What time and the network do.

    def connection_lost(self, peer: Peer) -> None:
        """Forget every replica whose last registration came over this connection."""
        for replica in [one for one in self._replicas.values() if one.peer is peer]:
            log.info("%s left: its connection was lost", replica.address)
            self._forget(replica)

    def expire(self, now_ms: int) -> list[Peer]:
        """Forget replicas that were silent for too long; give connections nobody uses now."""
        silent = [one for one in self._replicas.values() if one.seen_ms + one.timeout_ms < now_ms]
        for replica in silent:
            log.warning("%s left: silent for over %d ms", replica.address, replica.timeout_ms)
            self._forget(replica)
        alive = {id(one.peer) for one in self._replicas.values()}
        unused = {id(one.peer): one.peer for one in silent if id(one.peer) not in alive}
        return list(unused.values())

    def carry(self, delta_ms: int) -> None:
        """The clock was moved by so much: nobody gets older by it."""
        for replica in self._replicas.values():
            replica.seen_ms += delta_ms

    # What admins do.

    def register_topic(self, topic: str, entries: Iterable[QueueEntry]) -> bool:
        """Make a topic known on brokers that are; all of it or, if one is unknown, nothing."""
        entries = tuple(entries)
        if not all(entry.broker_name in self._brokers for entry in entries):
            return False
        check_names((topic,))
        for entry in entries:
            check_queues(entry)
        self._check_room(len(entries), topic not in self._topics)
        for entry in entries:
            self._add_queues(topic, entry)
        return True

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, everywhere or on the brokers of one cluster."""
        brokers = list(self._topics.get(topic, ()))
        for broker in brokers:
            if not cluster or broker in self._clusters.get(cluster, ()):
                self._drop(topic, broker)

    def wipe_write_permission(self, broker: str) -> int:
        """Make all queues of a broker read-only until it registers a change; how many topics."""
        return self._permit(broker, lambda perm: perm & ~Permission.WRITE)

    def add_write_permission(self, broker: str) -> int:
        """Make all queues of a broker readable and writable; how many topics."""
        return self._permit(broker, lambda _: READ_WRITE)

    # What is asked.

    def route(
        self, topic: str, *, order: str | None = None, acting_masters: bool = False
    ) -> TopicRoute | None:
        """Queues and brokers of a topic.

        With ``acting_masters`` the first slave of a broker that has lost its master, and that
        allows it, stands in the master's place for queues nobody writes to.
        """
        queues = self._topics.get(topic)
        if queues is None:
            return None
        brokers = [self._brokers[name].entry(name) for name in queues]
        if acting_masters and not topic.startswith(MEMBER_TOPIC_PREFIX):
            brokers = [with_acting_master(one, queues[one.broker_name]) for one in brokers]
        return TopicRoute(
            broker_datas=tuple(brokers),
            filter_server_table={
                replica.address: replica.filter_servers
                for name in queues
                for replica in self._brokers[name].replicas.values()
                if replica.filter_servers
            },
            order_topic_conf=order,
            queue_datas=tuple(queues.values()),
        )

    def cluster(self) -> ClusterMembers:
        return ClusterMembers(
            broker_addr_table={name: broker.entry(name) for name, broker in self._brokers.items()},
            cluster_addr_table={name: tuple(names) for name, names in self._clusters.items()},
        )

    def members(self, cluster: str, broker: str) -> BrokerMembers:
        """The replicas of a broker name; none for one that is not known."""
        known = self._brokers.get(broker)
        addresses = {} if known is None else known.entry(broker).broker_addrs
        return BrokerMembers(broker_addrs=addresses, broker_name=broker, cluster=cluster)

    def topics(self) -> tuple[str, ...]:
        return tuple(self._topics)

    def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        names = self._clusters.get(cluster, {})
        return tuple(topic for topic, queues in self._topics.items() if queues.keys() & names)

    def topics_flagged(self, flags: TopicFlag, without: TopicFlag) -> tuple[str, ...]:
        """Topics whose first queues have all of the flags and none of the others."""
        return tuple(
            topic
            for topic, queues in self._topics.items()
            if (flag := next(iter(queues.values())).topic_sys_flag) & flags == flags
            and not flag & without
        )

    def system_topics(self) -> tuple[str, ...]:
        """The names of clusters and brokers, which are topics too."""
        return tuple(
            name for cluster, names in self._clusters.items() for name in (cluster, *names)
        )

    def any_address(self) -> str | None:
        return next((replica.address for replica in self._replicas.values()), None)

    # Inside.

    def _check_limits(self, given: Registration) -> None:
        if given.place not in self._replicas and len(self._replicas) >= REPLICAS_MAX:
            raise Overloaded("registered brokers", REPLICAS_MAX, "REPLICAS_MAX")
        own = self._topics_of.get(given.broker, ())
        names = [one.topic_name for one in given.topics]
        self._check_room(
            sum(name not in own for name in names), sum(name not in self._topics for name in names)
        )

    def _check_peer(self, given: Registration, peer: Peer) -> None:
        known = self._replicas.get(given.place)
        if known is None or known.peer is not peer:
            count = sum(one.peer is peer for one in self._replicas.values())
            if count >= PEER_REPLICAS_MAX:
                what = "brokers of one connection"
                raise Overloaded(what, PEER_REPLICAS_MAX, "PEER_REPLICAS_MAX")

    def _check_room(self, more: int, more_names: int) -> None:
        if self._queue_count + more > QUEUES_MAX:
            raise Overloaded("topics of all brokers", QUEUES_MAX, "QUEUES_MAX")
        if len(self._topics) + more_names > TOPICS_MAX:
            raise Overloaded("names of topics", TOPICS_MAX, "TOPICS_MAX")

    def _attach(self, given: Registration, broker: Broker, peer: Peer, now_ms: int) -> None:
        """Store the replica; whatever was in its place is removed already."""
        replica = Replica(
            place=given.place,
            broker=given.broker,
            broker_id=given.broker_id,
            ha_address=given.ha_address,
            version=given.table.data_version,
            filter_servers=given.filter_servers,
            peer=peer,
            seen_ms=now_ms,
            timeout_ms=given.timeout_ms,
        )
        before = broker.replicas.get(given.broker_id)
        face = (broker.acting_master, broker.zone, given.broker in self._brokers)
        broker.acting_master = given.acting_master is True
        broker.zone = given.zone
        broker.replicas[given.broker_id] = replica
        self._brokers[given.broker] = broker
        self._replicas[given.place] = replica
        self._clusters.setdefault(given.cluster, {})[given.broker] = None
        if (
            before is None
            or face != (broker.acting_master, broker.zone, True)
            or (before.place, before.filter_servers) != (replica.place, replica.filter_servers)
        ):
            self.changes += 1

    def _take_topics(
        self, given: Registration, broker: Broker, changed: bool, delete_missing: bool
    ) -> None:
        """Take the topics a master registers, or the first slave in its absence."""
        is_master = given.broker_id == MASTER_ID
        leads = given.acting_master is not None and given.broker_id == min(broker.replicas)
        if not is_master and not leads:
            return
        if delete_missing:
            kept = {config.topic_name for config in given.topics}
            for topic in list(self._topics_of.get(given.broker, ())):
                if topic not in kept:
                    self._drop(topic, given.broker)
        read_only = not is_master and broker.acting_master
        for config in given.topics:
            if changed or given.broker not in self._topics.get(config.topic_name, ()):
                self._add_queues(config.topic_name, queues_of(given.broker, config, read_only))

    def _add_queues(self, topic: str, entry: QueueEntry) -> None:
        queues = self._topics.setdefault(topic, {})
        before = queues.get(entry.broker_name)
        if before != entry:
            queues[entry.broker_name] = entry
            self._topics_of.setdefault(entry.broker_name, {})[topic] = None
            self._queue_count += before is None
            self.changes += 1

    def _drop(self, topic: str, broker: str) -> None:
        queues = self._topics[topic]
        del queues[broker]
        if not queues:
            del self._topics[topic]
        own = self._topics_of[broker]
        del own[topic]
        if not own:
            del self._topics_of[broker]
        self._queue_count -= 1
        self.changes += 1

    def _detach(self, replica: Replica) -> None:
        """Take a replica out of both tables; its broker may be left with none."""
        del self._replicas[replica.place]
        del self._brokers[replica.broker].replicas[replica.broker_id]
        self.changes += 1

    def _forget(self, replica: Replica) -> None:
        self._detach(replica)
        name = replica.broker
        broker = self._brokers[name]
        if broker.replicas:
            if broker.acting_master and MASTER_ID not in broker.replicas:
                self.wipe_write_permission(name)
            return
        del self._brokers[name]
        for cluster in [one for one, names in self._clusters.items() if name in names]:
            del self._clusters[cluster][name]
            if not self._clusters[cluster]:
                del self._clusters[cluster]
        for topic in list(self._topics_of.get(name, ())):
            self._drop(topic, name)

    def _permit(self, broker: str, change: Callable[[int], int]) -> int:
        topics = list(self._topics_of.get(broker, ()))
        for topic in topics:
            entry = self._topics[topic][broker]
            self._add_queues(topic, replace(entry, perm=int(change(entry.perm))))
        return len(topics)
