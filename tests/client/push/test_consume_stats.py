"""Rates are those of the last minute, failures those of the last hour."""

from __future__ import annotations

from flintmq.client.push.consume_stats import SAMPLE_MS, SAMPLES_MAX, ConsumerStats, TopicRates

MS = 1_000_000


def rates(stats: ConsumerStats, now_ms: int) -> TopicRates:
    (found,) = stats.rates(now_ms)
    return found


def test_a_minute_of_work_is_told_as_rates() -> None:
    stats = ConsumerStats()
    stats.add_topic("orders", 0)
    for now_ms in range(0, 60_000, SAMPLE_MS):
        stats.sample(now_ms)
        stats.consumed("orders", 100, 20, 5 * MS)
        stats.pulled("orders", 120, 30)

    told = rates(stats, 59_999)

    assert (told.ok, told.failed, told.failed_last_hour) == (600, 120, 120)
    assert round(told.ok_per_s, 1) == 10.0
    assert round(told.failed_per_s, 1) == 2.0
    assert round(told.pulled_per_s, 1) == 12.0
    assert (told.consume_ms, told.pull_ms) == (5.0, 30.0)


def test_what_is_older_than_a_minute_is_no_rate_any_more() -> None:
    stats = ConsumerStats()
    stats.add_topic("orders", 0)
    stats.consumed("orders", 100, 1, 7 * MS)
    for now_ms in range(SAMPLE_MS, 200_000, SAMPLE_MS):
        stats.sample(now_ms)

    told = rates(stats, 200_000)

    assert (told.ok_per_s, told.failed_per_s, told.pulled_per_s) == (0, 0, 0)
    assert told.consume_ms == 7.0  # of a quiet minute the time it took before
    assert (told.ok, told.failed_last_hour) == (100, 1)


def test_failures_are_forgotten_after_an_hour() -> None:
    stats = ConsumerStats()
    stats.add_topic("orders", 0)
    stats.consumed("orders", 0, 3, MS)
    for number in range(SAMPLES_MAX + 1):
        stats.sample(number * SAMPLE_MS)

    assert rates(stats, (SAMPLES_MAX + 1) * SAMPLE_MS).failed_last_hour == 0
