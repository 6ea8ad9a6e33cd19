"""One queue of a consumer that is asked for messages, and what it waits for.

Locating ──start known──► Pulling ◄──seek── anywhere
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.core.consumer.assigned_queue import Locating
from flintmq.core.consumer.consumer_status import AssignedQueueStatus, Waits, what_loop_waits_for
from flintmq.core.consumer.offset_ledger import Position
from flintmq.core.consumer.pull_loop import PullLoop
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pull.cached_batches import CachedBatches
from flintmq.model.queue import QueueOffset, QueueRef


@dataclass(frozen=True, slots=True)
class Pulling:
    loop: PullLoop
    position: Position


class LiteQueue:
    """What is cached of a queue, and how far it was handed out."""

    __slots__ = ("cached", "consumed", "is_paused", "is_stopped", "queue", "stage", "subscription")

    def __init__(self, queue: QueueRef, subscription: TopicSubscription) -> None:
        self.queue = queue
        self.subscription = subscription
        self.stage: Locating | Pulling = Locating(None, 0)
        self.cached = CachedBatches()
        self.consumed = QueueOffset(0)
        """Everything before it was handed out or is not wanted."""
        self.is_paused = False
        self.is_stopped = False
        """Whether a record that cannot be decoded ended it, and the program was told."""

    def status(self) -> AssignedQueueStatus:
        stage, cached = self.stage, self.cached
        if isinstance(stage, Locating):
            due_ms = stage.due_ms if stage.ask is None else None
            waiting: Waits = ("start offset", "waits to hear where to begin", due_ms, None)
        else:
            waiting = what_loop_waits_for(stage.loop, cached)
        reason, text, until_ms, next_offset = waiting
        return AssignedQueueStatus(
            queue=self.queue,
            stage="paused" if self.is_paused else type(stage).__name__.lower(),
            reason=reason,
            text=text,
            until_ms=until_ms,
            next_offset=next_offset,
            settled_to=stage.position.settled_to if isinstance(stage, Pulling) else None,
            cached_count=cached.count,
            cached_bytes=cached.size_bytes,
            cached_span=cached.span,
            sending_back=0,
            locked_until_ms=None,
            running=(),
            bad_count=stage.loop.bad_count if isinstance(stage, Pulling) else 0,
        )
