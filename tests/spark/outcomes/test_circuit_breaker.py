"""A listener that raises in call after call is noticed, in a task and over small micro-batches."""

from __future__ import annotations

import pytest

from flintmq.errors import CircuitOpen
from flintmq.spark.outcomes.circuit_breaker import (
    CircuitBreaker,
    FailureStreak,
    read_circuit_open,
)


def bill(_messages: object) -> None:
    """A listener."""


def test_a_task_ends_with_the_call_that_reaches_the_limit() -> None:
    streak = FailureStreak("billing", 3)
    for _ in range(2):
        streak.raised("orders", bill, ValueError("no database"))
    with pytest.raises(CircuitOpen) as opened:
        streak.raised("orders", bill, ValueError("no database at all"))
    error = opened.value
    assert (error.group, error.topic, error.listener, error.failures) == (
        "billing",
        "orders",
        "bill",
        3,
    )
    assert error.error == "ValueError('no database at all')"
    assert "failures_max" in str(error)


def test_a_call_that_ends_well_begins_the_count_anew_and_topics_count_apart() -> None:
    streak = FailureStreak("billing", 2)
    for _ in range(5):
        streak.raised("orders", bill, ValueError())
        streak.raised("refunds", bill, ValueError())
        streak.ended("orders")
        streak.ended("refunds")
    streak.raised("orders", bill, ValueError())
    with pytest.raises(CircuitOpen):
        streak.raised("orders", bill, ValueError())


def test_without_a_limit_nothing_is_counted() -> None:
    streak = FailureStreak("billing", None)
    assert not streak
    for _ in range(1_000):
        streak.raised("orders", bill, ValueError())


def test_small_micro_batches_add_up_until_one_call_ends_well() -> None:
    breaker = CircuitBreaker("billing", {"orders": "bill", "refunds": "pay_back"}, 10)
    all_raise = {"orders": (4, "ValueError('x')")}
    assert breaker.batch_ended({"orders": 4, "refunds": 2}, all_raise) is None
    assert breaker.batch_ended({"orders": 4, "refunds": 0}, all_raise) is None
    assert breaker.batch_ended({"orders": 5, "refunds": 0}, all_raise) is None, "one was fine"
    assert breaker.batch_ended({"orders": 4, "refunds": 0}, all_raise) is None
    assert breaker.batch_ended({"orders": 0, "refunds": 3}, {}) is None, "no call says nothing"
    assert breaker.batch_ended({"orders": 4, "refunds": 0}, all_raise) is None
    opened = breaker.batch_ended({"orders": 4, "refunds": 0}, all_raise)
    assert opened is not None
    assert (opened.listener, opened.failures, opened.error) == ("bill", 12, "ValueError('x')")


def test_the_error_of_a_task_is_found_in_the_text_of_spark() -> None:
    error = CircuitOpen("g", "orders", "shop.<locals>.bill", 7, "KeyError('it''s; the run')")
    text = f"org.apache.spark.SparkException: …\n  File x\nflintmq.errors.CircuitOpen: {error}\n at"
    found = read_circuit_open(text)
    assert found is not None
    assert found.args == error.args
    assert read_circuit_open("java.lang.Boom: something else") is None
