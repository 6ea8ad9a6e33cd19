"""Listeners that run for longer than the timeout are found, the longest first."""

from __future__ import annotations

import pytest

from flintmq.core.consumer.running_batches import RunningBatches, check_interval_ms
from flintmq.core.group.actions import Deliver
from support.core.messages import QUEUE, several


def batch(*offsets: int) -> Deliver:
    return Deliver(QUEUE, tuple(several(*offsets)), None)


@pytest.mark.parametrize(("timeout_ms", "every_ms"), [(1_000, 1_000), (900_000, 30_000)])
def test_it_is_looked_at_every_30_s_or_every_timeout(timeout_ms: int, every_ms: int) -> None:
    assert check_interval_ms(timeout_ms) == every_ms


def test_only_those_over_the_timeout_are_overdue() -> None:
    running = RunningBatches()
    first, second, third = batch(1), batch(2), batch(3)
    for started, now_ms in ((first, 0), (second, 10), (third, 500)):
        running.start(started, now_ms)

    assert running.overdue(1_000, 999) == []
    assert running.overdue(1_000, 1_010) == [first, second]
    running.pop(first, None)
    running.pop(first, None)
    assert running.overdue(1_000, 1_010) == [second]
    assert (list(running), len(running)) == ([second, third], 2)
    assert first not in running
    assert third.started_ms == 500
