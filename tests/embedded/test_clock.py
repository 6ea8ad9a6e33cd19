"""A movable clock goes by the system's, plus what it was moved by."""

from __future__ import annotations

import time

from flintmq.embedded.clock import MovableClock


def test_it_goes_by_the_wall_until_it_is_moved() -> None:
    before_ms = time.time_ns() // 1_000_000

    now_ms = MovableClock()()

    assert before_ms <= now_ms <= time.time_ns() // 1_000_000


def test_moves_add_up_and_may_go_back() -> None:
    clock = MovableClock(wall=lambda: 1_000)

    clock.advance(500)
    clock.advance(-200)

    assert clock() == 1_300
    assert clock.ahead_ms == 300
