"""Plain tables of text: `KvTable` travels (28, 103, 219), `KvConfig` is the file kvConfig.json."""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Where a name server keeps the fixed queues of ordered topics."""


class KvTable(Body, frozen=True, kw_only=True):
    table: dict[str, str] = {}


class KvConfig(Body, frozen=True, kw_only=True):
    """Everything a name server was told to remember, by namespace and key."""

    config_table: dict[str, dict[str, str]] = {}
