"""Rates of a group are means between commits: known after two, never 0 between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.core.admin.lag import GroupLag, QueueLag
from flintmq.core.admin.lag_rates import STALL_MS, WINDOW_MS, LagTrend, LagWatch
from flintmq.model.queue import QueueOffset, QueueRef

FIRST, SECOND = QueueRef("orders", "a", 0), QueueRef("orders", "a", 1)


def look(**offsets: tuple[int, int]) -> GroupLag:
    """End and committed offset of queues."""
    queues = (
        QueueLag(
            QueueRef("orders", "a", int(name.removeprefix("q"))),
            QueueOffset(end),
            QueueOffset(committed),
            None,
            None,
        )
        for name, (end, committed) in offsets.items()
    )
    return GroupLag("billing", tuple(queues), 0.0)


def watched(
    committed: Callable[[int], int], *, end: int = 100_000, look_ms: int, until_ms: int
) -> list[LagTrend]:
    watch = LagWatch()
    return [
        watch.add(look(q0=(end, committed(now_ms))), now_ms)[0]
        for now_ms in range(0, until_ms, look_ms)
    ]


@pytest.mark.parametrize("look_ms", [500, 2_000, 3_000, 7_000])
@pytest.mark.parametrize("commit_ms", [1_000, 5_000, 20_000])
def test_a_steady_group_shows_its_rate_and_never_zero(look_ms: int, commit_ms: int) -> None:
    """300 messages a second; the offsets stand still between two commits."""
    trends = watched(
        lambda now_ms: now_ms // commit_ms * commit_ms * 300 // 1000,
        look_ms=look_ms,
        until_ms=200_000,
    )

    rates = [trend.consumed_per_s for trend in trends]
    known = [rate for rate in rates if rate]
    assert rates[0] is None
    assert rates[-1]
    assert max(known) <= 300 * 1.8  # two commits, each seen up to a look late
    assert abs(known[-1] - 300) <= 300 * 0.25
    if commit_ms * 1.5 < STALL_MS:
        assert 0 not in rates
        assert all(trend.drain_s for trend in trends if trend.consumed_per_s)


def test_nothing_is_known_before_the_second_commit() -> None:
    trends = watched(lambda now_ms: 10 * (now_ms // 5_000), look_ms=1_000, until_ms=12_000)

    assert [trend.consumed_per_s for trend in trends] == [None] * 10 + [2.0] * 2
    assert [trend.drain_s for trend in trends[:10]] == [None] * 10


def test_a_group_that_stalls_comes_to_zero() -> None:
    trends = watched(
        lambda now_ms: 10 * (min(now_ms, 20_000) // 5_000), look_ms=1_000, until_ms=60_000
    )

    assert trends[21].consumed_per_s == 2.0
    assert trends[-1] == LagTrend(0.0, 0.0, None)


def test_a_group_that_never_commits_stands_still_after_a_while() -> None:
    trends = watched(lambda _: 7, look_ms=1_000, until_ms=STALL_MS + 1_000)

    assert trends[-2].consumed_per_s is None
    assert trends[-1].consumed_per_s == 0.0


def test_a_rate_follows_a_change() -> None:
    def committed(now_ms: int) -> int:
        slow, fast = min(now_ms, 100_000) // 5_000, max(0, now_ms - 100_000) // 5_000
        return 10 * slow + 1_000 * fast

    trends = watched(committed, look_ms=1_000, until_ms=100_000 + WINDOW_MS + 10_000)

    assert trends[99].consumed_per_s == 2.0
    assert trends[-1].consumed_per_s == 200.0


def test_the_sum_waits_for_every_queue_that_has_work() -> None:
    watch = LagWatch()
    watch.add(look(q0=(100, 0), q1=(50, 50)), 0)
    watch.add(look(q0=(100, 10), q1=(50, 50)), 5_000)
    idle, by_queue = watch.add(look(q0=(100, 20), q1=(50, 50)), 10_000)
    busy, _ = watch.add(look(q0=(110, 20), q1=(60, 50)), 11_000)

    assert by_queue[FIRST].consumed_per_s == 2.0
    assert by_queue[SECOND].consumed_per_s is None
    assert idle == LagTrend(2.0, 0.0, 40.0)
    assert busy.consumed_per_s is None
    assert busy.stored_per_s == pytest.approx(20 / 11)


def test_a_lag_that_does_not_shrink_has_no_end_and_none_is_no_wait() -> None:
    assert LagTrend.of(40.0, 40.0, 80).drain_s is None
    assert LagTrend.of(None, None, 0).drain_s == 0.0
    assert LagTrend.of(20.0, 5.0, 50).drain_s == 50 / 15


def test_a_group_that_is_moved_back_starts_anew() -> None:
    watch = LagWatch()
    for now_ms, committed in ((0, 0), (5_000, 10), (10_000, 20)):
        watch.add(look(q0=(100, committed)), now_ms)

    trend, _ = watch.add(look(q0=(100, 0)), 15_000)

    assert trend.consumed_per_s is None


@given(
    st.lists(
        st.tuples(st.integers(1, 40_000), st.integers(0, 2**40), st.integers(0, 2**40)), max_size=60
    )
)
def test_no_rate_is_negative(steps: list[tuple[int, int, int]]) -> None:
    watch, now_ms = LagWatch(), 0
    for elapsed_ms, end, committed in steps:
        now_ms += elapsed_ms
        trend, _ = watch.add(look(q0=(end, committed)), now_ms)
        assert trend.consumed_per_s is None or trend.consumed_per_s >= 0
        assert trend.stored_per_s is None or trend.stored_per_s >= 0
        assert trend.drain_s is None or trend.drain_s >= 0
