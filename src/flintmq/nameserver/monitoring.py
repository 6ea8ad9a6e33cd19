"""The metrics of a name server, all under flintmq_: RocketMQ's has none.

Ready means: it is not stopping, and it answers routes.
"""

from __future__ import annotations

from typing import Final, Protocol

from flintmq.metrics.families import Family, Samples, Work, counter, gauge
from flintmq.metrics.pages import Source
from flintmq.nameserver.state import NameServerState
from flintmq.net.address import Address
from flintmq.protocol.codes import RequestCode

BROKERS: Final = gauge("flintmq_namesrv_brokers", "Brokers of a cluster.", "cluster")
TOPICS: Final = gauge("flintmq_namesrv_topics", "Topics that have a route.")
CONNECTIONS: Final = gauge("flintmq_namesrv_connections", "Connections of brokers and clients.")
ROUTE_CHANGES: Final = counter(
    "flintmq_namesrv_route_changes_total", "Changes after which a route may be another one."
)
REQUESTS: Final = counter("flintmq_namesrv_requests_total", "Requests served.", "request_code")

FAMILIES: tuple[Family, ...] = (BROKERS, TOPICS, CONNECTIONS, ROUTE_CHANGES, REQUESTS)


class WatchedNameServer(Protocol):
    """The server, as its metrics see it."""

    state: NameServerState

    @property
    def address(self) -> Address: ...

    @property
    def connection_count(self) -> int: ...

    @property
    def is_stopping(self) -> bool: ...


def name_server_source(server: WatchedNameServer) -> Source:
    """What `serve_metrics` serves of a name server."""

    def samples() -> Work:
        state = server.state
        brokers = Samples(BROKERS)
        for cluster, names in state.routes.cluster().cluster_addr_table.items():
            brokers.add(len(names), cluster)
        yield brokers
        for family, value in (
            (TOPICS, len(state.routes.topics())),
            (CONNECTIONS, server.connection_count),
            (ROUTE_CHANGES, state.routes.changes),
        ):
            one = Samples(family)
            one.add(value)
            yield one
        requests = Samples(REQUESTS)
        for code, count in state.served.items():
            requests.add(count, RequestCode(code).name.lower())
        yield requests

    def why_not_ready() -> list[str]:
        return ["the name server is stopping"] if server.is_stopping else []

    labels = {"node_type": "namesrv", "node_id": str(server.address)}
    return Source(lambda: labels, samples, why_not_ready)
