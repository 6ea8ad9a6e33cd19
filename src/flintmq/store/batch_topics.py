"""Topics that keep batches, as the owner of a store makes them and appends to them.

What makes one is a durable mark, so that a crash before the first message does not change the kind
of its queues.
"""

from __future__ import annotations

from collections.abc import Iterator

from flintmq.model.queue import QueueOffset
from flintmq.store.recovery.parts import StoreParts


class BatchTopics:
    """Those of one open store."""

    def __init__(self, parts: StoreParts) -> None:
        self._queues = parts.queues
        self._dispatch = parts.dispatch

    def __contains__(self, topic: str) -> bool:
        return topic in self._queues.batch_topics

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._queues.batch_topics))

    def keep(self, topic: str) -> None:
        """Let a new topic keep batches.  `DiskFailed`: it does not."""
        self._queues.keep_batches(topic)

    def next_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The queue offset the next message of a queue gets, in the turn under way."""
        return self._dispatch.next_offset(topic, queue_id)
