"""Commits the offsets of finished micro-batches for the consumer group of a stream.

The checkpoint decides where a stream continues; the committed offsets only make its progress
visible to tools that show lag.  So a commit that fails does not fail the stream: it is repeated.

Commits are sent on their own thread, so that no micro-batch waits for them.  An idle source calls
`settle` to wait for them, because Spark may end the process at any moment after.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_queues import ClusterQueues
from flintmq.arrow.reading.route_cache import RouteCache
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.clock import monotonic_ms

AGAIN_MS: Final = 1_000
"""How soon a failed commit is repeated."""

_logger = logger(__name__)


class OffsetCommits:
    """The offsets to be committed for one group, and whether they are."""

    def __init__(self, access: Access, group: str, routes: RouteCache | None = None) -> None:
        self._access = access
        self._routes = routes
        self._group = group
        self._wanted: Mapping[QueueRef, QueueOffset] = {}
        self._is_committed = True
        self._tried_ms = 0
        self._is_closing = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="flintmq-offsets", daemon=True)
        self._thread.start()

    def follow(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """Have these offsets committed; returns at once.  An offset never goes back."""
        with self._change:
            ahead = {q: stop for q, stop in stops.items() if stop > self._wanted.get(q, -1)}
            if ahead:
                self._wanted = {**self._wanted, **ahead}
                self._is_committed = False
                self._tried_ms = 0
                self._change.notify_all()

    def wait_for(self, stops: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait until `follow` was called with these offsets; False when time is up."""
        with self._change:
            return self._change.wait_for(
                lambda: all(self._wanted.get(queue, -1) >= stop for queue, stop in stops.items()),
                timeout=timeout_s,
            )

    def settle(self, timeout_s: float) -> bool:
        """Wait until all offsets are committed, or a commit has failed."""
        with self._change:
            return self._change.wait_for(
                lambda: self._is_committed or self._tried_ms > 0, timeout=timeout_s
            )

    def close(self, timeout_s: float = 2.0) -> None:
        self.settle(timeout_s)
        with self._change:
            self._is_closing = True
            self._change.notify_all()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        queues = ClusterQueues(self._access, self._routes)
        try:
            while (stops := self._next()) is not None:
                try:
                    queues.commit(self._group, stops)
                except FlintError as error:
                    _logger.warning("the offset of group %s lags behind: %s", self._group, error)
                    self._tried(stops, worked=False)
                else:
                    self._tried(stops, worked=True)
        finally:
            queues.close()

    def _next(self) -> Mapping[QueueRef, QueueOffset] | None:
        """Wait for offsets to commit; None at the end."""
        with self._change:
            while not self._is_closing:
                if self._is_committed:
                    self._change.wait()
                    continue
                left_ms = self._tried_ms + AGAIN_MS - monotonic_ms() if self._tried_ms else 0
                if left_ms <= 0:
                    return self._wanted
                self._change.wait(left_ms / 1000)
            return None

    def _tried(self, stops: Mapping[QueueRef, QueueOffset], *, worked: bool) -> None:
        with self._change:
            if stops is self._wanted:
                self._is_committed = worked
                self._tried_ms = monotonic_ms()
                self._change.notify_all()
