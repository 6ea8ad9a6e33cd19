"""Which brokers there are, which have a topic, and how each of them is set and doing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintmq.core.ask import ASK_MS, ask, ask_any
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers, fetch_route
from flintmq.errors import InvalidSetting, NoRoute
from flintmq.model.route import BrokerReplicas, Route
from flintmq.model.topic import reply_topic
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.java_properties import read_properties, write_properties
from flintmq.protocol.bodies.route import ClusterMembers
from flintmq.protocol.codes import RequestCode


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """Every broker the name servers know, in the order of their names."""

    brokers: tuple[BrokerReplicas, ...]

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(sorted({broker.cluster for broker in self.brokers}))

    @property
    def own_topics(self) -> frozenset[str]:
        """Topics that exist because of the cluster: its name, its brokers' and for replies."""
        clusters = self.clusters
        return frozenset(
            (*clusters, *map(reply_topic, clusters), *(broker.broker for broker in self.brokers))
        )

    def masters(self, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        """Addresses that take changes, by broker name; `InvalidSetting` when there are none."""
        chosen = {
            replicas.broker: replicas.master
            for replicas in self.chosen(cluster, broker)
            if replicas.master is not None
        }
        if not chosen:
            reason = f"no master is up; known are {self._names()}"
            raise InvalidSetting("broker", broker or cluster or "", reason)
        return chosen

    def readable(self) -> dict[str, str]:
        """An address to ask about each broker: its master, or a replica when there is none."""
        return {
            replicas.broker: replicas.addresses[min(replicas.addresses)]
            for replicas in self.brokers
            if replicas.addresses
        }

    def broker_at(self, address: str) -> str | None:
        for replicas in self.brokers:
            if address in replicas.addresses.values():
                return replicas.broker
        return None

    def chosen(self, cluster: str | None = None, broker: str | None = None) -> list[BrokerReplicas]:
        """Those of a cluster, or the one that is named; `InvalidSetting` for an unknown name."""
        if cluster is not None and cluster not in self.clusters:
            reason = f"no such cluster; known are {', '.join(self.clusters) or 'none'}"
            raise InvalidSetting("cluster", cluster, reason)
        if broker is not None and broker not in {known.broker for known in self.brokers}:
            raise InvalidSetting("broker", broker, f"no such broker; known are {self._names()}")
        return [
            known
            for known in self.brokers
            if cluster in (None, known.cluster) and broker in (None, known.broker)
        ]

    def _names(self) -> str:
        return ", ".join(broker.broker for broker in self.brokers) or "none"


def fetch_cluster(namesrv: NameServers) -> Conversation[ClusterMap]:
    """The brokers of the cluster (GET_BROKER_CLUSTER_INFO, 106)."""
    reply = yield from ask_any(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
    table = ClusterMembers.from_body(reply.body).broker_addr_table
    return ClusterMap(
        tuple(
            BrokerReplicas(entry.cluster, name, entry.broker_addrs)
            for name, entry in sorted(table.items())
        )
    )


def require_route(namesrv: NameServers, topic: str) -> Conversation[Route]:
    """The route of a topic (GET_ROUTEINFO_BY_TOPIC, 105); `NoRoute` when no broker has it."""
    route = yield from fetch_route(namesrv, topic, ASK_MS)
    if route is None:
        raise NoRoute(topic, "no broker has such a topic")
    return route


def readable_brokers(route: Route) -> dict[str, str]:
    """An address to ask about each broker of a route; in the order of their names."""
    return ClusterMap(tuple(sorted(route.brokers, key=lambda known: known.broker))).readable()


def broker_address(namesrv: NameServers, broker: str) -> Conversation[str]:
    """Where a broker is, by its name; `InvalidSetting` when there is none."""
    cluster = yield from fetch_cluster(namesrv)
    address = cluster.readable().get(broker)
    return cluster.masters(broker=broker)[broker] if address is None else address


def broker_figures(namesrv: NameServers, broker: str) -> Conversation[Mapping[str, str]]:
    """What a running broker counts (GET_BROKER_RUNTIME_INFO, 28), under RocketMQ's names."""
    address = yield from broker_address(namesrv, broker)
    reply = yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return KvTable.from_body(reply.body).table


def broker_settings(namesrv: NameServers, broker: str) -> Conversation[Mapping[str, str]]:
    """The settings of a broker (GET_BROKER_CONFIG, 26), under RocketMQ's names."""
    address = yield from broker_address(namesrv, broker)
    return (yield from settings_at(address))


def settings_at(address: str) -> Conversation[Mapping[str, str]]:
    reply = yield from ask(address, RequestCode.GET_BROKER_CONFIG)
    return read_properties(reply.body)


def change_broker_settings(
    namesrv: NameServers, broker: str, changes: Mapping[str, str]
) -> Conversation[None]:
    """Change settings of a running broker (UPDATE_BROKER_CONFIG, 25); it decides which may be."""
    address = yield from broker_address(namesrv, broker)
    yield from ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=write_properties(changes))
