"""Scheduled pulling for programs without asyncio: `flintmq.ScheduledPull`."""

from __future__ import annotations

from typing import Unpack

from flintmq.client.engine.threaded_face import ThreadedFace
from flintmq.client.pull import scheduled_pull as aio
from flintmq.client.pull.pull_settings import ScheduledPullSettings
from flintmq.client.pull.scheduled_pull import STOP_S, AsyncPull, PlainPull
from flintmq.client.push.push_status import PullingStatus
from flintmq.model.queue import QueueRef


class ScheduledPull(ThreadedFace[aio.ScheduledPull]):
    """Runs a function for each queue that is ours; plain ones on threads, async ones on a loop."""

    def __init__(self, group: str, **settings: Unpack[ScheduledPullSettings]) -> None:
        super().__init__(aio.ScheduledPull(group, **settings))

    @property
    def queues(self) -> frozenset[QueueRef]:
        """The queues whose functions run."""
        return self._do(lambda: self._inner.queues)

    def register(self, topic: str, pull: AsyncPull | PlainPull) -> None:
        """Have a function run for every queue of a topic that is ours.  Before or after start."""
        self._do(lambda: self._inner.register(topic, pull))

    def stop(self, *, timeout_s: float = STOP_S) -> None:
        """Start nothing more, wait for what runs, store offsets, leave."""
        self._end(lambda: self._inner.stop(timeout_s=timeout_s))

    def status(self) -> PullingStatus:
        """Which functions run, for how long, and when the others do."""
        return self._run(self._inner.status())
