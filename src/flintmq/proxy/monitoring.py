"""The metrics of a proxy, under flintmq_ but for the one that RocketMQ's proxies have too.

Ready means: it is not stopping.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final, Protocol

from flintmq.metrics.families import Family, Samples, Work, counter, gauge, histogram
from flintmq.metrics.pages import Source
from flintmq.net.address import Address
from flintmq.net.refusals import Refusals
from flintmq.proxy.tables.call_counts import BOUNDS_MS, CallCounts

UP: Final = gauge("rocketmq_proxy_up", "1 while the proxy serves.", "proxy_mode")
CALLS: Final = counter(
    "flintmq_proxy_calls_total",
    "Calls and streams that ended, by the code of their answer; OK and MESSAGE_NOT_FOUND are no "
    "errors.",
    "call",
    "code",
)
CALL_TIME: Final = histogram(
    "flintmq_proxy_call_milliseconds", "Time of calls that are no streams.", BOUNDS_MS, "call"
)
STREAMS: Final = gauge(
    "flintmq_proxy_streams", "Streams that are open: telemetry, and receives.", "call"
)
CONNECTIONS: Final = gauge("flintmq_proxy_connections", "Connections of clients.")
CLIENTS: Final = gauge("flintmq_proxy_clients", "Clients that told their settings.")
RECEIPTS: Final = gauge(
    "flintmq_proxy_receipts", "Receipts of push consumers that are renewed until they are settled."
)

REFUSED: Final = counter(
    "flintmq_proxy_refused_total",
    "What limits refused, connections that they closed included.",
    "limit",
)

FAMILIES: tuple[Family, ...] = (
    UP,
    CALLS,
    CALL_TIME,
    STREAMS,
    CONNECTIONS,
    CLIENTS,
    RECEIPTS,
    REFUSED,
)

WATCHED_LIMITS: Final = ("connectionsMax", "connectionsPerAddressMax", "unreadBytesMax")
"""Limits that are shown from the start: a rate needs a value before the first refusal."""

CLUSTER_MODE: Final = "cluster"
"""RocketMQ's word for a proxy that asks brokers over the wire."""


class WatchedProxy(Protocol):
    """The proxy, as its metrics see it."""

    @property
    def address(self) -> Address: ...

    @property
    def cluster(self) -> str: ...

    @property
    def counts(self) -> CallCounts: ...

    @property
    def clients(self) -> Sized: ...

    @property
    def receipts(self) -> Sized: ...

    @property
    def connection_count(self) -> int: ...

    @property
    def refusals(self) -> Refusals: ...

    @property
    def is_stopping(self) -> bool: ...


def proxy_source(proxy: WatchedProxy) -> Source:
    """What `serve_metrics` serves of a proxy."""

    def samples() -> Work:
        counts = proxy.counts
        up = Samples(UP)
        up.add(0 if proxy.is_stopping else 1, CLUSTER_MODE)
        yield up
        calls = Samples(CALLS)
        for (call, code), count in counts.calls.items():
            calls.add(count, call, code)
        yield calls
        times = Samples(CALL_TIME)
        for call, found in counts.times_ms.items():
            times.add(found, call)
        yield times
        streams = Samples(STREAMS)
        for call, count in counts.open_streams.items():
            streams.add(count, call)
        yield streams
        for family, value in (
            (CONNECTIONS, proxy.connection_count),
            (CLIENTS, len(proxy.clients)),
            (RECEIPTS, len(proxy.receipts)),
        ):
            one = Samples(family)
            one.add(value)
            yield one
        refused = Samples(REFUSED)
        for limit, count in (dict.fromkeys(WATCHED_LIMITS, 0) | proxy.refusals.counts).items():
            refused.add(count, limit)
        yield refused

    def why_not_ready() -> list[str]:
        return ["the proxy is stopping"] if proxy.is_stopping else []

    labels = {"cluster": proxy.cluster, "node_type": "proxy", "node_id": str(proxy.address)}
    return Source(lambda: labels, samples, why_not_ready)
