"""Locks of queues at their brokers, so that one member alone consumes a queue in order.

    want ──► unlocked ──granted──► held ──renewed every 20 s──► held
                ▲                   │ │ connection lost: doubted, asked again at once
                │ not granted       │ └──► held, once granted again
                └── again in 500 ms ┘ refused, or 30 s without a renewal: lost

A broker keeps a lock for 60 s, we rely on it for 30 s, counted from when we asked.  A lock that
is doubted is not relied on at all: the broker may have been started anew and know nothing of it.

Invariant: a lock is held only within 30 s of the question whose answer granted the lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flintmq.core.group.actions import LockQueues
from flintmq.model.queue import QueueRef

RENEW_MS: Final = 20_000
"""How often a lock is renewed."""

RELY_MS: Final = 30_000
"""How long a lock is relied on; half of what brokers keep it."""

NOT_GRANTED_MS: Final = 500
"""Another member still has it, and gives it up as soon as its listener returns."""

FAILED_MS: Final = 3_000
"""After a question without an answer: soon enough to renew before the lock is lost."""


@dataclass(slots=True)
class QueueLock:
    """One lock.  ``granted_ms`` is when the question was asked that granted it.

    ``carried_ms`` is how far the clock was moved since the question that is under way.
    """

    due_ms: int
    granted_ms: int | None = None
    doubted_ms: int | None = None
    is_asked: bool = False
    carried_ms: int = 0

    def is_held(self, now_ms: int) -> bool:
        """Whether the lock can be relied on."""
        return self.doubted_ms is None and self.is_fresh(now_ms)

    def is_fresh(self, now_ms: int) -> bool:
        return self.granted_ms is not None and now_ms < self.granted_ms + RELY_MS

    def carry(self, delta_ms: int) -> None:
        if self.granted_ms is not None:
            self.granted_ms += delta_ms
        if self.doubted_ms is not None:
            self.doubted_ms += delta_ms
        self.carried_ms += delta_ms

    @property
    def held_until_ms(self) -> int | None:
        """Until when it can be relied on, if it can be at all."""
        if self.granted_ms is None or self.doubted_ms is not None:
            return None
        return self.granted_ms + RELY_MS


@dataclass(frozen=True, slots=True)
class LockChange:
    """``won`` were not held before; ``lost`` were, and belong to somebody else now."""

    won: tuple[QueueRef, ...] = ()
    lost: tuple[QueueRef, ...] = ()


class QueueLocks:
    """The locks of one group, as this member sees them."""

    def __init__(self) -> None:
        self._locks: dict[QueueRef, QueueLock] = {}

    def __contains__(self, queue: QueueRef) -> bool:
        return queue in self._locks

    def want(self, queue: QueueRef, now_ms: int) -> QueueLock:
        """Ask for a lock, and keep it from then on."""
        return self._locks.setdefault(queue, QueueLock(now_ms))

    def forget(self, queue: QueueRef) -> bool:
        """Stop renewing; whether the broker may still hold it for us."""
        lock = self._locks.pop(queue, None)
        return lock is not None and (lock.granted_ms is not None or lock.is_asked)

    def due(self, now_ms: int) -> list[LockQueues]:
        """The lock requests to make now, one for each broker."""
        wanted: dict[str, list[QueueRef]] = {}
        for queue, lock in self._locks.items():
            if not lock.is_asked and lock.due_ms <= now_ms:
                lock.is_asked, lock.carried_ms = True, 0
                wanted.setdefault(queue.broker, []).append(queue)
        return [LockQueues(broker, tuple(queues), now_ms) for broker, queues in wanted.items()]

    def granted(self, ask: LockQueues, granted: Iterable[QueueRef], now_ms: int) -> LockChange:
        """The broker answered: these of the queues are ours."""
        ours = frozenset(granted)
        won, lost = [], []
        for queue in ask.queues:
            lock = self._locks.get(queue)
            if lock is None:
                continue
            was_held = lock.granted_ms is not None
            lock.is_asked = False
            if queue in ours:
                asked_ms = ask.asked_ms + lock.carried_ms
                if lock.doubted_ms is not None and asked_ms < lock.doubted_ms:
                    continue  # from before the connection was lost: it says nothing
                lock.granted_ms, lock.doubted_ms = asked_ms, None
                lock.due_ms = asked_ms + RENEW_MS
                if not was_held:
                    won.append(queue)
            else:
                lock.granted_ms = lock.doubted_ms = None
                lock.due_ms = now_ms + NOT_GRANTED_MS
                if was_held:
                    lost.append(queue)
        return LockChange(tuple(won), tuple(lost))

    def failed(self, ask: LockQueues, now_ms: int) -> None:
        """No answer: whether the locks were renewed is not known."""
        for queue in ask.queues:
            lock = self._locks.get(queue)
            if lock is not None:
                lock.is_asked = False
                lock.due_ms = now_ms + FAILED_MS

    def doubt(self, broker: str, now_ms: int) -> None:
        """The connection to a broker is closed: ask again, and rely on no lock until then."""
        for queue, lock in self._locks.items():
            if queue.broker == broker:
                lock.doubted_ms = now_ms
                lock.due_ms = min(lock.due_ms, now_ms)
                lock.is_asked = False

    def carry(self, delta_ms: int) -> None:
        """The clock is about to be moved by so much: no lock gets older by it."""
        for lock in self._locks.values():
            lock.carry(delta_ms)

    def expired(self, now_ms: int) -> list[QueueRef]:
        """Locks that were held and not renewed in time; they are not held any more."""
        found = []
        for queue, lock in self._locks.items():
            if lock.granted_ms is not None and not lock.is_fresh(now_ms):
                lock.granted_ms = None
                found.append(queue)
        return found

    def next_due_ms(self) -> int | None:
        """The next question, or the end of a lock."""
        times = [lock.due_ms for lock in self._locks.values() if not lock.is_asked]
        times += [
            lock.granted_ms + RELY_MS
            for lock in self._locks.values()
            if lock.granted_ms is not None
        ]
        return min(times, default=None)
