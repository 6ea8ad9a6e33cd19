"""Offsets of a pulling consumer: remembered at once, stored every few seconds.

    update ──► store's memory ──every commit_interval_ms, when lost, at the end──► store
    commit ──► store, at once, and raises when that fails

Only what changed since it was stored or read is stored, so a queue that somebody else consumes
meanwhile keeps the offset of who consumes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from flintmq.client.engine.event_log import EventLog
from flintmq.client.engine.timing import Timing
from flintmq.client.offsets.offset_store import OffsetStore, ReadFrom
from flintmq.model.queue import QueueOffset, QueueRef


class OffsetKeeper:
    """The offsets of one consumer in one store."""

    def __init__(
        self, store: OffsetStore, events: EventLog, interval_ms: int, timing: Timing
    ) -> None:
        self.store = store
        self._events = events
        self._interval_ms = interval_ms
        self._timing = timing
        self._told: dict[QueueRef, QueueOffset] = {}

    async def load(self) -> None:
        """Read what the store wants to know in advance."""
        await self.store.load()
        self._told = self.store.clone()

    async def read(self, queue: QueueRef, *, from_store: bool = False) -> QueueOffset | None:
        """Where the group stands; what is remembered counts unless the store is asked for."""
        if not from_store:
            known = await self.store.read(queue, ReadFrom.MEMORY)
            if known is not None:
                return known
        offset = await self.store.read(queue, ReadFrom.STORE)
        if offset is not None:
            self._told[queue] = offset
        return offset

    def update(self, queue: QueueRef, offset: QueueOffset, *, increase_only: bool = False) -> None:
        """Remember an offset.  One that goes back is stored even if it is forward again by then:
        a broker that moved the group has another one.
        """
        if offset < self._told.get(queue, offset):
            del self._told[queue]
        self.store.update(queue, offset, increase_only=increase_only)

    async def commit(self, queue: QueueRef, offset: QueueOffset) -> None:
        """Store one offset now."""
        self.store.update(queue, offset, increase_only=False)
        await self.store.put(queue, offset)
        self._told[queue] = offset

    async def persist(self, queues: Iterable[QueueRef] | None = None) -> list[QueueRef]:
        """Store what changed, of these queues or of all; the queues where that failed."""
        known = self.store.clone()
        chosen = known if queues is None else [queue for queue in queues if queue in known]
        changed = [queue for queue in chosen if self._told.get(queue) != known[queue]]
        if not changed:
            return []
        failures = await self.store.persist(changed)
        for queue in changed:
            if queue in failures:
                self._events.add("offset", str(queue), str(failures[queue]), logging.WARNING)
            else:
                self._told[queue] = known[queue]
        return list(failures)

    async def release(self, queue: QueueRef) -> None:
        """Store what changed of a queue that is not ours any more, and forget it."""
        await self.persist([queue])
        self.forget(queue)

    def forget(self, queue: QueueRef) -> None:
        self.store.remove(queue)
        self._told.pop(queue, None)

    async def run(self) -> None:
        while True:
            await self._timing.sleep(self._interval_ms)
            await self.persist()
