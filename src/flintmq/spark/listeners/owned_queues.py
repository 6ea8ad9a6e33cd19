"""The queues that a query has in its group: which are ours, where they go on, what is under way.

    Locking ──won──► Locating ──start known──► Held ──planned──► Held, with a flight
       ▲                                        ▲                       │
       │ lock lost                              └── finished: committed ┤
       └────────────────────────────────────────────────────────────────┘ lock lost meanwhile

A flight is what the batch that runs now reads of a queue.  A queue that another member gets is
gone at once, unless it has a flight: then it is given up when the batch is done and its offset is
committed, and an ordered one keeps its lock until then.

It is a machine, like those of `core`: events and the time in, actions out.

Invariant: the offset of a queue is committed only for a batch that is done, and never for one in
which the lock of the queue was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from flintmq.core.consumer.queue_lock import QueueLock, QueueLocks
from flintmq.core.group.actions import (
    AskStartOffset,
    CommitOffset,
    LockQueues,
    Report,
    UnlockQueues,
)
from flintmq.core.group.rebalance import Share
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.queue import QueueOffset, QueueRef, Span

AGAIN_MS: Final = 1_000
"""After a question or a commit that got no answer."""


@dataclass(frozen=True, slots=True)
class Locking:
    pass


@dataclass(frozen=True, slots=True)
class Locating:
    """``ask`` is None between two questions."""

    ask: AskStartOffset | None
    due_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """All before ``next_offset`` is done."""

    next_offset: QueueOffset


Stage: TypeAlias = Locking | Locating | Held


@dataclass(frozen=True, slots=True, eq=False)
class CommitLate:
    """A queue that is somebody else's by now: commit only if that member is not further."""

    queue: QueueRef
    offset: QueueOffset


@dataclass(slots=True, eq=False)
class OwnedQueue:
    """One queue.  ``commit`` is what its store still has to be told, and is being told."""

    queue: QueueRef
    lock: QueueLock | None
    stage: Stage
    is_own: bool = True
    was_lost: bool = False
    """Whether others may have been at it since its flight began."""
    flight: Span | None = None
    is_broken: bool = False
    """Whether the lock was lost while the flight was under way."""
    moved_to: QueueOffset | None = None
    """Somebody reset the group while the flight was under way."""
    commit: CommitOffset | CommitLate | None = None
    commit_due_ms: int | None = None


OwnedQueueAction: TypeAlias = (
    AskStartOffset | CommitOffset | CommitLate | LockQueues | UnlockQueues | Report
)


