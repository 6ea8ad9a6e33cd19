"""Which member of a group has a queue to itself, for ordered consumption.

A lock lives a fixed time after its last renewal; then anybody may take it.  Neither the
queue nor its topic is checked, as in RocketMQ: a lock is a promise among clients.
"""

from __future__ import annotations

from collections.abc import Iterable

from flintmq.errors import Overloaded
from flintmq.model.queue import QueueRef

GROUP_LOCKS_MAX = 20_000
"""Queues one group may have locked at once: nobody checks that they exist."""

LOCKS_MAX = 200_000
"""Queues all groups may have locked at once; about 60 MB."""


class BrokerQueueLocks:
    """Locks of all groups."""

    def __init__(self, lock_ms: int) -> None:
        self._lock_ms = lock_ms
        self._table: dict[str, dict[QueueRef, tuple[str, int]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def lock(
        self, group: str, client_id: str, queues: Iterable[QueueRef], now_ms: int
    ) -> list[QueueRef]:
        """Lock or renew; returns the queues that belong to the client now."""
        held = self._table.get(group, {})
        granted = []
        for queue in queues:
            if queue not in held:
                self._require_room(group, held)
                held = self._table.setdefault(group, held)
                self._count += 1
                held[queue] = (client_id, now_ms)
            owner, renewed_ms = held[queue]
            if owner == client_id or now_ms - renewed_ms > self._lock_ms:
                held[queue] = (client_id, now_ms)
                granted.append(queue)
        return granted

    def _require_room(self, group: str, held: dict[QueueRef, tuple[str, int]]) -> None:
        if len(held) >= GROUP_LOCKS_MAX:
            raise Overloaded(f"locks of {group}", GROUP_LOCKS_MAX, "GROUP_LOCKS_MAX")
        if self._count >= LOCKS_MAX:
            raise Overloaded("locks of all groups", LOCKS_MAX, "LOCKS_MAX")

    def unlock(self, group: str, client_id: str, queues: Iterable[QueueRef]) -> None:
        """Give up locks; those of others stay."""
        held = self._table.get(group, {})
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            self._table.pop(group, None)

    def owner(self, group: str, queue: QueueRef, now_ms: int) -> str | None:
        """Who has a queue now."""
        owner, renewed_ms = self._table.get(group, {}).get(queue, (None, 0))
        return owner if now_ms - renewed_ms <= self._lock_ms else None

    def is_orderly(self, group: str, now_ms: int) -> bool:
        """Whether any queue is locked for the group."""
        held = self._table.get(group, {})
        return any(now_ms - renewed_ms <= self._lock_ms for _, renewed_ms in held.values())

    def forget_expired(self, now_ms: int) -> None:
        """Delete locks that nobody renews, so that the table stays small."""
        for group, held in list(self._table.items()):
            for queue in [q for q, (_, ms) in held.items() if now_ms - ms > self._lock_ms]:
                del held[queue]
                self._count -= 1
            if not held:
                del self._table[group]

    def carry(self, delta_ms: int) -> None:
        """Move all times along with the clock."""
        for held in self._table.values():
            for queue, (owner, renewed_ms) in held.items():
                held[queue] = (owner, renewed_ms + delta_ms)
