"""The queues a member has, and how they come and go.

It joins what each queue needs of the others: the ledger of offsets, the locks, the agenda.  A
queue that ends makes room for itself: ``is_freed`` asks for another look at who has what.

Invariant: a queue is in the table from when it is gained until nothing of it runs any more, so
an ordered queue is never begun anew while a listener still has one of its messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from flintmq.core.consumer.assigned_queue import (
    MOVED_MS,
    AssignedQueue,
    Closing,
    Dropped,
    Locating,
    Locking,
    Moved,
    Working,
)
from flintmq.core.consumer.due_queue import Agenda
from flintmq.core.consumer.member_actions import Action
from flintmq.core.consumer.offset_ledger import OffsetLedger
from flintmq.core.consumer.pull_loop import Awaiting, CacheLimits
from flintmq.core.consumer.queue_lock import QueueLocks
from flintmq.core.consumer.settle_concurrent import settle_rules
from flintmq.core.group.actions import (
    AskStartOffset,
    CommitOffset,
    ConfirmOffset,
    LockQueues,
    ReportEvent,
    UnlockQueues,
)
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.rebalance import Share
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.core.reading.pull_request import Pull
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import MASTER_ID

QUEUES_MAX: Final = 65_536
"""Of one member: each has a pull under way."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The actions of a new share, and whether the owned queues changed."""

    actions: list[Action]
    has_changed: bool


