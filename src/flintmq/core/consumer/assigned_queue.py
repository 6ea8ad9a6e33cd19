"""The life of one queue in one member of a group.

    Locking ──won──► Locating ──start known──► Working ──lost, stopped──► Closing ──► gone
                                                  │                          ▲
                                                  ├─offset moved, reset─► Moved, for 10 s
                                                  └─lock lost─► Dropped ──listener returned──► gone

Closing waits for listeners that run, then commits, then unlocks.  A pull that was under way when
it committed, and brings an older offset, may be served after that: then the commit is confirmed
before the queue is gone.  Only ordered queues that are shared are locked; a concurrent queue that
another member takes over is gone at once.  What listeners say counts in Working, and in Closing
unless the queue was moved.

Invariant: offsets advance only while results count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from flintmq.core.consumer.offset_ledger import Position
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.pull_loop import CacheLimits, PullLoop, PullWaiting
from flintmq.core.consumer.queue_lock import QueueLock
from flintmq.core.consumer.settle_bad_records import BadAction, BadSettling
from flintmq.core.consumer.settle_concurrent import ConcurrentSettling, SettleRules
from flintmq.core.consumer.settle_orderly import OrderlySettling
from flintmq.core.group.actions import AskStartOffset, CommitOffset, ConfirmOffset, Deliver
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.reading.pull_request import Pull
from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.group import without_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

MOVED_MS: Final = 10_000
"""How long a queue rests before it begins anew at an offset that it was given."""

START_AGAIN_MS: Final = 1_000
"""After a question for the start offset that got no answer."""


@dataclass(frozen=True, slots=True)
class Locking:
    pass


@dataclass(frozen=True, slots=True)
class Locating:
    """The start offset is asked for.  ``ask`` is None between two requests."""

    ask: AskStartOffset | None
    due_ms: int


@dataclass(frozen=True, slots=True)
class Working:
    loop: PullLoop
    position: Position


@dataclass(frozen=True, slots=True)
class Moved:
    to: QueueOffset
    until_ms: int


@dataclass(frozen=True, slots=True)
class Closing:
    """``position`` is None where what listeners say no longer counts.

    ``pull`` has no answer yet.  ``last`` is under way once listeners have returned.
    """

    position: Position | None
    pull: Pull | None = None
    last: CommitOffset | ConfirmOffset | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    pass


Stage: TypeAlias = Locking | Locating | Working | Moved | Closing | Dropped


class AssignedQueue:
    """One queue: its stage, its cache, its pulls and its settling."""

    def __init__(
        self, queue: QueueRef, rules: SettleRules, *, ordered: bool, lock: QueueLock | None = None
    ) -> None:
        self.queue = queue
        self.ordered = ordered
        self._is_dead_lettering = rules.is_dead_lettering
        self._lock = lock
        self.stage: Stage = Locking()
        self.cached = ProcessQueue()
        self.pulled_ms: int | None = None
        self.consumed_ms: int | None = None
        """When the last pull was answered, and when the last listener ended."""
        self.settling: ConcurrentSettling | OrderlySettling = (
            OrderlySettling(queue, self.cached, rules, self)
            if ordered
            else ConcurrentSettling(queue, self.cached, rules, self)
        )
        self.bad: BadSettling | None = None
        """Records that cannot be decoded, once there was one."""

    def __repr__(self) -> str:
        return f"<AssignedQueue {self.queue} {type(self.stage).__name__}>"

    @property
    def counts(self) -> bool:
        """Whether what listeners say about this queue still counts."""
        stage = self.stage
        return isinstance(stage, Working) or (
            isinstance(stage, Closing) and stage.position is not None
        )

    @property
    def is_held_up(self) -> bool:
        """Whether something is under way that has to end before the queue is given up."""
        if not self.counts:
            return len(self.settling.running) > 0
        return self.settling.is_busy or (self.bad is not None and self.bad.in_flight > 0)

    @property
    def sending_back(self) -> int:
        """Messages and bad records that a broker was asked to store again."""
        return self.settling.sending_back + (0 if self.bad is None else self.bad.in_flight)

    def is_free(self, now_ms: int) -> bool:
        """Whether the queue is ours alone, or need not be."""
        return self._lock is None or self._lock.is_held(now_ms)

    @property
    def locked_until_ms(self) -> int | None:
        return None if self._lock is None else self._lock.held_until_ms

    def locate(self, now_ms: int) -> AskStartOffset:
        """Ask where to begin."""
        ask = AskStartOffset(self.queue)
        self.stage = Locating(ask, now_ms)
        return ask

    def locate_again(self, now_ms: int) -> None:
        """The question got no answer."""
        self.stage = Locating(None, now_ms + START_AGAIN_MS)

    def work(
        self, position: Position, settings: ConsumerSettings, limits: CacheLimits, now_ms: int
    ) -> None:
        """Begin where ``position`` is; it follows what is cached from now on."""
        start = position.settled_to
        position.follow(self.cached)
        loop = PullLoop(self.queue, start, self.cached, settings, limits, now_ms)
        self.stage = Working(loop, position)

    def cache(self, messages: Sequence[ReceivedMessage]) -> list[Deliver]:
        return self.settling.add(messages)

    def lay_aside(self, bad: Sequence[BadRecord]) -> list[BadAction]:
        """Records that cannot be decoded, as the rule of the group has it."""
        if self._is_dead_lettering:
            if self.bad is None:
                self.bad = BadSettling(self.queue, self.cached, self)
            return self.bad.send_to_dead_letters(bad)
        for one in bad:
            self.cached.pass_over(one.queue_offset)
        return []

    def withdraw(self, batch: Deliver) -> None:
        """A batch that no listener has seen, and none may see now."""
        if isinstance(self.settling, OrderlySettling):
            self.settling.withdraw(batch)

    def next_batches(self) -> tuple[Deliver, ...]:
        """What an ordered queue gives out next, if it is free to go on."""
        batch = self.settling.next_batch()
        return () if batch is None else (batch,)

    def is_time_to_pull(self, now_ms: int) -> bool:
        state = self.stage.loop.state if isinstance(self.stage, Working) else None
        return isinstance(state, PullWaiting) and state.until_ms <= now_ms

    def next_due_ms(self) -> int | None:
        """When to look at this queue again."""
        stage = self.stage
        if isinstance(stage, Moved):
            return stage.until_ms
        if isinstance(stage, Locating):
            return stage.due_ms if stage.ask is None else None
        if isinstance(stage, Working):
            times = [stage.loop.due_ms, self.settling.next_due_ms()]
            if self.bad is not None:
                times.append(self.bad.next_due_ms())
            return min((time for time in times if time is not None), default=None)
        return None


def as_listeners_see(
    messages: Sequence[ReceivedMessage], queue: QueueRef, *, is_retry: bool, namespace: str
) -> Sequence[ReceivedMessage]:
    """With the topic they were first sent to, and without the namespace."""
    if not is_retry and not namespace:
        return messages
    seen = []
    for message in messages:
        topic = message.topic
        if is_retry:
            topic = message.properties.get(names.RETRY_TOPIC) or queue.topic
        topic = without_namespace(namespace, topic)
        seen.append(message if topic == message.topic else message._replace(topic=topic))
    return seen
