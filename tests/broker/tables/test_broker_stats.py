"""Counters tell what came in a window, however rarely they are touched, and stay few."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.tables import broker_stats as module
from flintmq.broker.tables.broker_stats import (
    BROKER_GET_NUMS,
    BROKER_PUT_NUMS,
    DAY,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    HOUR,
    MINUTE,
    SNDBCK_PUT_NUMS,
    TEN_SECONDS,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    Counter,
    Stats,
    Window,
)
from flintmq.protocol.bodies.stats import BrokerStats

START_MS = 1_700_000_000_000
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000


def view(stats: Stats, name: str, key: str, now_ms: int) -> BrokerStats:
    found = stats.view(name, key, now_ms)
    assert found is not None
    return found


def test_a_counter_shows_its_last_minute_hour_and_day() -> None:
    stats = Stats(START_MS)
    stats.add(SNDBCK_PUT_NUMS, "T@g", START_MS, count=5)
    stats.add(SNDBCK_PUT_NUMS, "T@g", START_MS + 30 * MINUTE_MS, count=3)

    now_ms = START_MS + 30 * MINUTE_MS + 10 * SECOND_MS
    found = view(stats, SNDBCK_PUT_NUMS, "T@g", now_ms)

    assert found.stats_minute.sum == 3
    assert found.stats_hour.sum == 8
    assert found.stats_day.sum == 8


def test_what_nobody_touches_leaves_the_windows_all_the_same() -> None:
    stats = Stats(START_MS)
    stats.add(SNDBCK_PUT_NUMS, "T@g", START_MS, count=5)

    found = view(stats, SNDBCK_PUT_NUMS, "T@g", START_MS + 2 * HOUR_MS)

    assert (found.stats_minute.sum, found.stats_hour.sum, found.stats_day.sum) == (0, 0, 5)


def test_a_rate_is_the_sum_over_the_time_it_took() -> None:
    counter = Counter((MINUTE,), START_MS)
    for second in range(20):
        counter.add(1, 1, START_MS + second * SECOND_MS)

    growth = counter.growth(MINUTE, START_MS + 20 * SECOND_MS)

    assert growth.sum == 20
    assert growth.per_second == 1.0


def test_a_counter_younger_than_a_second_is_told_as_one_second_old() -> None:
    counter = Counter((MINUTE,), START_MS)
    counter.add(7, 1, START_MS + 1)

    assert counter.growth(MINUTE, START_MS + 1).per_second == 7.0


def test_sizes_are_summed_and_averaged() -> None:
    stats = Stats(START_MS)
    stats.add(TOPIC_PUT_SIZE, "T", START_MS, count=4, total=100)

    minute = view(stats, TOPIC_PUT_SIZE, "T", START_MS + SECOND_MS).stats_minute

    assert (minute.sum, minute.avgpt) == (100, 25.0)


def test_a_send_is_counted_for_its_topic_and_for_the_broker() -> None:
    stats = Stats(START_MS, "cluster")
    stats.sent("T", 3, 300, START_MS)

    now_ms = START_MS + SECOND_MS
    assert view(stats, TOPIC_PUT_NUMS, "T", now_ms).stats_minute.sum == 3
    assert view(stats, TOPIC_PUT_SIZE, "T", now_ms).stats_minute.sum == 300
    assert view(stats, BROKER_PUT_NUMS, "cluster", now_ms).stats_day.sum == 3
    assert stats.per_second(TOPIC_PUT_NUMS, "T", now_ms) == 3.0


def test_a_pull_is_counted_for_its_group_and_a_missed_one_only_as_missed() -> None:
    stats = Stats(START_MS, "cluster")
    stats.pulled("g", "T", 2, 200, START_MS)
    stats.pulled("g", "T", 0, 0, START_MS)

    now_ms = START_MS + SECOND_MS
    assert view(stats, GROUP_GET_NUMS, "T@g", now_ms).stats_minute.sum == 2
    assert view(stats, GROUP_GET_SIZE, "T@g", now_ms).stats_minute.sum == 200
    assert view(stats, BROKER_GET_NUMS, "cluster", now_ms).stats_minute.sum == 2
    assert (stats.found.sum, stats.missed.sum) == (1, 1)


def test_a_pull_that_found_something_is_counted_under_all_its_names() -> None:
    stats = Stats(START_MS, "cluster")
    for _ in range(2):  # its counters are looked for once
        stats.found_behind(("g", "T", 3), 2, 200, 5_000, 70, START_MS)

    now_ms = START_MS + SECOND_MS
    minutes = {
        name: view(stats, name, key, now_ms).stats_minute
        for name, key in (
            (GROUP_GET_NUMS, "T@g"),
            (GROUP_GET_SIZE, "T@g"),
            (BROKER_GET_NUMS, "cluster"),
            (module.GROUP_GET_LATENCY, "3@T@g"),
            (module.GROUP_GET_FALL_SIZE, "3@T@g"),
            (module.GROUP_GET_FALL_TIME, "3@T@g"),
        )
    }
    assert [each.sum for each in minutes.values()] == [4, 400, 4, 0, 10_000, 140]
    assert minutes[module.GROUP_GET_FALL_TIME].avgpt == 70
    assert (stats.found.sum, stats.missed.sum) == (2, 0)


def test_pulls_are_counted_anew_once_their_group_or_topic_was_forgotten() -> None:
    stats = Stats(START_MS)
    stats.found_behind(("g", "T", 0), 2, 200, 0, 0, START_MS)
    stats.forget_group("g")
    assert len(stats) == 0

    stats.found_behind(("g", "T", 0), 1, 10, 0, 0, START_MS)
    assert view(stats, GROUP_GET_SIZE, "T@g", START_MS).stats_minute.sum == 10
    stats.forget_topic("T")
    assert len(stats) == 0


def test_a_full_table_takes_pulls_in_total_and_says_what_it_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEYS_MAX", 2)
    stats = Stats(START_MS)

    for _ in range(2):
        stats.found_behind(("g", "T", 0), 1, 10, 7, 7, START_MS)

    assert len(stats) == 2
    assert stats.gets.sum == 20
    assert view(stats, GROUP_GET_SIZE, "T@g", START_MS).stats_minute.sum == 20
    assert stats.dropped_count == 4


def test_nothing_is_known_of_what_was_never_counted() -> None:
    stats = Stats(START_MS)

    assert stats.view(TOPIC_PUT_NUMS, "nope", START_MS) is None
    assert stats.view("NO_SUCH_NAME", "T", START_MS) is None
    assert stats.per_second(TOPIC_PUT_NUMS, "nope", START_MS) == 0.0


def test_deleting_a_topic_forgets_its_counters_and_no_others() -> None:
    stats = Stats(START_MS)
    stats.sent("T", 1, 1, START_MS)
    stats.sent("TT", 1, 1, START_MS)
    stats.pulled("g", "T", 1, 1, START_MS)
    stats.add(module.GROUP_GET_LATENCY, "0@T@g", START_MS)
    stats.add(SNDBCK_PUT_NUMS, "other@T", START_MS)  # a group of that name

    stats.forget_topic("T")

    assert stats.view(TOPIC_PUT_NUMS, "T", START_MS) is None
    assert stats.view(GROUP_GET_NUMS, "T@g", START_MS) is None
    assert stats.view(module.GROUP_GET_LATENCY, "0@T@g", START_MS) is None
    assert stats.view(TOPIC_PUT_NUMS, "TT", START_MS) is not None
    assert stats.view(SNDBCK_PUT_NUMS, "other@T", START_MS) is not None


def test_deleting_a_group_forgets_its_counters_and_no_others() -> None:
    stats = Stats(START_MS)
    stats.pulled("g", "T", 1, 1, START_MS)
    stats.pulled("gg", "T", 1, 1, START_MS)
    stats.sent("g", 1, 1, START_MS)  # a topic of that name

    stats.forget_group("g")

    assert stats.view(GROUP_GET_NUMS, "T@g", START_MS) is None
    assert stats.view(GROUP_GET_NUMS, "T@gg", START_MS) is not None
    assert stats.view(TOPIC_PUT_NUMS, "g", START_MS) is not None


def test_keys_are_limited_and_those_idle_for_a_day_make_room() -> None:
    stats = Stats(START_MS)
    for number in range(module.KEYS_MAX):
        stats.add("NAME", str(number), START_MS)

    stats.add("NAME", "one more", START_MS + HOUR_MS)
    assert (len(stats), stats.dropped_count) == (module.KEYS_MAX, 1)
    stats.add("NAME", "0", START_MS + 24 * HOUR_MS)
    stats.add("NAME", "one more", START_MS + 26 * HOUR_MS)

    assert len(stats) == 2
    assert stats.view("NAME", "one more", START_MS + 26 * HOUR_MS) is not None


def test_counters_move_along_with_the_clock() -> None:
    stats = Stats(START_MS)
    stats.add("NAME", "key", START_MS, count=5)
    stats.sent("T", 2, 20, START_MS)

    stats.carry(-10 * HOUR_MS)
    now_ms = START_MS - 10 * HOUR_MS + 30 * SECOND_MS
    stats.add("NAME", "key", now_ms, count=1)

    assert view(stats, "NAME", "key", now_ms).stats_minute.sum == 6
    assert stats.puts.growth(MINUTE, now_ms).times == 2


STEPS = st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 9)), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.integers(0, 90_000), st.sampled_from([TEN_SECONDS, MINUTE, HOUR, DAY]))
def test_a_window_is_what_was_added_since_its_first_boundary(
    steps: list[tuple[int, int]], rest_ms: int, window: Window
) -> None:
    counter = Counter((TEN_SECONDS, MINUTE, HOUR, DAY), START_MS)
    now_ms = START_MS
    added = []
    for wait_ms, amount in steps:
        now_ms += wait_ms
        counter.add(amount, 1, now_ms)
        added.append((now_ms, amount))
    now_ms += rest_ms

    growth = counter.growth(window, now_ms)

    first_ms = -(-(now_ms - window.width_ms) // window.step_ms) * window.step_ms
    assert now_ms - window.width_ms <= first_ms < now_ms - window.width_ms + window.step_ms
    assert growth.sum == sum(amount for at_ms, amount in added if at_ms >= first_ms)
    assert growth.times == sum(1 for at_ms, _ in added if at_ms >= first_ms)
