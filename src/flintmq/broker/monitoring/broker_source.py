"""A running broker as a source of metrics, and whether it is ready to be used.

Ready means: the store takes messages, at least one name server has the broker, and it does not
stop.  A broker answers at all only once its store is recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from flintmq.broker.counters.call_times import RequestTimes
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.monitoring.group_samples import connection_samples, lag_samples
from flintmq.broker.monitoring.message_samples import (
    message_samples,
    timer_samples,
    transaction_samples,
)
from flintmq.broker.monitoring.server_samples import broker_samples, call_samples
from flintmq.broker.processor_table import processors
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.metrics.families import Work
from flintmq.metrics.pages import Source


class Watched(Protocol):
    """The server, as its metrics see it."""

    state: BrokerState
    engine: BrokerEngine
    namesrv: tuple[str, ...]
    now_ms: Callable[[], int]

    @property
    def peers(self) -> tuple[Peer, ...]: ...

    @property
    def is_registered(self) -> bool: ...


def broker_source(server: Watched, node_id: str | None = None) -> Source:
    """Begin to count how long requests take, and give what `serve_metrics` serves.

    ``node_id`` tells replicas of one process apart; without it, it is the broker's name.
    """
    if server.engine.calls is None:
        server.engine.calls = RequestTimes(server.now_ms, processors())
        server.engine.pulls.calls = server.engine.calls
    times, state = server.engine.calls, server.state

    def samples() -> Work:
        now_ms = server.now_ms()
        yield from message_samples(state)
        yield from lag_samples(state, now_ms)
        yield from connection_samples(state)
        yield from call_samples(times)
        yield from transaction_samples(state)
        yield from timer_samples(state, now_ms)
        yield from broker_samples(state, len(server.peers), why_not_ready(server), now_ms)

    return Source(lambda: _labels(state, node_id), samples, lambda: why_not_ready(server))


def why_not_ready(server: Watched) -> Sequence[str]:
    """Why nobody should send anything to a broker; nothing when it is ready."""
    state, reasons = server.state, []
    if state.is_stopping:
        reasons.append("the broker is stopping")
    if state.log.why_not is not None:
        reasons.append(f"nothing can be stored: {state.log.why_not}")
    if server.namesrv and not server.is_registered:
        reasons.append("no name server has this broker: " + ", ".join(server.namesrv))
    return reasons


def _labels(state: BrokerState, node_id: str | None) -> Mapping[str, str]:
    config = state.config
    return {
        "cluster": config.cluster,
        "node_type": "broker",
        "node_id": node_id or config.broker_name,
        **dict(config.metrics_labels),
    }
