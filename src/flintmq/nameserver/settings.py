"""The key-value configuration of a name server: text by namespace and key.

One namespace means something to RocketMQ: ORDER_TOPIC_CONFIG fixes the queues of ordered
topics.  Brokers get it when they register, clients with the route where that is enabled.

Settings are kept as the file kvConfig.json, by whoever made this object: it gives the content
the file had and takes the new content after every change.

Refused: a change after which the file would be over `SETTINGS_BYTES_MAX`, names and values longer
than any real one.

Invariant: a change that could not be saved did not happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from flintmq.errors import Overloaded
from flintmq.nameserver.replicas import check_names
from flintmq.protocol.bodies.common_bodies import ORDER_TOPIC_NAMESPACE, KvConfig, KvTable

VALUE_CHARACTERS_MAX = 65_536
"""Of one value: the queues of an ordered topic take some 20 characters for each broker."""

SETTINGS_BYTES_MAX = 1024 * 1024
"""The file is written anew for every change, and one namespace goes to every broker."""

Save: TypeAlias = Callable[[bytes], None]
"""Takes the whole content of the file; returns when it is durable, or raises."""


class Settings:
    """The table.  Without ``save`` it lives as long as the process."""

    def __init__(self, loaded: bytes | None = None, save: Save | None = None) -> None:
        """Raises `MalformedBody` when ``loaded`` is no such file."""
        self.changes = 0
        """Grows with every change."""
        content = (loaded or b"").strip()
        self._table = KvConfig.from_file(content).config_table if content else {}
        self._save = save

    def put(self, namespace: str, key: str, value: str) -> None:
        """Store a value in place of the one before.  Raises `Overloaded` when full."""
        check_names((namespace, key))
        if len(value) > VALUE_CHARACTERS_MAX:
            raise Overloaded("characters of a value", VALUE_CHARACTERS_MAX, "VALUE_CHARACTERS_MAX")
        self._replace(namespace, {**self._table.get(namespace, {}), key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Delete a value.  Its namespace stays, empty or not, as in RocketMQ."""
        table = self._table.get(namespace)
        if table is not None and key in table:
            self._replace(namespace, {name: table[name] for name in table if name != key})

    def value(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> KvTable | None:
        """All values of a namespace, or None when nothing was ever put there."""
        table = self._table.get(namespace)
        return None if table is None else KvTable(table=table)

    def order_of(self, topic: str) -> str | None:
        """The fixed queues of an ordered topic, as ``broker-a:4;broker-b:4``."""
        return self.value(ORDER_TOPIC_NAMESPACE, topic)

    def order_table(self) -> KvTable | None:
        return self.namespace(ORDER_TOPIC_NAMESPACE)

    def _replace(self, namespace: str, table: dict[str, str]) -> None:
        changed = {**self._table, namespace: table}
        content = KvConfig(config_table=changed).to_file()
        if len(content) > SETTINGS_BYTES_MAX:
            raise Overloaded("bytes of settings", SETTINGS_BYTES_MAX, "SETTINGS_BYTES_MAX")
        if self._save is not None:
            self._save(content)
        self._table = changed
        self.changes += 1
