"""Listeners that run, since when, and which of them run for too long.

A message whose listener takes longer than the consume timeout is sent back once, so that another
member can try, and the queue goes on.  The listener itself cannot be stopped: what it says in
the end about such a message no longer counts.

Invariant: batches stand in the order in which their listeners started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from typing import Final

from flintmq.core.group.actions import Deliver

CHECK_MS_MAX: Final = 30_000
"""How often to look, unless the timeout itself is shorter."""

EXPIRED_MAX: Final = 16
"""Messages of one queue sent back at one look: a stuck consumer must not flood its broker."""


def check_interval_ms(consume_timeout_ms: int) -> int:
    return min(consume_timeout_ms, CHECK_MS_MAX)


class RunningBatches(dict[Deliver, None]):
    """The batches of one queue that listeners have.  ``pop`` one that ended."""

    def start(self, batch: Deliver, now_ms: int) -> None:
        batch.started_ms = now_ms
        self[batch] = None

    def start_all(self, batches: Iterable[Deliver], now_ms: int) -> None:
        for batch in batches:
            batch.started_ms = now_ms
            self[batch] = None

    def pop_all(self, batches: Iterable[Deliver]) -> None:
        """The listeners of these batches ended."""
        deque(map(self.pop, batches, repeat(None)), maxlen=0)

    def overdue(self, timeout_ms: int, now_ms: int) -> list[Deliver]:
        """Batches that run for longer than the timeout, the longest first."""
        late = []
        for batch in self:
            assert batch.started_ms is not None
            if now_ms - batch.started_ms < timeout_ms:
                break
            late.append(batch)
        return late
