"""Slow and failing brokers are left alone for as long as RocketMQ's two tables say."""

from __future__ import annotations

import pytest

from flintmq.core.producer.broker_faults import (
    BROKERS_MAX,
    RULES_4,
    RULES_5,
    Avoidance,
    BrokerFaults,
)

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        (49, 0),
        (100, 0),
        (549, 0),
        (550, 30_000),
        (999, 30_000),
        (1_000, 60_000),
        (2_000, 120_000),
        (3_000, 180_000),
        (14_999, 180_000),
        (15_000, 600_000),
    ],
)
def test_the_table_of_4_9(latency_ms: int, pause_ms: int) -> None:
    assert RULES_4.pause_ms(latency_ms) == pause_ms


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        (49, 0),
        (100, 0),
        (549, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
    ],
)
def test_the_table_of_5(latency_ms: int, pause_ms: int) -> None:
    assert RULES_5.pause_ms(latency_ms) == pause_ms


@pytest.mark.parametrize(
    ("avoidance", "pause_ms"), [(Avoidance.RELEASE_4, 600_000), (Avoidance.RELEASE_5, 10_000)]
)
def test_a_failure_counts_as_a_very_slow_answer(avoidance: Avoidance, pause_ms: int) -> None:
    faults = BrokerFaults(avoidance)
    faults.failed("a", 3, NOW_MS, reachable=False)

    assert not faults.is_available("a", NOW_MS + pause_ms - 1)
    assert faults.is_available("a", NOW_MS + pause_ms)
    assert not faults.is_reachable("a")


def test_a_quick_answer_makes_a_broker_available_again() -> None:
    faults = BrokerFaults(Avoidance.RELEASE_5)
    faults.failed("a", 3, NOW_MS, reachable=False)
    faults.answered("a", 20, NOW_MS + 1)

    assert faults.is_available("a", NOW_MS + 1)
    assert faults.is_reachable("a")
    assert faults.is_available("never heard of", NOW_MS)


def test_the_least_bad_is_one_of_the_better_half_in_turn() -> None:
    faults = BrokerFaults(Avoidance.RELEASE_4)
    for number, broker in enumerate("abcd"):
        faults.failed(broker, 1_000 * (number + 1), NOW_MS, reachable=True)

    chosen = {faults.least_bad(NOW_MS) for _ in range(8)}

    assert chosen == {"a", "b"}


def test_available_ones_are_better_than_quick_ones() -> None:
    faults = BrokerFaults(Avoidance.RELEASE_4)
    faults.failed("quick", 1, NOW_MS, reachable=True)
    faults.answered("slow", 540, NOW_MS)

    assert faults.least_bad(NOW_MS) == "slow"


def test_without_trouble_nobody_is_least_bad() -> None:
    faults = BrokerFaults(Avoidance.RELEASE_4)

    assert faults.least_bad(NOW_MS) is None
    faults.answered("a", 1, NOW_MS)
    assert faults.least_bad(NOW_MS) == "a"
    faults.forget("a")
    assert faults.least_bad(NOW_MS) is None


def test_the_broker_heard_of_least_lately_is_forgotten_first() -> None:
    faults = BrokerFaults(Avoidance.RELEASE_5)
    for number in range(BROKERS_MAX):
        faults.failed(f"b{number}", 1, NOW_MS, reachable=True)
    faults.failed("b0", 1, NOW_MS, reachable=True)
    faults.failed("one more", 1, NOW_MS, reachable=True)

    assert faults.is_available("b1", NOW_MS)
    assert not faults.is_available("b0", NOW_MS)


def test_it_says_whether_it_is_on() -> None:
    assert not BrokerFaults(Avoidance.OFF).is_on
    assert BrokerFaults(Avoidance.RELEASE_4).is_on
    assert repr(BrokerFaults(Avoidance.RELEASE_5)) == "<Faults 5.x, 0 brokers>"