class OwnedQueues:
    """All queues of one query."""

    def __init__(self, subscriptions: Subscriptions, *, is_clustering: bool) -> None:
        self._subscriptions = subscriptions
        self._is_clustering = is_clustering
        self._queues: dict[QueueRef, OwnedQueue] = {}
        self._locks = QueueLocks()
        self._checkpoint: dict[QueueRef, QueueOffset] = {}

    def __iter__(self) -> Iterator[OwnedQueue]:
        return iter(list(self._queues.values()))

    # What is ours

    @property
    def is_settled(self) -> bool:
        """Whether every queue that is ours has a place to go on from."""
        return all(isinstance(each.stage, Held) for each in self if each.is_own)

    def ready(self, now_ms: int) -> dict[QueueRef, QueueOffset]:
        """The queues that a batch may read, and from where."""
        return {
            each.queue: each.stage.next_offset
            for each in self
            if each.is_own and isinstance(each.stage, Held) and _has_lock(each, now_ms)
        }

    def broken(self, now_ms: int) -> list[QueueRef]:
        """Queues of the batch that runs now whose locks are not ours any more."""
        return sorted(
            each.queue
            for each in self
            if each.flight is not None and (each.is_broken or not _has_lock(each, now_ms))
        )

    def lease_until_ms(self) -> int | None:
        """Until when the locks of the batch that runs now can be relied on; None without any."""
        times = [
            each.lock.held_until_ms or 0
            for each in self
            if each.flight is not None and each.lock is not None
        ]
        return min(times, default=None)

    # Shares

    def resume(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """What a checkpoint says was read: queues go on behind it, wherever the group stands."""
        self._checkpoint = dict(stops)

    def apply(self, share: Share, now_ms: int) -> list[OwnedQueueAction]:
        """What is ours of a topic is known."""
        out: list[OwnedQueueAction] = []
        for each in self:
            if each.queue.topic == share.topic and each.is_own and each.queue not in share.own:
                each.is_own, each.was_lost = False, True
                out.append(Report("rebalance", str(each.queue), "not ours any more"))
                out += self._release(each)
        for queue in sorted(share.own):
            known = self._queues.get(queue)
            if known is None:
                out += self._add(queue, now_ms)
            elif not known.is_own:
                known.is_own = True
        for queue in [each for each in self._checkpoint if each.topic == share.topic]:
            if queue not in share.own:  # whoever has it now knows better
                del self._checkpoint[queue]
        return out + self.tick(now_ms)

    def _add(self, queue: QueueRef, now_ms: int) -> list[OwnedQueueAction]:
        report = Report("rebalance", str(queue), "ours now")
        if self._subscriptions.is_ordered(queue.topic) and self._is_clustering:
            lock = self._locks.want(queue, now_ms)
            self._queues[queue] = OwnedQueue(queue, lock, Locking())
            return [report]
        owned = self._queues[queue] = OwnedQueue(queue, None, Locating(None, now_ms))
        return [report, _locate(owned, now_ms)]

    def _release(self, owned: OwnedQueue) -> list[OwnedQueueAction]:
        """Give a queue up, unless something of it is under way."""
        if owned.is_own or owned.flight is not None or owned.commit is not None:
            return []
        del self._queues[owned.queue]
        self._checkpoint.pop(owned.queue, None)
        if self._locks.forget(owned.queue):
            return [UnlockQueues(owned.queue.broker, (owned.queue,))]
        return []

    # Where to begin

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
        return [Report("offset", str(ask.queue), text, logging.WARNING)]

    def _asked(self, ask: AskStartOffset) -> OwnedQueue | None:
        owned = self._queues.get(ask.queue)
        if owned is None or not isinstance(owned.stage, Locating):
            return None
        return owned if owned.stage.ask is ask else None

    def reset(self, offsets: Mapping[QueueRef, QueueOffset]) -> list[OwnedQueueAction]:
        """Somebody moved the group.  A batch that runs is let run; then the queue goes there."""
        out: list[OwnedQueueAction] = []
        for queue, to in offsets.items():
            owned = self._queues.get(queue)
            if owned is None or not isinstance(owned.stage, Held):
                continue
            out.append(Report("reset", str(queue), f"goes on from {to}", logging.WARNING))
            if owned.flight is not None:
                owned.moved_to = to
            else:
                out += self._move(owned, to)
        return out

    def _move(self, owned: OwnedQueue, to: QueueOffset) -> list[OwnedQueueAction]:
        owned.stage, owned.moved_to = Held(to), None
        return self._commit(owned, to)

    # Batches

    def plan(self, spans: Iterable[Span]) -> None:
        """A batch with these spans runs from now on."""
        for span in spans:
            owned = self._queues.get(span.queue)
            if owned is not None and len(span):
                owned.flight, owned.is_broken = span, False

    def finish(self, stops: Mapping[QueueRef, QueueOffset], now_ms: int) -> list[OwnedQueueAction]:
        """The batch that ends at ``stops`` is done.  To hear it twice does no harm."""
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
        """Others were at the queue: it goes on where the group stands."""
        owned.is_broken, owned.moved_to, owned.stage = False, None, Locking()
        return self._release(owned) or self.tick(now_ms)

    def forget_flights(self, now_ms: int) -> list[OwnedQueueAction]:
        """What was planned and did not run is planned anew."""
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
            out.append(_locate(owned, now_ms))  # it came back: the group may be further
        return out

    def commit_failed(
        self, commit: CommitOffset | CommitLate, reason: str, now_ms: int
    ) -> list[OwnedQueueAction]:
        """Ours is told again; one that is not ours is left to who has it now."""
        owned = self._queues.get(commit.queue)
        if owned is None or owned.commit is not commit:
            return []
        text = f"{commit.offset} was not committed: {reason}"
        report = Report("offset", str(commit.queue), text, logging.WARNING)
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
        return [Report("lock", ask.broker, text, logging.WARNING)]

    def _lock_lost(self, queue: QueueRef, reason: str) -> list[OwnedQueueAction]:
        owned = self._queues[queue]
        if owned.flight is not None:
            owned.is_broken = True
        else:
            owned.stage = Locking()
        return [Report("lock", str(queue), f"lost: {reason}", logging.WARNING)]

    # The clock and the end

    def tick(self, now_ms: int) -> list[OwnedQueueAction]:
        """Do what is due."""
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
        """Unlock what nobody works on; what a listener may still have stays locked for a while."""
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
