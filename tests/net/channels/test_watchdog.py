"""Whatever blocks the loop is counted, named where it is known, and logged now and then."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.channels.commands import CommandSession
from flintmq.net.channels.watchdog import LOGGED_S, STALL_S, LoopWatch, Stalls
from flintmq.net.servers.loop_parts import PART_S, InParts
from flintmq.net.servers.server import serve
from flintmq.protocol.command import Command, answer, request
from support.net.support import CALL_MS, HERE, Run, until


def block(seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def test_short_work_does_not_count() -> None:
    stalls = Stalls()

    stalls.record(STALL_S * 0.9, "a read")

    assert (stalls.count, stalls.longest_s) == (0, 0.0)


def test_long_work_is_counted_and_one_line_stands_for_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stalls = Stalls()

    stalls.record(STALL_S, "a short one")
    for _ in range(5):
        stalls.record(LOGGED_S, "10.0.0.1:4711", code=202)

    assert stalls.count == 6
    assert stalls.longest_s == LOGGED_S
    assert len(caplog.records) == 1
    assert "10.0.0.1:4711, request 202" in caplog.text


def test_the_timer_sees_what_nobody_measured(run: Run) -> None:
    async def main() -> None:
        watch = LoopWatch(Stalls())
        try:
            block(0.3)  # longer than the beat and a stall together
            await until(lambda: watch.stalls.count)

            assert watch.stalls.longest_s >= STALL_S
        finally:
            watch.stop()

    run(main())


def test_what_has_a_name_is_not_counted_twice(run: Run) -> None:
    async def main() -> None:
        now_s = 0.0
        stalls = Stalls()
        watch = LoopWatch(stalls, clock=lambda: now_s)
        try:
            stalls.record(5.0, "a read")
            now_s += 5.1
            before = watch._timer
            await until(lambda: watch._timer is not before)

            assert stalls.count == 1
        finally:
            watch.stop()

    run(main())


def test_a_request_that_blocks_the_loop_is_named_by_its_peer(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        def slow(asked: Command, _channel: Channel) -> Command:
            block(LOGGED_S)
            return answer(asked, 0)

        stalls = Stalls()
        async with await serve(
            HERE, lambda channel: CommandSession(channel, slow), stalls=stalls
        ) as server:
            channel = await connect(str(server.address))
            await channel.call(request(10), CALL_MS)

            await until(lambda: stalls.count)
            (accepted,) = server.channels
            assert accepted.peer in caplog.text
            await channel.close()

    run(main())


def test_work_in_parts_lets_others_run(run: Run) -> None:
    async def main() -> None:
        turns: list[int] = []
        others: list[None] = []

        def work(is_over: object) -> bool:
            assert callable(is_over)
            while not is_over():
                pass
            turns.append(len(others))
            return len(turns) < 5

        parts = InParts(work)
        parts.go_on()
        parts.go_on()  # once is enough
        while len(turns) < 5:
            others.append(None)
            await asyncio.sleep(0)

        assert len(set(turns)) == 5
        assert PART_S < STALL_S

    run(main())
