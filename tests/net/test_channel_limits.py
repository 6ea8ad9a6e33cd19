"""A channel keeps its memory and its time in bounds, whatever its peer does."""

from __future__ import annotations

import asyncio

import pytest

from flintmq.errors import Overloaded, Unreachable
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.channels.commands import LOOK_EVERY
from flintmq.net.limits import ChannelLimits
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.wire import encode_command
from support.net.support import (
    CALL_MS,
    HERE,
    HandClock,
    Run,
    bare_client,
    bare_listener,
    echo,
    silent,
    until,
)

ASK = request(10, body=b"hello")


def test_more_calls_than_may_wait_are_refused(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, silent) as server:
            channel = await connect(str(server.address), limits=ChannelLimits(calls_max=2))
            waiting = [asyncio.ensure_future(channel.call(ASK, CALL_MS)) for _ in range(2)]
            await until(lambda: len(channel._calls) == 2)

            with pytest.raises(Overloaded, match="calls_max"):
                await channel.call(ASK, CALL_MS)

            await channel.close()
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, Unreachable)
                assert outcome.reason == "the channel was closed"

    run(main())


def test_callers_wait_while_the_peer_does_not_read_and_memory_stays_bounded(run: Run) -> None:
    async def main() -> None:
        limits = ChannelLimits(write_high_bytes=200_000, write_low_bytes=50_000)
        body = bytes(100_000)
        async with bare_listener() as listener:
            channel = await connect(listener.address, limits=limits)
            peer = await listener.accept()
            calls = [
                asyncio.ensure_future(channel.call(request(10, body=body), CALL_MS))
                for _ in range(200)
            ]
            await until(lambda: channel._waiting_for_room)

            with pytest.raises(Unreachable, match=r"QUERY_MESSAGE, 12.: the peer does not read"):
                await channel.call(request(12), 20)
            assert channel.unsent_bytes < 2 * (200_000 + 100_000)
            assert len(channel._calls) < 200

            for _ in calls:
                await peer.answer(await peer.command())
                assert channel.unsent_bytes < 2 * (200_000 + 100_000)
            assert {(await call).code for call in calls} == {0}
            assert not channel._waiting_for_room
            await channel.close()

    run(main())


def test_a_client_reads_on_while_it_cannot_write(run: Run) -> None:
    """Else two ends that both wait for the other to read would wait for ever."""

    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            asked = await peer.command()
            channel.send_oneway_now(request(10, body=bytes(12_000_000)))
            await until(lambda: channel._full)

            await peer.answer(asked, body=b"heard")

            assert (await call).body == b"heard"
            assert channel._full
            await channel.close(timeout_ms=20)

    run(main())


def test_what_came_before_reading_stopped_is_not_served_until_the_peer_reads(run: Run) -> None:
    """All requests come in one read, so to stop reading alone does not help."""

    async def main() -> None:
        limits = ChannelLimits(write_high_bytes=200_000, write_low_bytes=50_000)
        unsent: list[int] = []

        def large(asked: Command, channel: Channel) -> Command:
            unsent.append(channel.unsent_bytes)
            return answer(asked, 0, body=bytes(100_000))

        async with (
            await serve_commands(HERE, large, channel_limits=limits) as server,
            bare_client(server.address, receive_bytes=65_536) as peer,
        ):
            await peer.send(b"".join(encode_command(request(10, opaque=n)) for n in range(200)))
            came = [(await peer.command()).opaque for _ in range(200)]

        assert came == list(range(200))
        assert max(unsent) < 200_000 + LOOK_EVERY * 100_000

    run(main())


def test_callers_that_wait_for_room_end_with_the_connection(run: Run) -> None:
    async def main() -> None:
        limits = ChannelLimits(write_high_bytes=100_000, write_low_bytes=0, calls_max=100)
        async with bare_listener() as listener:
            channel = await connect(listener.address, limits=limits)
            peer = await listener.accept()
            big = request(10, body=bytes(1_000_000))
            tells = [asyncio.ensure_future(channel.send_oneway(big, CALL_MS)) for _ in range(100)]
            await until(lambda: channel._waiting_for_room)
            cancelled = tells[-1]
            cancelled.cancel()

            peer.reset()
            outcomes = await asyncio.gather(*tells, return_exceptions=True)

            assert any(isinstance(outcome, Unreachable) for outcome in outcomes)
            assert cancelled.cancelled()
            assert not channel._waiting_for_room
            await channel.closed

    run(main())


def test_without_traffic_a_channel_closes_to_the_millisecond(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        async with await serve_commands(HERE, echo) as server:
            channel = await connect(str(server.address), clock=clock)
            clock.now_ms += 60_000
            await channel.call(ASK, CALL_MS)

            clock.now_ms += 119_999
            channel.timer_fired()
            assert not channel.is_closed

            clock.now_ms += 1
            channel.timer_fired()
            assert channel.why_closed == "closed after 120000 ms without traffic"
            await channel.closed
            await until(lambda: not server.channels)

    run(main())


def test_a_channel_with_a_call_under_way_is_not_idle(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        async with bare_listener() as listener:
            channel = await connect(listener.address, clock=clock)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, 600_000))
            asked = await peer.command()

            clock.now_ms += 500_000
            channel.timer_fired()

            assert not channel.is_closed
            await peer.answer(asked)
            await call
            await channel.close()

    run(main())


def test_the_idle_timer_really_runs(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address, limits=ChannelLimits(idle_ms=20))
            peer = await listener.accept()

            assert await peer.closed()

            assert channel.why_closed == "closed after 20 ms without traffic"
            await channel.closed

    run(main())


def test_closing_sends_what_is_queued(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            channel.send_oneway_now(request(15, body=b"last words"))

            await channel.close()

            assert (await peer.command()).body == b"last words"
            assert await peer.closed()
            assert channel.closed.done()

    run(main())


def test_closing_does_not_wait_for_ever_for_a_peer_that_does_not_read(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            await listener.accept()
            channel.send_oneway_now(request(10, body=bytes(12_000_000)))
            await until(lambda: channel._full)

            await channel.close(timeout_ms=20)

            assert channel.closed.done()

    run(main())


def test_a_close_that_is_cancelled_still_closes(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            channel.send_oneway_now(request(10, body=bytes(12_000_000)))
            await until(lambda: channel._full)
            closing = asyncio.ensure_future(channel.close(CALL_MS))
            await until(lambda: channel.is_closed)

            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)

            assert closing.cancelled()
            await channel.closed
            assert await peer.closed()

    run(main())


def test_deadlines_of_finished_calls_do_not_pile_up(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            channel = await connect(str(server.address))

            for _ in range(50):
                await asyncio.gather(*(channel.call(ASK, 600_000) for _ in range(100)))

            assert len(channel._connection._deadlines) < 2_000
            await channel.close()

    run(main())


def test_write_limits_that_do_not_rise_are_refused() -> None:
    with pytest.raises(ValueError, match="must rise"):
        ChannelLimits(write_high_bytes=1, write_low_bytes=2)