class QueueTable:
    """All queues of one member of a group."""

    def __init__(self, settings: ConsumerSettings, subscriptions: Subscriptions) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._queues: dict[QueueRef, AssignedQueue] = {}
        self.ledger = OffsetLedger()
        self.locks = QueueLocks()
        self.agenda: Agenda[AssignedQueue] = Agenda()
        self.is_freed = False

    def __iter__(self) -> Iterator[AssignedQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    def find(self, queue: QueueRef) -> AssignedQueue | None:
        return self._queues.get(queue)

    # Shares

    def apply(self, share: Share, now_ms: int) -> Applied:
        """Give up what is not ours any more, take what is new."""
        out: list[Action] = []
        has_changed = False
        for home in self:
            if home.queue.topic != share.topic:
                continue
            stage = home.stage
            is_lost = isinstance(stage, Working) and stage.loop.is_lost(now_ms)
            if home.queue not in share.own and not isinstance(stage, Closing | Dropped):
                out += self.lose(home)
                has_changed = True
            elif is_lost:
                text = "its pull was never answered; the queue begins anew"
                out.append(ReportEvent("pull", str(home.queue), text, logging.ERROR))
                out += self.lose(home)
        for queue in sorted(share.own):
            if queue not in self._queues and len(self._queues) < QUEUES_MAX:
                out += self._gain(queue, now_ms)
                has_changed = True
        if has_changed:
            self._share_limits(share.topic)
        return Applied(out, has_changed)

    def _gain(self, queue: QueueRef, now_ms: int) -> list[Action]:
        ordered = self._subscriptions.is_ordered(queue.topic)
        needs_lock = ordered and self._settings.is_clustering
        lock = self.locks.want(queue, now_ms) if needs_lock else None
        home = AssignedQueue(
            queue,
            settle_rules(self._settings, self._subscriptions, queue.topic),
            ordered=ordered,
            lock=lock,
        )
        self._queues[queue] = home
        report = ReportEvent("rebalance", str(queue), "ours now")
        return [report] if needs_lock else [report, home.locate(now_ms)]

    def _share_limits(self, topic: str) -> None:
        """Limits of a topic are those of its queues together."""
        stages = [h.stage for h in self._queues.values() if h.queue.topic == topic]
        for stage in stages:
            if isinstance(stage, Working):
                stage.loop.limits = self._limits(topic)

    def _limits(self, topic: str) -> CacheLimits:
        count = sum(queue.topic == topic for queue in self._queues)
        ordered = self._subscriptions.is_ordered(topic)
        return CacheLimits.of(self._settings, count, ordered=ordered)

    # Begin

    def begin(self, ask: AskStartOffset, start: StartOffset, now_ms: int) -> AssignedQueue | None:
        """The start is known.  None if the question is not asked any more."""
        home = self._queues.get(ask.queue)
        if home is None or not isinstance(home.stage, Locating) or home.stage.ask is not ask:
            return None
        position = self.ledger.begin(ask.queue, start.offset, is_stored=start.is_stored)
        home.work(position, self._settings, self._limits(ask.queue.topic), now_ms)
        return home

    def begin_failed(self, ask: AskStartOffset, reason: str, now_ms: int) -> list[Action]:
        home = self._queues.get(ask.queue)
        if home is None or not isinstance(home.stage, Locating) or home.stage.ask is not ask:
            return []
        home.locate_again(now_ms)
        self.agenda.schedule(home, home.next_due_ms())
        text = f"where to begin is not known: {reason}"
        return [ReportEvent("offset", str(ask.queue), text, logging.WARNING)]

    # Locks

    def locked(self, ask: LockQueues, granted: Iterable[QueueRef], now_ms: int) -> list[Action]:
        """The broker answered which of the queues are locked for this client."""
        change = self.locks.granted(ask, granted, now_ms)
        out: list[Action] = []
        for queue in change.won:
            home = self._queues[queue]
            assert isinstance(home.stage, Locking), home
            out.append(home.locate(now_ms))
        for queue in change.lost:
            out += self._lock_lost(queue, "another member has its lock")
        return out

    def check_locks(self, now_ms: int) -> list[Action]:
        """Give up what was not renewed in time; ask for what is due."""
        out: list[Action] = []
        for queue in self.locks.expired(now_ms):
            out += self._lock_lost(queue, "its lock could not be renewed")
        return out + list(self.locks.due(now_ms))

    def _lock_lost(self, queue: QueueRef, reason: str) -> list[Action]:
        """Others may consume it now: nothing is committed, and it is locked and begun anew."""
        home = self._queues[queue]
        report = ReportEvent("lock", str(queue), f"lost: {reason}", logging.WARNING)
        if isinstance(home.stage, Locating):
            home.stage = Locking()
            return [report]
        self.ledger.forget(queue)
        self.locks.forget(queue)
        home.stage = Dropped()
        return [report, *self.settled(home)]

    def carry(self, delta_ms: int) -> None:
        """The clock is about to be moved: locks and pulls under way get no older by it."""
        self.locks.carry(delta_ms)
        for home in self._queues.values():
            if isinstance(home.stage, Working):
                home.stage.loop.carry(delta_ms)

    # The end

    def lose(self, home: AssignedQueue) -> list[Action]:
        """Another member takes it over."""
        out: list[Action] = [ReportEvent("rebalance", str(home.queue), "not ours any more")]
        if home.ordered:
            return out + self.close(home)
        if isinstance(home.stage, Moved):
            self.ledger.reset(home.queue, home.stage.to)
        offset = self.ledger.next_commit(home.queue)
        if offset is not None:
            out.append(CommitOffset(home.queue, offset))
        return out + self._remove(home)

    def move(self, home: AssignedQueue, to: QueueOffset, now_ms: int) -> None:
        """Forget what is cached; begin anew at ``to`` after a while."""
        home.stage = Moved(to, now_ms + MOVED_MS)
        self.ledger.forget(home.queue)
        self.agenda.schedule(home, home.next_due_ms())

    def close(self, home: AssignedQueue) -> list[Action]:
        """Let what runs end, then commit, then unlock.  A moved queue begins anew after that."""
        stage = home.stage
        if isinstance(stage, Closing | Dropped):
            return []
        if isinstance(stage, Moved):
            self.ledger.reset(home.queue, stage.to)
        home.stage = Closing(None)
        if isinstance(stage, Working):
            state = stage.loop.state
            pull = state.pull if isinstance(state, Awaiting) else None
            home.stage = Closing(stage.position, pull)
        return self.settled(home)

    def pull_ended(self, pull: Pull) -> None:
        """A pull of a queue that closes was answered, so what it brought is behind us."""
        home = self._queues.get(pull.queue)
        if home is None or not isinstance(home.stage, Closing):
            return
        if home.stage.pull is pull and home.stage.last is None:
            home.stage = Closing(home.stage.position)

    def settled(self, home: AssignedQueue) -> list[Action]:
        """Something of the queue ended.  If it was the last thing, the queue goes on to its end."""
        stage = home.stage
        if self._queues.get(home.queue) is not home:
            return []  # removed already, and perhaps ours again under another home
        if isinstance(stage, Dropped):
            if home.is_held_up:
                return []
            self.is_freed = True
            return self._remove(home)
        if not isinstance(stage, Closing) or stage.last is not None:
            return []
        waits = home.ordered or stage.position is not None
        if waits and home.is_held_up:
            return []
        offset = self.ledger.next_commit(home.queue)
        if offset is not None:
            commit = CommitOffset(home.queue, offset, is_urgent=True)
            home.stage = Closing(stage.position, stage.pull, commit)
            return [commit]
        return self._confirm(home, stage)

    def _confirm(self, home: AssignedQueue, stage: Closing) -> list[Action]:
        """Confirm the last commit of a queue where a pull in flight brings an older offset."""
        pull, position = stage.pull, stage.position
        if pull is None or pull.commit_offset is None or position is None:
            return self._release(home)
        if pull.commit_offset >= position.settled_to:
            return self._release(home)
        behind = replace(pull, broker_id=MASTER_ID, commit_offset=None, count_max=1, suspend_ms=0)
        confirm = ConfirmOffset(home.queue, position.settled_to, behind)
        home.stage = Closing(position, None, confirm)
        return [confirm]

    def committed(self, commit: CommitOffset, *, failed: bool = False) -> list[Action]:
        """An urgent commit was taken, or failed for good."""
        home = self._ends_with(commit)
        if home is None:
            return []
        assert isinstance(home.stage, Closing)
        return self._release(home) if failed else self._confirm(home, home.stage)

    def confirmed(self, ask: ConfirmOffset, stored: QueueOffset | None) -> list[Action]:
        """The offset that is stored; None if it is not known, or an admin moved the group."""
        home = self._ends_with(ask)
        if home is None:
            return []
        if stored is None or stored >= ask.offset:
            return self._release(home)
        stage = home.stage
        assert isinstance(stage, Closing)
        text = f"a late pull took it back from {ask.offset} to {stored}; committed again"
        commit = CommitOffset(home.queue, ask.offset, is_urgent=True)
        home.stage = Closing(stage.position, None, commit)
        return [ReportEvent("offset", str(home.queue), text, logging.WARNING), commit]

    def _ends_with(self, last: CommitOffset | ConfirmOffset) -> AssignedQueue | None:
        """The queue that is given up when this is done."""
        home = self._queues.get(last.queue)
        if home is None or not isinstance(home.stage, Closing) or home.stage.last is not last:
            return None
        return home

    def abandon(self, home: AssignedQueue) -> list[Action]:
        """Wait for nothing.  A queue that a listener still has stays locked until that expires."""
        out: list[Action] = []
        offset = self.ledger.next_commit(home.queue)
        if offset is not None:
            out.append(CommitOffset(home.queue, offset))
        if home.ordered and len(home.settling.running):
            self.locks.forget(home.queue)
        return out + self._release(home)

    def _release(self, home: AssignedQueue) -> list[Action]:
        queue = home.queue
        self.is_freed = True
        if self.locks.forget(queue):
            return [UnlockQueues(queue.broker, (queue,)), *self._remove(home)]
        return self._remove(home)

    def _remove(self, home: AssignedQueue) -> list[Action]:
        assert self._queues.pop(home.queue) is home
        home.stage = Dropped()
        self.ledger.forget(home.queue)
        self.agenda.drop(home)
        return []
