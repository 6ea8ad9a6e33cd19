"""An ordered queue is consumed in one place at a time: locked first, given up last."""

from __future__ import annotations

from typing import Any

from flintmq.core.group.actions import (
    AskStartOffset,
    CommitOffset,
    Deliver,
    LockQueues,
    UnlockQueues,
    Unregister,
)
from flintmq.core.group.pull_answers import MessagesFound, NoNewMessage
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.model.group import MessageModel
from flintmq.model.queue import QueueOffset, QueueRef
from support.core.consuming import Q0, Q1, QUEUES, Consuming
from support.core.messages import offsets_of, received


def at(offset: int) -> QueueOffset:
    return QueueOffset(offset)


def committed(consuming: Consuming) -> list[tuple[QueueRef, int]]:
    return [(commit.queue, commit.offset) for commit in consuming.take(CommitOffset)]


def ordered(offset: int = 0, *members: str, **settings: Any) -> Consuming:
    return Consuming(ordered=True, **settings).working(offset, *members)


def test_an_ordered_queue_is_locked_before_it_is_located() -> None:
    consuming = Consuming(ordered=True).introduced().members("me")

    assert consuming.take(AskStartOffset) == []
    assert consuming.queue().reason == "lock"
    ask = consuming.one(LockQueues)
    assert (ask.broker, ask.queues) == ("broker-a", (Q0, Q1))
    consuming.do(consuming.machine.locked(ask, [Q1], 5))

    assert consuming.one(AskStartOffset).queue == Q1
    assert consuming.to(504).take(LockQueues) == []
    assert consuming.to(505).one(LockQueues).queues == (Q0,)


def test_an_ordered_queue_gives_out_one_batch_after_the_other() -> None:
    consuming = ordered(batch_max=2)

    consuming.do(
        consuming.machine.pull_answered(
            consuming.pull_of(), MessagesFound(at(3), messages=[received(n) for n in range(3)]), 1
        )
    )
    (first,) = consuming.take(Deliver)
    assert offsets_of(first.messages) == [0, 1]
    consuming.run(first)

    assert consuming.machine.offsets()[Q0] == 2
    (second,) = consuming.take(Deliver)
    assert offsets_of(second.messages) == [2]


def test_an_ordered_message_that_fails_comes_again_in_place() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0, 1)

    consuming.run(batch, ValueError("no"))

    assert consuming.queue().reason == "suspended"
    assert consuming.to(999).take(Deliver) == []
    again = consuming.to(1_000).one(Deliver)
    assert (again.messages[0].queue_offset, again.messages[0].reconsume_times) == (0, 1)


def test_an_ordered_message_tried_too_often_goes_to_the_dead_letters() -> None:
    consuming = ordered(retry_max=0)
    (batch,) = consuming.found(0, 1)

    ask = consuming.failed(batch, ValueError("no"))

    assert (ask.delay_level, ask.tries_max) == (-1, 0)
    assert consuming.take(Deliver) == []
    consuming.do(consuming.machine.sent_back(ask, 5))
    assert consuming.machine.offsets()[Q0] == 1
    assert offsets_of(consuming.one(Deliver).messages) == [1]


def test_locks_are_renewed_every_20_s() -> None:
    consuming = ordered()

    assert consuming.to(19_999).take(LockQueues) == []
    assert consuming.to(20_000).one(LockQueues).queues == (Q0, Q1)
    assert consuming.queue().locked_until_ms == 30_000


def test_a_lock_that_another_member_has_drops_the_queue_and_commits_nothing() -> None:
    consuming = ordered()
    consuming.run(consuming.found(0)[0])
    consuming.to(4_000)
    consuming.do(consuming.machine.broker_lost("broker-a", 4_000))
    ask = consuming.one(LockQueues)
    consuming.take(CommitOffset)

    consuming.do(consuming.machine.locked(ask, [Q1], 4_010))

    assert "another member has its lock" in " ".join(consuming.texts())
    assert committed(consuming.to(5_000)) == []
    consuming.members("me")
    assert consuming.queue().reason == "lock"


def test_a_dropped_queue_is_not_begun_anew_while_its_listener_runs() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0)
    assert consuming.machine.started(batch, 1)
    consuming.do(consuming.machine.broker_lost("broker-a", 10))
    consuming.do(consuming.machine.locked(consuming.one(LockQueues), [Q1], 20))

    consuming.do(consuming.machine.notified(30))
    consuming.members("me")
    assert consuming.queue().reason == "dropped"
    assert consuming.take(LockQueues) == []
    consuming.do(consuming.machine.consumed(batch, None, 40))
    consuming.members("me")

    assert consuming.queue().reason == "lock"
    assert consuming.one(LockQueues).queues == (Q0,)


def test_a_lock_in_doubt_stops_the_queue_until_it_is_granted_again() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0, 1)

    consuming.do(consuming.machine.broker_lost("broker-a", 10))

    assert not consuming.machine.started(batch, 11)
    consuming.do(consuming.machine.locked(consuming.one(LockQueues), QUEUES, 20))
    (again,) = consuming.take(Deliver)
    assert offsets_of(again.messages) == [0]
    assert consuming.machine.started(again, 21)


