"""A task runs once an interval, whatever the clock does."""

from __future__ import annotations

from flintmq.broker.upkeep.periodic import PeriodicTask


def test_it_runs_when_its_interval_is_over_and_not_before() -> None:
    runs: list[int] = []
    task = PeriodicTask(100, runs.append, now_ms=1_000)

    for now_ms in (1_000, 1_099, 1_100, 1_150, 1_200):
        task.run_if_due(now_ms)

    assert runs == [1_100, 1_200]


def test_rounds_missed_by_a_jump_are_not_made_up_for() -> None:
    runs: list[int] = []
    task = PeriodicTask(100, runs.append, now_ms=0)

    task.run_if_due(10_000)
    task.run_if_due(10_001)

    assert runs == [10_000]
    assert task.due_ms == 10_100


def test_a_clock_that_went_back_does_not_put_it_off_for_long() -> None:
    runs: list[int] = []
    task = PeriodicTask(100, runs.append, now_ms=1_000_000)

    task.run_if_due(5_000)
    task.run_if_due(5_100)

    assert runs == [5_100]
