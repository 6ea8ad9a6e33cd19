"""A movable clock goes by the system's, plus what it was moved by; who waits by it is woken."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from flintmq.embedded.movable_clock import MovableClock, MovableTiming

HOUR_MS = 3_600_000


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


def moved(timing: MovableTiming, delta_ms: int) -> None:
    """Move it as a test does: from another thread."""
    mover = threading.Thread(target=timing.advance, args=(delta_ms,))
    mover.start()
    mover.join()


def test_what_waits_is_done_when_the_clock_is_moved_past_it() -> None:
    async def main() -> list[str]:
        timing, done = MovableTiming(), []
        timing.call_later(HOUR_MS, lambda: done.append("hour"))
        timing.call_later(2 * HOUR_MS, lambda: done.append("two"))
        timing.call_later(HOUR_MS, lambda: done.append("never")).cancel()
        sleeper = asyncio.create_task(_slept(timing, done))
        await asyncio.sleep(0)

        moved(timing, HOUR_MS)
        await sleeper
        return done

    assert asyncio.run(main()) == ["hour", "slept"]


async def _slept(timing: MovableTiming, done: list[str]) -> None:
    await timing.sleep(HOUR_MS)
    done.append("slept")


def test_a_limit_ends_when_the_clock_says_so_and_not_before() -> None:
    async def main() -> None:
        timing = MovableTiming()
        async with timing.limit(HOUR_MS), timing.limit(None):
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(timing.advance, HOUR_MS)
        with pytest.raises(TimeoutError):
            async with timing.limit(HOUR_MS):
                await asyncio.Event().wait()

    asyncio.run(main())


def test_who_lives_on_the_loop_is_told_before_the_clock_moves() -> None:
    async def main() -> tuple[list[tuple[int, bool]], int]:
        timing = MovableTiming()
        told: list[tuple[int, bool]] = []
        start_ms, fired = timing.clock(), asyncio.Event()
        timing.on_move(lambda delta_ms: told.append((delta_ms, timing.clock() < start_ms + 60_000)))
        timing.call_later(HOUR_MS, fired.set)

        moved(timing, HOUR_MS)
        before_ms = timing.clock()
        await fired.wait()
        assert before_ms < start_ms + 60_000  # not yet: the loop has not come to it
        return told, timing.clock() - start_ms

    told, ahead_ms = asyncio.run(main())

    assert told == [(HOUR_MS, True)]
    assert HOUR_MS <= ahead_ms < HOUR_MS + 60_000


def test_without_a_loop_it_moves_at_once() -> None:
    async def use(timing: MovableTiming) -> None:
        timing.call_later(0, lambda: None).cancel()

    timing = MovableTiming(ahead_ms=5 * HOUR_MS)
    timing.advance(HOUR_MS)
    asyncio.run(use(timing))
    timing.advance(HOUR_MS)  # that loop is closed

    assert abs(timing.wall() - time.time_ns() // 1_000_000 - 7 * HOUR_MS) < 60_000
