"""A `GroupConsumer` driven by hand: what it asked for, and short ways to answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from flintmq.core.consumer.consumer_status import AssignedQueueStatus
from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.consumer.member_actions import Action
from flintmq.core.group.actions import (
    AskMembers,
    AskStartOffset,
    Deliver,
    LockQueues,
    QueuesChanged,
    ReportEvent,
    SendBack,
    SendHeartbeat,
)
from flintmq.core.group.allocate import Strategy, allocate_averagely
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.pull_answers import MessagesFound
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.model.queue import QueueOffset, QueueRef
from support.core.messages import several

WALL_MS = 1_700_000_000_000
QUEUES = [QueueRef("orders", "broker-a", number) for number in range(2)]
Q0, Q1 = QUEUES

T = TypeVar("T")


class Consuming:
    """The machine, the time, and the actions that were not looked at yet."""

    def __init__(
        self,
        *topics: TopicSubscription,
        strategy: Strategy = allocate_averagely,
        **settings: Any,
    ) -> None:
        self.now_ms = 0
        self.machine = GroupConsumer(
            ConsumerSettings(**{"group": "billing", **settings}),
            "me",
            topics or [TopicSubscription("orders")],
            strategy=strategy,
            now_ms=0,
            wall_ms=WALL_MS,
        )
        self.actions: list[Action] = []

    # Looking

    def do(self, actions: Iterable[Action]) -> None:
        self.actions += actions

    def take(self, kind: type[T]) -> list[T]:
        """Actions of a kind; they are off the list then."""
        found: list[T] = [action for action in self.actions if isinstance(action, kind)]
        self.actions = [action for action in self.actions if not isinstance(action, kind)]
        return found

    def one(self, kind: type[T]) -> T:
        (found,) = self.take(kind)
        return found

    def texts(self) -> list[str]:
        return [
            f"{report.kind} {report.subject}: {report.text}" for report in self.take(ReportEvent)
        ]

    def queue(self, queue: QueueRef = Q0) -> AssignedQueueStatus:
        (found,) = [each for each in self.machine.status().queues if each.queue == queue]
        return found

    # Time

    def to(self, now_ms: int) -> Consuming:
        """Let time pass, as a driver does: from one due time to the next."""
        while (due_ms := max(self.machine.next_due_ms(), self.now_ms + 1)) <= now_ms:
            self.now_ms = due_ms
            self.do(self.machine.tick(due_ms))
        self.now_ms = now_ms
        return self

    # Short ways

    def introduced(self) -> Consuming:
        """Started, with its heartbeat delivered and its route known."""
        self.do(self.machine.start(self.now_ms))
        self.do(self.machine.heartbeat_done(self.one(SendHeartbeat), self.now_ms))
        self.do(self.machine.route_known("orders", QUEUES, self.now_ms))
        return self

    def members(self, *names: str) -> Consuming:
        for ask in self.take(AskMembers):
            self.do(self.machine.members_known(ask, names or ("me",), self.now_ms))
        return self

    def lock(self, *granted: QueueRef) -> Consuming:
        for ask in self.take(LockQueues):
            self.do(self.machine.locked(ask, granted or ask.queues, self.now_ms))
        return self

    def located(self, offset: int = 0, *, is_stored: bool = True) -> Consuming:
        for ask in self.take(AskStartOffset):
            start = StartOffset(QueueOffset(offset), is_stored)
            self.do(self.machine.start_known(ask, start, self.now_ms))
        return self

    def working(self, offset: int = 0, *members: str) -> Consuming:
        """All the way to pulls that are under way; the way there is forgotten."""
        self.introduced().members(*members).lock().located(offset)
        self.confirm()
        self.take(ReportEvent)
        self.take(QueuesChanged)
        return self

    def confirm(self) -> None:
        for heartbeat in self.take(SendHeartbeat):
            self.do(self.machine.heartbeat_done(heartbeat, self.now_ms))

    def pull_of(self, queue: QueueRef = Q0) -> Pull:
        """The pull of a queue that is under way; those of others stay on the list."""
        (found,) = [a for a in self.actions if isinstance(a, Pull) and a.queue == queue]
        self.actions.remove(found)
        return found

    def found(self, *offsets: int, queue: QueueRef = Q0, **more: Any) -> list[Deliver]:
        """Messages for a queue; the batches that come of them."""
        messages = several(*offsets, queue=queue, **more)
        answer = MessagesFound(QueueOffset(offsets[-1] + 1), messages=messages)
        self.do(self.machine.pull_answered(self.pull_of(queue), answer, self.now_ms))
        return self.take(Deliver)

    def run(self, batch: Deliver, result: object = None) -> None:
        assert self.machine.started(batch, self.now_ms)
        self.do(self.machine.consumed(batch, result, self.now_ms))

    def failed(self, batch: Deliver, result: object) -> SendBack:
        self.run(batch, result)
        return self.one(SendBack)
