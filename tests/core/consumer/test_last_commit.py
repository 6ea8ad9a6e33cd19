"""The last commit of a queue stays: a pull that is served late does not take it back unseen."""

from __future__ import annotations

from flintmq.core.group.actions import CommitOffset, ConfirmOffset, Unregister
from flintmq.core.group.pull_answers import NoNewMessage
from flintmq.core.reading.pull_request import Pull
from flintmq.model.queue import QueueOffset
from support.core.consuming import Q0, Consuming


def at(offset: int) -> QueueOffset:
    return QueueOffset(offset)


def stopped_behind(offset: int) -> tuple[Consuming, Pull]:
    """A consumer that stops two further while a pull is under way that brings ``offset``."""
    consuming = Consuming().working(offset)
    first, second = consuming.found(offset, offset + 1)
    consuming.run(first)
    consuming.run(second)
    pull = consuming.pull_of()
    assert pull.commit_offset == (offset or None)
    consuming.do(consuming.machine.stop(10))
    return consuming, pull


def test_a_commit_behind_a_pull_that_brings_less_is_confirmed() -> None:
    consuming, pull = stopped_behind(5)

    consuming.do(consuming.machine.committed(consuming.one(CommitOffset), 20))

    confirm = consuming.one(ConfirmOffset)
    assert (confirm.queue, confirm.offset) == (Q0, 7)
    again = confirm.pull
    assert (again.commit_offset, again.suspend_ms, again.count_max) == (None, 0, 1)
    assert (again.queue, again.offset) == (pull.queue, pull.offset)
    assert consuming.take(Unregister) == []
    assert "commits 7" in consuming.queue().text
    consuming.do(consuming.machine.confirmed(confirm, at(7), 30))
    assert len(consuming.take(Unregister)) == 1


def test_what_was_taken_back_is_committed_again_and_told() -> None:
    consuming, _ = stopped_behind(5)
    consuming.do(consuming.machine.committed(consuming.one(CommitOffset), 20))
    consuming.texts()

    consuming.do(consuming.machine.confirmed(consuming.one(ConfirmOffset), at(5), 30))

    assert "from 7 to 5" in consuming.texts()[0]
    commit = consuming.one(CommitOffset)
    assert (commit.offset, commit.is_urgent) == (7, True)
    consuming.do(consuming.machine.committed(commit, 40))
    assert consuming.take(ConfirmOffset) == []
    assert len(consuming.take(Unregister)) == 1


def test_what_was_told_before_is_confirmed_too_and_not_told_again() -> None:
    consuming = Consuming().working(5)
    (batch,) = consuming.found(5)
    consuming.run(batch)
    consuming.to(5_000)
    assert [commit.offset for commit in consuming.take(CommitOffset)] == [6]

    consuming.do(consuming.machine.stop(5_010))

    assert consuming.take(CommitOffset) == []
    confirm = consuming.one(ConfirmOffset)
    assert confirm.offset == 6
    consuming.do(consuming.machine.confirmed(confirm, at(9), 5_020))  # others came further
    assert consuming.take(CommitOffset) == []
    assert len(consuming.take(Unregister)) == 1


def test_nothing_is_confirmed_once_the_pull_is_answered() -> None:
    consuming = Consuming().working(5)
    (batch,) = consuming.found(5)
    assert consuming.machine.started(batch, 1)
    pull = consuming.pull_of()
    consuming.do(consuming.machine.stop(10))
    consuming.do(consuming.machine.pull_answered(pull, NoNewMessage(at(6)), 20))

    consuming.do(consuming.machine.consumed(batch, None, 30))

    consuming.do(consuming.machine.committed(consuming.one(CommitOffset), 40))
    assert consuming.take(ConfirmOffset) == []
    assert len(consuming.take(Unregister)) == 1


def test_an_answer_that_comes_behind_the_commit_says_nothing_of_their_order() -> None:
    consuming, pull = stopped_behind(5)
    consuming.do(consuming.machine.pull_answered(pull, NoNewMessage(at(7)), 15))

    consuming.do(consuming.machine.committed(consuming.one(CommitOffset), 20))

    assert len(consuming.take(ConfirmOffset)) == 1


def test_nothing_is_confirmed_behind_a_pull_that_brings_nothing_or_the_same() -> None:
    without, _ = stopped_behind(0)
    without.do(without.machine.committed(without.one(CommitOffset), 20))
    same = Consuming().working(5)
    same.do(same.machine.stop(10))

    assert without.take(ConfirmOffset) == []
    assert same.take(CommitOffset) == []
    assert len(without.take(Unregister)) == len(same.take(Unregister)) == 1


def test_a_commit_or_a_question_that_fails_ends_the_stop() -> None:
    refused, _ = stopped_behind(5)
    refused.do(refused.machine.commit_failed(refused.one(CommitOffset), "gone", 20))
    unheard, _ = stopped_behind(5)
    unheard.do(unheard.machine.committed(unheard.one(CommitOffset), 20))
    unheard.do(unheard.machine.confirm_failed(unheard.one(ConfirmOffset), "gone", 30))

    assert refused.take(ConfirmOffset) == []
    assert "whether 7 stayed committed is not known: gone" in unheard.texts()[-1]
    assert len(refused.take(Unregister)) == len(unheard.take(Unregister)) == 1


def test_answers_that_come_too_late_change_nothing() -> None:
    consuming, _ = stopped_behind(5)
    commit = consuming.one(CommitOffset)
    consuming.do(consuming.machine.committed(commit, 20))
    confirm = consuming.one(ConfirmOffset)
    consuming.do(consuming.machine.abandon(30))
    consuming.actions.clear()

    consuming.do(consuming.machine.committed(commit, 40))
    consuming.do(consuming.machine.confirmed(confirm, at(5), 40))

    assert consuming.actions == []