def test_pulls_wait_for_the_lock_and_go_on_with_it() -> None:
    consuming = ordered()
    pull = consuming.pull_of()
    consuming.do(consuming.machine.broker_lost("broker-a", 10))
    consuming.do(consuming.machine.pull_answered(pull, NoNewMessage(at(0)), 12))
    assert consuming.queue().reason == "not locked"

    consuming.do(consuming.machine.locked(consuming.one(LockQueues), QUEUES, 20))

    assert consuming.pull_of().offset == 0


def test_a_lock_that_cannot_be_renewed_in_30_s_is_given_up() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0)
    consuming.to(20_000).members("me")
    consuming.do(consuming.machine.lock_failed(consuming.one(LockQueues), "no answer", 21_000))
    consuming.to(24_000)
    consuming.do(consuming.machine.lock_failed(consuming.one(LockQueues), "no answer", 25_000))

    consuming.to(29_999)
    assert consuming.queue().stage == "working"
    consuming.to(30_000).members("me")

    assert "could not be renewed" in " ".join(consuming.texts())
    assert consuming.queue().stage == "locking"
    assert not consuming.machine.started(batch, 30_000)


def test_an_ordered_queue_is_given_up_only_after_its_listener_and_its_commit() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0, queue=Q1)
    assert consuming.machine.started(batch, 1)
    consuming.do(consuming.machine.notified(5))

    consuming.members("me", "you")
    assert consuming.take(UnlockQueues) == []
    assert consuming.queue(Q1).reason == "closing"
    consuming.to(20_000).members("me", "you")
    assert consuming.one(LockQueues).queues == (Q0, Q1)
    consuming.do(consuming.machine.consumed(batch, None, 20_010))
    commit = consuming.one(CommitOffset)
    assert (commit.queue, commit.offset, commit.is_urgent) == (Q1, 1, True)
    assert consuming.take(UnlockQueues) == []
    consuming.do(consuming.machine.committed(commit, 20_020))

    unlock = consuming.one(UnlockQueues)
    assert (unlock.broker, unlock.queues) == ("broker-a", (Q1,))


def test_a_queue_that_comes_back_while_it_closes_is_taken_when_it_is_closed() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0, queue=Q1)
    assert consuming.machine.started(batch, 1)
    consuming.do(consuming.machine.notified(5))
    consuming.members("me", "you")
    consuming.do(consuming.machine.notified(6))
    consuming.members("me")
    assert consuming.queue(Q1).reason == "closing"

    consuming.do(consuming.machine.consumed(batch, None, 7))
    consuming.do(consuming.machine.committed(consuming.one(CommitOffset), 8))
    consuming.members("me")

    assert consuming.queue(Q1).reason == "lock"


def test_a_stop_unlocks_and_an_abandoned_listener_keeps_its_lock() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0)
    assert consuming.machine.started(batch, 1)

    consuming.do(consuming.machine.stop(10))
    assert consuming.one(UnlockQueues).queues == (Q1,)
    consuming.do(consuming.machine.abandon(30_000))

    assert consuming.take(UnlockQueues) == []
    assert len(consuming.take(Unregister)) == 1


def test_a_stop_does_not_hurry_a_queue_that_is_closing_already() -> None:
    consuming = ordered()
    (batch,) = consuming.found(0, queue=Q1)
    assert consuming.machine.started(batch, 1)
    consuming.do(consuming.machine.notified(5))
    consuming.members("me", "you")

    consuming.do(consuming.machine.stop(10))

    assert consuming.one(UnlockQueues).queues == (Q0,)
    consuming.do(consuming.machine.consumed(batch, None, 20))
    consuming.do(consuming.machine.committed(consuming.one(CommitOffset), 21))
    assert len(consuming.take(Unregister)) == 1


def test_an_ordered_queue_that_is_moved_waits_for_its_listener() -> None:
    consuming = ordered(50)
    (batch,) = consuming.found(50)
    assert consuming.machine.started(batch, 1)

    consuming.do(consuming.machine.reset({Q0: at(5)}, 100))

    assert committed(consuming.to(10_200)) == []
    consuming.do(consuming.machine.consumed(batch, None, 10_300))
    assert committed(consuming) == [(Q0, 5)]


def test_an_ordered_batch_of_a_broadcasting_group_needs_no_lock() -> None:
    consuming = Consuming(ordered=True, model=MessageModel.BROADCASTING).introduced().located(3)

    assert consuming.take(LockQueues) == []
    assert len(consuming.take(Pull)) == 2
    assert consuming.queue().locked_until_ms is None


def test_a_lost_lock_while_the_start_is_asked_for_means_to_lock_again() -> None:
    consuming = Consuming(ordered=True).introduced().members("me")
    consuming.lock()
    ask, _ = consuming.take(AskStartOffset)
    consuming.do(consuming.machine.broker_lost("broker-a", 10))

    consuming.do(consuming.machine.locked(consuming.one(LockQueues), [], 20))

    assert consuming.queue().stage == "locking"
    assert consuming.machine.start_known(ask, StartOffset(at(0), is_stored=True), 30) == []
    assert consuming.to(520).one(LockQueues).queues == (Q0, Q1)


def test_topics_of_one_group_may_differ_in_order() -> None:
    consuming = Consuming(
        TopicSubscription("orders", ordered=True), TopicSubscription("bills")
    ).introduced()
    bills = QueueRef("bills", "broker-a", 0)
    consuming.do(consuming.machine.route_known("bills", [bills], 0))
    consuming.members("me")

    assert consuming.one(AskStartOffset).queue == bills
    assert consuming.one(LockQueues).queues == (Q0, Q1)
