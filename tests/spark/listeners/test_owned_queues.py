"""Queues are planned only while they are ours, and committed only for batches that are done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from flintmq.core.consumer.queue_lock import RELY_MS, RENEW_MS
from flintmq.core.group.actions import (
    AskStartOffset,
    CommitOffset,
    LockQueues,
    ReportEvent,
    UnlockQueues,
)
from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.rebalance import Share
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import Subscriptions, TopicSubscription
from flintmq.model.group import MessageModel
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.listeners.owned_queues import AGAIN_MS, CommitLate, OwnedQueueAction, OwnedQueues

A = TypeVar("A")
ONE, TWO = QueueRef("t", "b", 0), QueueRef("t", "b", 1)


def owned_queues(
    *, ordered: bool = False, model: MessageModel = MessageModel.CLUSTERING
) -> OwnedQueues:
    settings = ConsumerSettings(group="g", ordered=ordered, model=model)
    wanted = Subscriptions(settings, [TopicSubscription("t")], 0)
    return OwnedQueues(wanted, is_clustering=settings.is_clustering)


def share(*own: QueueRef) -> Share:
    return Share("t", (ONE, TWO), frozenset(own))


def of(kind: type[A], actions: Iterable[OwnedQueueAction]) -> list[A]:
    return [each for each in actions if isinstance(each, kind)]


def stored(offset: int) -> StartOffset:
    return StartOffset(QueueOffset(offset), is_stored=True)


def span(start: int, stop: int, queue: QueueRef = ONE) -> Span:
    return Span(queue, QueueOffset(start), QueueOffset(stop))


def stops(stop: int, queue: QueueRef = ONE) -> dict[QueueRef, QueueOffset]:
    return {queue: QueueOffset(stop)}


def begun(offset: int = 5, now_ms: int = 0) -> OwnedQueues:
    """One queue, held from ``offset``."""
    machine = owned_queues()
    (ask,) = of(AskStartOffset, machine.apply(share(ONE), now_ms))
    assert machine.start_known(ask, stored(offset)) == []
    return machine


def locked(offset: int = 5, now_ms: int = 0) -> OwnedQueues:
    """The same in order, with its lock."""
    machine = owned_queues(ordered=True)
    (ask,) = of(LockQueues, machine.apply(share(ONE), now_ms))
    (where,) = of(AskStartOffset, machine.locked(ask, [ONE], now_ms))
    machine.start_known(where, stored(offset))
    return machine


def test_a_queue_is_ready_where_the_group_stands() -> None:
    machine = owned_queues()

    asks = of(AskStartOffset, machine.apply(share(ONE, TWO), 0))
    assert not machine.is_settled
    machine.start_known(asks[0], stored(5))
    assert machine.ready(0) == stops(5)

    machine.start_failed(asks[1], "no answer", 0)
    assert machine.next_due_ms() == AGAIN_MS
    (again,) = of(AskStartOffset, machine.tick(AGAIN_MS))
    machine.start_known(again, stored(7))
    assert machine.ready(0) == {ONE: 5, TWO: 7}
    assert [machine.is_settled] == [True]  # mypy does not see that it changed


def test_a_start_that_nobody_stored_is_stored() -> None:
    machine = owned_queues()
    (ask,) = of(AskStartOffset, machine.apply(share(ONE), 0))

    (commit,) = of(
        CommitOffset, machine.start_known(ask, StartOffset(QueueOffset(9), is_stored=False))
    )

    assert (commit.queue, commit.offset) == (ONE, 9)


def test_a_checkpoint_that_is_further_than_the_group_counts_and_is_committed() -> None:
    machine = owned_queues()
    machine.resume({ONE: QueueOffset(8), TWO: QueueOffset(3)})
    one, two = of(AskStartOffset, machine.apply(share(ONE, TWO), 0))

    (commit,) = of(CommitOffset, machine.start_known(one, stored(5)))
    assert machine.start_known(two, stored(4)) == []

    assert commit.offset == 8
    assert machine.ready(0) == {ONE: 8, TWO: 4}


def test_a_checkpoint_says_nothing_about_queues_that_others_have() -> None:
    machine = owned_queues()
    machine.resume({TWO: QueueOffset(8)})
    machine.apply(share(ONE), 0)

    (ask,) = of(AskStartOffset, machine.apply(share(ONE, TWO), 1))
    machine.start_known(ask, stored(2))

    assert machine.ready(0)[TWO] == 2


def test_a_batch_is_committed_when_it_is_done_and_once() -> None:
    machine = begun(5)
    machine.plan([span(5, 9)])
    assert machine.finish(stops(5), 0) == []
    assert machine.ready(0) == stops(5)

    (commit,) = of(CommitOffset, machine.finish(stops(9), 0))
    assert commit.offset == 9
    assert machine.finish(stops(9), 0) == []
    assert machine.committed(commit, 0) == []
    assert machine.ready(0) == stops(9)


def test_a_commit_that_failed_is_made_again() -> None:
    machine = begun(5)
    machine.plan([span(5, 9)])
    (commit,) = of(CommitOffset, machine.finish(stops(9), 0))

    (report,) = of(ReportEvent, machine.commit_failed(commit, "no answer", 0))
    assert "was not committed" in report.text
    (again,) = of(CommitOffset, machine.tick(AGAIN_MS))

    assert again.offset == 9


def test_a_batch_that_did_not_run_is_planned_anew() -> None:
    machine = begun(5)
    machine.plan([span(5, 9)])

    machine.forget_flights(0)

    assert machine.ready(0) == stops(5)
    assert machine.finish(stops(9), 0) == []


def test_a_lost_queue_is_gone_at_once_and_comes_back_where_the_group_stands() -> None:
    machine = begun(5)

    machine.apply(share(), 0)
    assert machine.ready(0) == {}
    (ask,) = of(AskStartOffset, machine.apply(share(ONE), 0))
    machine.start_known(ask, stored(3))

    assert machine.ready(0) == stops(3)


def test_a_queue_lost_under_a_batch_is_committed_when_the_batch_is_done() -> None:
    machine = begun(5)
    machine.plan([span(5, 9)])

    machine.apply(share(), 0)
    assert machine.ready(0) == {}
    (commit,) = of(CommitLate, machine.finish(stops(9), 0))
    assert commit.offset == 9
    machine.committed(commit, 0)

    assert not list(machine)


def test_a_queue_that_comes_back_under_a_batch_looks_where_the_group_stands() -> None:
    machine = begun(5)
    machine.plan([span(5, 9)])
    machine.apply(share(), 0)
    machine.apply(share(ONE), 0)

    (commit,) = of(CommitLate, machine.finish(stops(9), 0))
    (ask,) = of(AskStartOffset, machine.committed(commit, 0))
    machine.start_known(ask, stored(12))

    assert machine.ready(0) == stops(12)


def test_a_reset_counts_after_the_batch_that_runs() -> None:
    machine = begun(5)
    machine.plan([span(5, 9)])
    machine.reset({ONE: QueueOffset(1)})
    assert machine.ready(0) == stops(5)

    (commit,) = of(CommitOffset, machine.finish(stops(9), 0))

    assert commit.offset == 1
    assert machine.ready(0) == stops(1)


def test_in_broadcasting_nothing_is_committed() -> None:
    machine = owned_queues(model=MessageModel.BROADCASTING)
    (ask,) = of(AskStartOffset, machine.apply(share(ONE), 0))
    assert machine.start_known(ask, StartOffset(QueueOffset(5), is_stored=False)) == []
    machine.plan([span(5, 9)])

    assert machine.finish(stops(9), 0) == []
    assert machine.ready(0) == stops(9)


# Locks


def test_an_ordered_queue_is_ready_only_while_it_is_locked() -> None:
    machine = owned_queues(ordered=True)
    (ask,) = of(LockQueues, machine.apply(share(ONE), 0))
    assert machine.locked(ask, [], 0) == []
    assert not machine.is_settled

    (again,) = of(LockQueues, machine.tick(500))
    (where,) = of(AskStartOffset, machine.locked(again, [ONE], 500))
    machine.start_known(where, stored(5))

    assert machine.ready(500) == stops(5)
    assert machine.ready(500 + RELY_MS) == {}


def test_a_lock_is_renewed_for_as_long_as_the_queue_is_ours() -> None:
    machine = locked()

    (ask,) = of(LockQueues, machine.tick(RENEW_MS))
    machine.locked(ask, [ONE], RENEW_MS)

    assert machine.ready(RENEW_MS + RELY_MS - 1) == stops(5)


def test_an_ordered_queue_keeps_its_lock_until_its_batch_is_committed() -> None:
    machine = locked()
    machine.plan([span(5, 9)])

    assert of(UnlockQueues, machine.apply(share(), 0)) == []
    (commit,) = of(CommitLate, machine.finish(stops(9), 0))
    (unlock,) = of(UnlockQueues, machine.committed(commit, 0))

    assert unlock.queues == (ONE,)


def test_a_batch_under_which_a_lock_was_lost_is_broken_and_not_committed() -> None:
    machine = locked()
    machine.plan([span(5, 9)])
    assert machine.broken(0) == []
    assert machine.lease_until_ms() == RELY_MS

    asks = of(LockQueues, machine.tick(RELY_MS))
    assert machine.broken(RELY_MS) == [ONE]
    machine.locked(asks[0], [ONE], RELY_MS)
    assert machine.broken(RELY_MS) == [ONE], "to have it again does not mend the batch"
    (where,) = of(AskStartOffset, machine.finish(stops(9), RELY_MS))
    machine.start_known(where, stored(7))

    assert machine.ready(RELY_MS) == stops(7)


def test_a_lock_lost_between_batches_is_asked_for_again() -> None:
    machine = locked()

    (ask,) = of(LockQueues, machine.tick(RENEW_MS))
    machine.locked(ask, [], RENEW_MS)
    assert machine.ready(RENEW_MS) == {}
    (again,) = of(LockQueues, machine.tick(RENEW_MS + 500))
    (where,) = of(AskStartOffset, machine.locked(again, [ONE], RENEW_MS + 500))
    machine.start_known(where, stored(6))

    assert machine.ready(RENEW_MS + 500) == stops(6)


def test_leaving_unlocks_what_no_listener_may_have() -> None:
    machine = locked()
    assert [each.queues for each in of(UnlockQueues, machine.leave())] == [(ONE,)]

    machine = locked()
    machine.plan([span(5, 9)])
    assert machine.leave() == []
