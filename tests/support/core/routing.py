"""Routes as a name server answers them."""

from __future__ import annotations

from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import READ_WRITE, Permission


def route(*brokers: str, queues: int = 2, permission: Permission = READ_WRITE) -> Route:
    """Brokers by name; the master of ``a`` is at a:0 and its slave at a:1."""
    return Route(
        brokers=tuple(
            BrokerReplicas("cluster", name, {0: f"{name}:0", 1: f"{name}:1"}) for name in brokers
        ),
        queues=tuple(QueueCounts(name, queues, queues, permission) for name in brokers),
    )
