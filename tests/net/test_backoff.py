"""Waits double from the first to the cap, chance takes off at most half, success forgets all."""

from __future__ import annotations

import pytest

from flintmq.errors import Unreachable
from flintmq.net.backoff import FIRST_MS, MAX_MS, Backoff


def waits(backoff: Backoff, now_ms: int) -> int:
    """How long from now the next attempt is refused, to the millisecond."""
    for wait_ms in range(2 * MAX_MS):
        try:
            backoff.check(now_ms + wait_ms)
        except Unreachable:
            continue
        return wait_ms
    raise AssertionError("it never ends")


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff("a:1", chance=lambda: 0.0)
    seen = []

    for _ in range(7):
        backoff.failed("refused", now_ms=500)
        seen.append(waits(backoff, 500))

    assert seen == [FIRST_MS, 100, 200, 400, MAX_MS, MAX_MS, MAX_MS]


def test_chance_takes_off_half_at_most() -> None:
    backoff = Backoff("a:1", chance=lambda: 1.0)

    backoff.failed("refused", now_ms=0)

    assert waits(backoff, 0) == FIRST_MS // 2


def test_a_success_forgets_the_failures() -> None:
    backoff = Backoff("a:1", chance=lambda: 0.0)
    for _ in range(5):
        backoff.failed("refused", now_ms=0)

    backoff.worked()

    assert waits(backoff, 0) == 0
    backoff.failed("refused", now_ms=0)
    assert waits(backoff, 0) == FIRST_MS


def test_the_refusal_tells_the_last_reason_and_when_to_come_back() -> None:
    backoff = Backoff("a:1", chance=lambda: 0.0)
    backoff.failed("refused: nothing listens there", now_ms=0)

    with pytest.raises(Unreachable) as caught:
        backoff.check(20)

    assert str(caught.value) == "a:1: refused: nothing listens there (next attempt in 30 ms)"


def test_years_of_failure_do_not_overflow() -> None:
    backoff = Backoff("a:1", chance=lambda: 0.0)

    for _ in range(10_000):
        backoff.failed("refused", now_ms=0)

    assert waits(backoff, 0) == MAX_MS
