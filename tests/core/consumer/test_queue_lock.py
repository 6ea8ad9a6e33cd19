"""A lock is relied on for 30 s from when it was asked for, and not while it is in doubt."""

from __future__ import annotations

import pytest

from flintmq.core.consumer.queue_lock import QueueLocks
from flintmq.core.group.actions import LockQueues
from flintmq.model.queue import QueueRef

A0, A1, B0 = (
    QueueRef("orders", "broker-a", 0),
    QueueRef("orders", "broker-a", 1),
    QueueRef("orders", "broker-b", 0),
)


def asked(locks: QueueLocks, now_ms: int) -> LockQueues:
    (ask,) = locks.due(now_ms)
    return ask


def held(now_ms: int = 0) -> QueueLocks:
    locks = QueueLocks()
    locks.want(A0, now_ms)
    assert locks.granted(asked(locks, now_ms), [A0], now_ms).won == (A0,)
    return locks


def is_held(locks: QueueLocks, now_ms: int) -> bool:
    return locks.want(A0, now_ms).is_held(now_ms)


def test_locks_are_asked_for_by_broker_and_only_once() -> None:
    locks = QueueLocks()
    for queue in (A0, B0, A1):
        locks.want(queue, 5)

    asks = locks.due(5)

    assert [(ask.broker, ask.queues, ask.asked_ms) for ask in asks] == [
        ("broker-a", (A0, A1), 5),
        ("broker-b", (B0,), 5),
    ]
    assert locks.due(1_000) == []


def test_a_lock_that_is_not_granted_is_asked_for_again_after_500_ms() -> None:
    locks = QueueLocks()
    lock = locks.want(A0, 0)

    change = locks.granted(asked(locks, 0), [], 7)

    assert (change.won, change.lost) == ((), ())
    assert not lock.is_held(7)
    assert locks.next_due_ms() == 507
    assert locks.due(506) == []
    assert locks.due(507) != []


def test_a_lock_is_renewed_every_20_s() -> None:
    locks = held()

    assert locks.next_due_ms() == 20_000
    assert locks.due(19_999) == []
    change = locks.granted(asked(locks, 20_000), [A0], 20_050)

    assert (change.won, change.lost) == ((), ())
    assert is_held(locks, 49_999)
    assert not is_held(locks, 50_000)


def test_a_lock_counts_from_the_question_not_from_the_answer() -> None:
    locks = QueueLocks()
    lock = locks.want(A0, 0)
    ask = asked(locks, 0)

    locks.granted(ask, [A0], 29_000)

    assert lock.is_held(29_999)
    assert not lock.is_held(30_000)
    assert lock.held_until_ms == 30_000


def test_a_renewal_that_is_refused_loses_the_lock() -> None:
    locks = held()

    change = locks.granted(asked(locks, 20_000), [], 20_001)

    assert change.lost == (A0,)
    assert not is_held(locks, 20_001)


def test_a_question_without_an_answer_is_asked_again_before_the_lock_expires() -> None:
    locks = held()

    locks.failed(asked(locks, 20_000), 21_000)

    assert is_held(locks, 21_000)
    assert locks.next_due_ms() == 24_000
    locks.granted(asked(locks, 24_000), [A0], 24_001)
    assert is_held(locks, 53_999)


def test_a_lock_that_was_not_renewed_expires_once() -> None:
    locks = held()
    locks.due(20_000)
    assert locks.next_due_ms() == 30_000

    assert locks.expired(29_999) == []
    assert locks.expired(30_000) == [A0]
    assert locks.expired(30_001) == []


def test_a_lock_in_doubt_is_not_relied_on_until_it_is_granted_again() -> None:
    locks = held()
    locks.doubt("broker-b", 100)
    assert is_held(locks, 100)

    locks.doubt("broker-a", 100)

    assert not is_held(locks, 100)
    assert locks.want(A0, 100).held_until_ms is None
    change = locks.granted(asked(locks, 100), [A0], 110)
    assert (change.won, change.lost) == ((), ())
    assert is_held(locks, 110)


def test_an_answer_from_before_the_doubt_says_nothing() -> None:
    locks = held()
    old = asked(locks, 20_000)
    locks.doubt("broker-a", 20_500)

    locks.granted(old, [A0], 20_600)

    assert not is_held(locks, 20_600)
    locks.granted(asked(locks, 20_600), [A0], 20_700)
    assert is_held(locks, 20_700)


@pytest.mark.parametrize("is_asked", [True, False])
def test_what_is_forgotten_is_not_asked_for_and_perhaps_to_be_unlocked(is_asked: bool) -> None:
    locks = QueueLocks()
    locks.want(A0, 0)
    ask = asked(locks, 0) if is_asked else None

    assert locks.forget(A0) is is_asked
    assert A0 not in locks
    if ask is not None:
        assert locks.granted(ask, [A0], 1).won == ()
        locks.failed(ask, 1)
    assert locks.next_due_ms() is None
    assert held().forget(A0)


def test_a_clock_that_is_moved_makes_no_lock_older() -> None:
    locks = held(now_ms=0)
    locks.carry(3_600_000)

    assert is_held(locks, 3_600_000 + 29_999)
    assert locks.expired(3_600_000) == []
    assert not is_held(locks, 3_600_000 + 30_000)


def test_a_lock_that_is_asked_for_while_the_clock_is_moved_counts_from_then() -> None:
    locks = QueueLocks()
    locks.want(A0, 0)
    ask = asked(locks, 0)
    locks.carry(3_600_000)
    change = locks.granted(ask, [A0], 3_600_010)

    assert change.won == (A0,)
    assert is_held(locks, 3_600_010)
    assert locks.expired(3_600_010) == []


def test_a_doubted_lock_stays_doubted_when_the_clock_is_moved() -> None:
    locks = held(now_ms=0)
    ask = LockQueues("broker-a", (A0,), 5)
    locks.doubt("broker-a", 10)
    locks.carry(1_000)
    locks.granted(ask, [A0], 1_020)

    assert not is_held(locks, 1_020)
