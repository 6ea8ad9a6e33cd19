"""A position never goes back unless somebody reset it, and the store is told what is new."""

from __future__ import annotations

from flintmq.core.consumer.offset_ledger import OffsetLedger
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.model.queue import QueueOffset, QueueRef
from support.core.messages import QUEUE, several

OTHER = QueueRef("orders", "broker-a", 1)


def at(offset: int, *, is_stored: bool = True) -> OffsetLedger:
    ledger = OffsetLedger()
    ledger.begin(QUEUE, QueueOffset(offset), is_stored=is_stored)
    return ledger


def advance(ledger: OffsetLedger, offset: int) -> None:
    position = ledger.find(QUEUE)
    assert position is not None
    position.advance(QueueOffset(offset))


def test_a_position_only_goes_forward() -> None:
    ledger = at(10)

    advance(ledger, 15)
    advance(ledger, 12)

    assert ledger.offsets() == {QUEUE: 15}


def test_a_position_follows_what_is_cached() -> None:
    ledger, cached = at(10), ProcessQueue()
    position = ledger.find(QUEUE)
    assert position is not None

    position.follow(cached)
    assert position.settled_to == 10
    cached.put_messages(several(10, 11))
    cached.remove(several(10))

    assert position.settled_to == 11
    assert ledger.next_commits() == [(QUEUE, 11)]


def test_the_store_is_told_once_what_is_new() -> None:
    ledger = at(10)
    assert ledger.next_commits() == []

    advance(ledger, 15)

    assert ledger.next_commits() == [(QUEUE, 15)]
    assert ledger.next_commits() == []


def test_a_start_that_nobody_has_stored_is_told_at_once() -> None:
    assert at(10, is_stored=False).next_commits() == [(QUEUE, 10)]


def test_a_commit_that_failed_is_made_again() -> None:
    ledger = at(10)
    advance(ledger, 15)
    ledger.next_commits()

    ledger.failed(QUEUE)

    assert ledger.next_commits() == [(QUEUE, 15)]
    ledger.failed(OTHER)
    assert OTHER not in ledger


def test_a_reset_may_go_back_and_is_told() -> None:
    ledger = at(10)

    ledger.reset(QUEUE, QueueOffset(3))

    assert ledger.next_commits() == [(QUEUE, 3)]


def test_one_queue_can_be_told_alone() -> None:
    ledger = at(10)
    assert ledger.next_commit(QUEUE) is None
    assert ledger.next_commit(OTHER) is None

    advance(ledger, 11)

    assert ledger.next_commit(QUEUE) == 11
    assert ledger.next_commit(QUEUE) is None


def test_what_is_forgotten_is_never_told() -> None:
    ledger = at(10)
    advance(ledger, 15)

    ledger.forget(QUEUE)
    ledger.forget(QUEUE)

    assert (ledger.next_commits(), ledger.find(QUEUE), len(ledger)) == ([], None, 0)
