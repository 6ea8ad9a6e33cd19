"""The queues that a query owns in its group: their locks, their next offsets, their commits.

    Locking ──granted──► Locating ──start known──► Held ──planned──► Held, with a flight
       ▲                                            ▲                       │
       │ lock lost                                  └── finished: committed ┤
       └────────────────────────────────────────────────────────────────────┘ lock lost meanwhile

The flight of a queue is the span that the running micro-batch reads of it.  A queue that is
assigned to another member is released at once, unless it has a flight: then it is released when
the micro-batch is finished and its offset committed; an ordered queue keeps its lock until then.

It is a machine, like those of `flintmq.core`: events and the time in, actions out.

Invariant: the offset of a queue is committed only for a finished micro-batch, and never for one
during which the lock of the queue was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from flintmq.core.consumer.assigned_queue import Locating, Locking
from flintmq.core.consumer.queue_lock import QueueLock, QueueLocks
from flintmq.core.group.actions import (
    AskStartOffset,
    CommitOffset,
    LockQueues,
    ReportEvent,
    UnlockQueues,
)
from flintmq.core.group.rebalance import Share
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.queue import QueueOffset, QueueRef, Span

AGAIN_MS: Final = 1_000
"""Before a failed request for an offset or a failed commit is repeated."""


@dataclass(frozen=True, slots=True)
class Held:
    """The queue is ready: all messages before ``next_offset`` are consumed."""

    next_offset: QueueOffset


Stage: TypeAlias = Locking | Locating | Held


@dataclass(frozen=True, slots=True, eq=False)
class CommitLate:
    """Commit a queue that another member owns by now, only if that member is not further."""

    queue: QueueRef
    offset: QueueOffset


@dataclass(slots=True, eq=False)
class OwnedQueue:
    """One queue.  ``commit`` is the commit in flight, or the one to be repeated."""

    queue: QueueRef
    lock: QueueLock | None
    stage: Stage
    is_own: bool = True
    was_lost: bool = False
    """Whether another member may have owned it since its flight began."""
    flight: Span | None = None
    is_broken: bool = False
    """Whether the lock was lost during the flight."""
    moved_to: QueueOffset | None = None
    """The offset to which the group was reset during the flight."""
    commit: CommitOffset | CommitLate | None = None
    commit_due_ms: int | None = None


OwnedQueueAction: TypeAlias = (
    AskStartOffset | CommitOffset | CommitLate | LockQueues | UnlockQueues | ReportEvent
)


class OwnedQueues:
    """The owned queues of one query."""

    def __init__(self, subscriptions: Subscriptions, *, is_clustering: bool) -> None:
        self._subscriptions = subscriptions
        self._is_clustering = is_clustering
        self._queues: dict[QueueRef, OwnedQueue] = {}
        self._locks = QueueLocks()
        self._checkpoint: dict[QueueRef, QueueOffset] = {}

    def __iter__(self) -> Iterator[OwnedQueue]:
        return iter(list(self._queues.values()))

    # State

    @property
    def is_settled(self) -> bool:
        """Whether the next offset of every owned queue is known."""
        return all(isinstance(each.stage, Held) for each in self if each.is_own)

    def ready(self, now_ms: int) -> dict[QueueRef, QueueOffset]:
        """The next offset of each queue that a micro-batch may read."""
        return {
            each.queue: each.stage.next_offset
            for each in self
            if each.is_own and isinstance(each.stage, Held) and _has_lock(each, now_ms)
        }

    def broken(self, now_ms: int) -> list[QueueRef]:
        """Queues of the running micro-batch whose locks were lost."""
        return sorted(
            each.queue
            for each in self
            if each.flight is not None and (each.is_broken or not _has_lock(each, now_ms))
        )

    def lease_until_ms(self) -> int | None:
        """When the first lock of the running micro-batch expires; None without locks."""
        times = [
            each.lock.held_until_ms or 0
            for each in self
            if each.flight is not None and each.lock is not None
        ]
        return min(times, default=None)

    # Shares

    def resume(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """The offsets of a checkpoint: queues continue there if the group's are lower."""
        self._checkpoint = dict(stops)

    def apply(self, share: Share, now_ms: int) -> list[OwnedQueueAction]:
        """Apply a new assignment of the queues of a topic."""
        out: list[OwnedQueueAction] = []
        for each in self:
            if each.queue.topic == share.topic and each.is_own and each.queue not in share.own:
                each.is_own, each.was_lost = False, True
                out.append(ReportEvent("rebalance", str(each.queue), "not ours any more"))
                out += self._release(each)
        for queue in sorted(share.own):
            known = self._queues.get(queue)
            if known is None:
                out += self._add(queue, now_ms)
            elif not known.is_own:
                known.is_own = True
        for queue in [each for each in self._checkpoint if each.topic == share.topic]:
            if queue not in share.own:  # its new owner commits from now on
                del self._checkpoint[queue]
        return out + self.tick(now_ms)

    def _add(self, queue: QueueRef, now_ms: int) -> list[OwnedQueueAction]:
        report = ReportEvent("rebalance", str(queue), "ours now")
        if self._subscriptions.is_ordered(queue.topic) and self._is_clustering:
            lock = self._locks.want(queue, now_ms)
            self._queues[queue] = OwnedQueue(queue, lock, Locking())
            return [report]
        owned = self._queues[queue] = OwnedQueue(queue, None, Locating(None, now_ms))
        return [report, _locate(owned, now_ms)]

    def _release(self, owned: OwnedQueue) -> list[OwnedQueueAction]:
        """Release a queue, unless it has a flight or a commit."""
        if owned.is_own or owned.flight is not None or owned.commit is not None:
            return []
        del self._queues[owned.queue]
        self._checkpoint.pop(owned.queue, None)
        if self._locks.forget(owned.queue):
            return [UnlockQueues(owned.queue.broker, (owned.queue,))]
        return []

    # Start offsets

    def start_known(self, ask: AskStartOffset, start: StartOffset) -> list[OwnedQueueAction]:
        owned = self._asked(ask)
        if owned is None:
            return []
        offset = max(start.offset, self._checkpoint.pop(ask.queue, start.offset))
        owned.stage = Held(offset)
        if start.is_stored and offset == start.offset:
            return []
        return self._commit(owned, offset)

    def start_failed(self, ask: AskStartOffset, reason: str, now_ms: int) -> list[OwnedQueueAction]:
        owned = self._asked(ask)
        if owned is None:
            return []
        owned.stage = Locating(None, now_ms + AGAIN_MS)
        text = f"where to begin is not known: {reason}"
        return [ReportEvent("offset", str(ask.queue), text, logging.WARNING)]

    def _asked(self, ask: AskStartOffset) -> OwnedQueue | None:
        owned = self._queues.get(ask.queue)
        if owned is None or not isinstance(owned.stage, Locating):
            return None
        return owned if owned.stage.ask is ask else None

    def reset(self, offsets: Mapping[QueueRef, QueueOffset]) -> list[OwnedQueueAction]:
        """Reset queues to these offsets; a queue with a flight after its micro-batch."""
        out: list[OwnedQueueAction] = []
        for queue, to in offsets.items():
            owned = self._queues.get(queue)
            if owned is None or not isinstance(owned.stage, Held):
                continue
            out.append(ReportEvent("reset", str(queue), f"goes on from {to}", logging.WARNING))
            if owned.flight is not None:
                owned.moved_to = to
            else:
                out += self._move(owned, to)
        return out

    def _move(self, owned: OwnedQueue, to: QueueOffset) -> list[OwnedQueueAction]:
        owned.stage, owned.moved_to = Held(to), None
        return self._commit(owned, to)

    # Micro-batches

    def plan(self, spans: Iterable[Span]) -> None:
        """A micro-batch with these spans runs from now on."""
        for span in spans:
            owned = self._queues.get(span.queue)
            if owned is not None and len(span):
                owned.flight, owned.is_broken = span, False

    def finish(self, stops: Mapping[QueueRef, QueueOffset], now_ms: int) -> list[OwnedQueueAction]:
        """The micro-batch that ends at ``stops`` is finished.  A second call has no effect."""
        out: list[OwnedQueueAction] = []
        for owned in self:
            flight = owned.flight
            if flight is not None and stops.get(owned.queue) == flight.stop:
                owned.flight = None
                out += self._batch_finished(owned, flight, now_ms)
        return out

    def _batch_finished(
        self, owned: OwnedQueue, flight: Span, now_ms: int
    ) -> list[OwnedQueueAction]:
        if owned.is_broken:
            return self._relocate(owned, now_ms)
        if owned.moved_to is not None:
            return self._move(owned, owned.moved_to)
        owned.stage = Held(flight.stop)
        return self._commit(owned, flight.stop)

    def _relocate(self, owned: OwnedQueue, now_ms: int) -> list[OwnedQueueAction]:
        """Another member owned the queue meanwhile: continue at the group's offset."""
        owned.is_broken, owned.moved_to, owned.stage = False, None, Locking()
        return self._release(owned) or self.tick(now_ms)

    def forget_flights(self, now_ms: int) -> list[OwnedQueueAction]:
        """Forget a micro-batch that was planned and did not run."""
        out: list[OwnedQueueAction] = []
        for owned in self:
            if owned.flight is not None:
                owned.flight = None
                is_broken = owned.is_broken
                out += self._relocate(owned, now_ms) if is_broken else self._release(owned)
        return out

    # Commits

    def _commit(self, owned: OwnedQueue, offset: QueueOffset) -> list[OwnedQueueAction]:
        if not self._is_clustering:
            return self._release(owned)
        owned.commit_due_ms = None
        owned.commit = (
            CommitLate(owned.queue, offset)
            if owned.was_lost
            else CommitOffset(owned.queue, offset, is_urgent=True)
        )
        return [owned.commit]

    def committed(self, commit: CommitOffset | CommitLate, now_ms: int) -> list[OwnedQueueAction]:
        owned = self._queues.get(commit.queue)
        if owned is None or owned.commit is not commit:
            return []
        owned.commit = None
        out = self._release(owned)
        if owned.is_own and owned.was_lost:
            owned.was_lost = False
            out.append(_locate(owned, now_ms))  # assigned again: the group may be further
        return out

    def commit_failed(
        self, commit: CommitOffset | CommitLate, reason: str, now_ms: int
    ) -> list[OwnedQueueAction]:
        """Repeat the commit of an owned queue; leave that of another to its owner."""
        owned = self._queues.get(commit.queue)
        if owned is None or owned.commit is not commit:
            return []
        text = f"{commit.offset} was not committed: {reason}"
        report = ReportEvent("offset", str(commit.queue), text, logging.WARNING)
        if owned.is_own:
            owned.commit_due_ms = now_ms + AGAIN_MS
            return [report]
        owned.commit = None
        return [report, *self._release(owned)]

    # Locks

    def locked(
        self, ask: LockQueues, granted: Iterable[QueueRef], now_ms: int
    ) -> list[OwnedQueueAction]:
        change = self._locks.granted(ask, granted, now_ms)
        out: list[OwnedQueueAction] = []
        for queue in change.won:
            owned = self._queues[queue]
            if isinstance(owned.stage, Locking):
                out.append(_locate(owned, now_ms))
        for queue in change.lost:
            out += self._lock_lost(queue, "another member has it")
        return out

    def lock_failed(self, ask: LockQueues, reason: str, now_ms: int) -> list[OwnedQueueAction]:
        self._locks.failed(ask, now_ms)
        text = f"{len(ask.queues)} locks not known: {reason}"
        return [ReportEvent("lock", ask.broker, text, logging.WARNING)]

    def _lock_lost(self, queue: QueueRef, reason: str) -> list[OwnedQueueAction]:
        owned = self._queues[queue]
        if owned.flight is not None:
            owned.is_broken = True
        else:
            owned.stage = Locking()
        return [ReportEvent("lock", str(queue), f"lost: {reason}", logging.WARNING)]

    # Timers and the end

    def tick(self, now_ms: int) -> list[OwnedQueueAction]:
        """Start what is due."""
        out: list[OwnedQueueAction] = []
        for queue in self._locks.expired(now_ms):
            out += self._lock_lost(queue, "it could not be renewed")
        out += self._locks.due(now_ms)
        for owned in self:
            stage = owned.stage
            is_due = isinstance(stage, Locating) and stage.ask is None and stage.due_ms <= now_ms
            if is_due or (isinstance(stage, Locking) and _has_lock(owned, now_ms)):
                out.append(_locate(owned, now_ms))
            if owned.commit_due_ms is not None and owned.commit_due_ms <= now_ms:
                assert owned.commit is not None
                out += self._commit(owned, owned.commit.offset)
        return out

    def next_due_ms(self) -> int | None:
        times = [self._locks.next_due_ms()]
        for owned in self:
            stage = owned.stage
            if isinstance(stage, Locating) and stage.ask is None:
                times.append(stage.due_ms)
            times.append(owned.commit_due_ms)
        return min((time for time in times if time is not None), default=None)

    def leave(self) -> list[OwnedQueueAction]:
        """Unlock queues without a flight; those that listeners may still read stay locked."""
        out: list[OwnedQueueAction] = []
        for owned in self:
            was_locked = self._locks.forget(owned.queue)
            if was_locked and owned.flight is None:
                out.append(UnlockQueues(owned.queue.broker, (owned.queue,)))
        self._queues.clear()
        return out


def _has_lock(owned: OwnedQueue, now_ms: int) -> bool:
    return owned.lock is None or owned.lock.is_held(now_ms)


def _locate(owned: OwnedQueue, now_ms: int) -> AskStartOffset:
    ask = AskStartOffset(owned.queue)
    owned.stage = Locating(ask, now_ms)
    return ask
