"""A pull function runs for each queue that is ours, one run after the other, when it said so."""

from __future__ import annotations

import pytest

from flintmq.core.pull.scheduled_pull import (
    DELAY_MS_MAX,
    FAILED_DELAY_MS,
    NEXT_DELAY_MS,
    PullSchedule,
    check_delay,
)
from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueRef

Q0, Q1 = (QueueRef("orders", "broker-a", number) for number in range(2))
OTHER = QueueRef("bills", "broker-a", 0)


def test_the_delays_are_those_of_rocketmq() -> None:
    assert (NEXT_DELAY_MS, FAILED_DELAY_MS) == (200, 1_000)


def test_new_queues_are_due_at_once() -> None:
    schedule = PullSchedule()

    schedule.queues_changed("orders", [Q1, Q0], 5)

    assert [run.queue for run in schedule.due(5)] == [Q0, Q1]
    assert schedule.due(5) == []


def test_the_next_run_is_after_the_delay_that_was_set() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("orders", [Q0], 0)
    (run,) = schedule.due(0)

    schedule.finished(run, 300, 1_000)

    assert schedule.next_due_ms() == 1_300
    assert schedule.due(1_299) == []
    assert schedule.due(1_300) == [run]


def test_a_failed_run_is_repeated_after_a_second() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("orders", [Q0], 0)
    (run,) = schedule.due(0)

    schedule.failed(run, 10)

    assert schedule.next_due_ms() == 1_010


def test_a_queue_runs_once_at_a_time() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("orders", [Q0], 0)
    schedule.due(0)

    schedule.queues_changed("orders", [Q0], 50)

    assert schedule.due(1_000_000) == []


def test_a_lost_queue_is_not_run_again() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("orders", [Q0, Q1], 0)
    first, second = schedule.due(0)

    schedule.queues_changed("orders", [Q1], 10)
    schedule.finished(first, 0, 20)
    schedule.finished(second, 0, 20)

    assert schedule.queues == {Q1}
    assert schedule.due(1_000) == [second]


def test_a_queue_that_was_due_and_is_lost_does_not_run() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("orders", [Q0], 0)

    schedule.queues_changed("orders", [], 0)

    assert schedule.due(0) == []
    assert schedule.next_due_ms() is None


def test_a_queue_that_comes_back_starts_anew_beside_the_run_that_ends() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("orders", [Q0], 0)
    (old,) = schedule.due(0)
    schedule.queues_changed("orders", [], 1)
    schedule.queues_changed("orders", [Q0], 2)

    (new,) = schedule.due(2)
    schedule.finished(old, 0, 3)

    assert new is not old
    assert schedule.due(1_000) == []


def test_other_topics_keep_their_queues() -> None:
    schedule = PullSchedule()
    schedule.queues_changed("bills", [OTHER], 0)

    schedule.queues_changed("orders", [Q0], 0)

    assert schedule.queues == {OTHER, Q0}


@pytest.mark.parametrize("delay", [-1, None, 0.5, True, "200", DELAY_MS_MAX + 1])
def test_a_delay_that_is_none_is_refused(delay: object) -> None:
    with pytest.raises(InvalidSetting, match="next_delay_ms"):
        check_delay(delay)


def test_no_delay_is_a_delay() -> None:
    assert check_delay(0) == 0
