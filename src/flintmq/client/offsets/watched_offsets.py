"""An offset store whose commits are seen by hooks.

Invariant: it does what the store does that it was given.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from flintmq.client.hooks.receive_hooks import COMMIT, Watch
from flintmq.client.offsets.offset_store import Failures, OffsetStore
from flintmq.model.queue import QueueOffset, QueueRef


class WatchedOffsets:
    """The store of a consumer with hooks.  What it does not name is the store's own."""

    def __init__(self, store: OffsetStore, watch: Watch) -> None:
        self._store = store
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def persist(self, queues: Collection[QueueRef]) -> Failures:
        """Store what is remembered of these queues, in sight of the hooks."""
        if not queues:
            return await self._store.persist(queues)
        with self._watch.settling(COMMIT, queues):
            return await self._store.persist(queues)

    async def put(self, queue: QueueRef, offset: QueueOffset) -> None:
        """Store one offset at once, in sight of the hooks."""
        with self._watch.settling(COMMIT, [queue]):
            await self._store.put(queue, offset)


def watched(store: OffsetStore, watch: Watch) -> OffsetStore:
    """The store, seen by the hooks if there are any."""
    made: Any = WatchedOffsets(store, watch) if watch else store
    found: OffsetStore = made
    return found
