"""The offsets of a group at its brokers, moved on behind a stream.

Spark's checkpoint is the truth of what was read; this only makes it visible to every tool that
shows lag.  So a broker that does not take an offset stops nothing: it is told again later.

A thread of its own talks to the brokers, because nobody should wait for them before a batch.
When there is nothing else to do, `settle` waits: Spark may end the process at any moment after.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.clock import monotonic_ms
from flintmq.spark.reading.access import Access
from flintmq.spark.reading.cluster_queues import ClusterQueues

AGAIN_MS: Final = 1_000
"""How soon a broker is told again that did not take an offset."""

_logger = logger(__name__)


class OffsetCommits:
    """Where a group is to stand, and whether its brokers know."""

    def __init__(self, access: Access, group: str) -> None:
        self._access = access
        self._group = group
        self._told: Mapping[QueueRef, QueueOffset] = {}
        self._is_known = True
        self._tried_ms = 0
        self._is_closing = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._live, name="flintmq-offsets", daemon=True)
        self._thread.start()

    def follow(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """The group got so far.  Comes back at once.  What was told before may come late."""
        with self._change:
            ahead = {q: stop for q, stop in stops.items() if stop > self._told.get(q, -1)}
            if ahead:
                self._told = {**self._told, **ahead}
                self._is_known = False
                self._tried_ms = 0
                self._change.notify_all()

    def wait_for(self, stops: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait until it is told here that the group got so far."""
        with self._change:
            return self._change.wait_for(
                lambda: all(self._told.get(queue, -1) >= stop for queue, stop in stops.items()),
                timeout=timeout_s,
            )

    def settle(self, timeout_s: float) -> bool:
        """Wait until the brokers know, or one of them could not be told."""
        with self._change:
            return self._change.wait_for(
                lambda: self._is_known or self._tried_ms > 0, timeout=timeout_s
            )

    def close(self, timeout_s: float = 2.0) -> None:
        self.settle(timeout_s)
        with self._change:
            self._is_closing = True
            self._change.notify_all()
        self._thread.join(timeout_s)

    def _live(self) -> None:
        cluster = ClusterQueues(self._access)
        try:
            while (stops := self._next()) is not None:
                try:
                    cluster.commit(self._group, stops)
                except FlintError as error:
                    _logger.warning("the offset of group %s lags behind: %s", self._group, error)
                    self._tried(stops, worked=False)
                else:
                    self._tried(stops, worked=True)
        finally:
            cluster.close()

    def _next(self) -> Mapping[QueueRef, QueueOffset] | None:
        """Wait for something to tell; None at the end."""
        with self._change:
            while not self._is_closing:
                if self._is_known:
                    self._change.wait()
                    continue
                left_ms = self._tried_ms + AGAIN_MS - monotonic_ms() if self._tried_ms else 0
                if left_ms <= 0:
                    return self._told
                self._change.wait(left_ms / 1000)
            return None

    def _tried(self, stops: Mapping[QueueRef, QueueOffset], *, worked: bool) -> None:
        with self._change:
            if stops is self._told:
                self._is_known = worked
                self._tried_ms = monotonic_ms()
                self._change.notify_all()
