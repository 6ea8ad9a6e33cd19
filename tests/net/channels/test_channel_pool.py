"""An address has one channel, found again after every loss, and a dead one is not hammered."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from flintmq.core.conversation import SENT, Call
from flintmq.errors import Unreachable
from flintmq.net.address import Address
from flintmq.net.backoff import FIRST_MS
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import Channels, connect
from flintmq.net.servers.server import serve_commands
from flintmq.net.tls import ClientTls
from flintmq.protocol.command import Command, answer, request
from support.net.support import (
    CALL_MS,
    HERE,
    HandClock,
    Run,
    bare_listener,
    closed_port,
    descriptors,
    echo,
    other_tasks,
    until,
)

ASK = request(10, body=b"hello")


def test_calls_to_one_address_share_one_connection(run: Run) -> None:
    async def main() -> None:
        channels = Channels()
        async with await serve_commands(HERE, echo) as server:
            replies = await asyncio.gather(
                *(channels.call(str(server.address), ASK, CALL_MS) for _ in range(50))
            )

            assert [reply.body for reply in replies] == [b"hello"] * 50
            assert len(server.channels) == 1
            assert repr(channels) == "<Channels, 1 open of 1 known>"
            await channels.close()
            await until(lambda: not server.channels)

    run(main())


def test_a_caller_that_gives_up_does_not_end_the_attempt_of_the_others(run: Run) -> None:
    async def main() -> None:
        channels = Channels()
        async with await serve_commands(HERE, echo) as server:
            first, second = (
                asyncio.ensure_future(channels.call(str(server.address), ASK, CALL_MS))
                for _ in range(2)
            )
            await asyncio.sleep(0)
            assert channels._peers[str(server.address)].attempt is not None

            first.cancel()

            assert (await second).body == b"hello"
            assert first.cancelled()
            await channels.close()

    run(main())


def test_a_refused_connection_says_so(run: Run) -> None:
    async def main() -> None:
        channels = Channels()
        address = closed_port()

        with pytest.raises(Unreachable) as caught:
            await channels.call(address, ASK, CALL_MS)

        assert str(caught.value) == f"{address}: refused: nothing listens there"
        await channels.close()

    run(main())


def test_a_name_nobody_knows_says_so(run: Run) -> None:
    async def main() -> None:
        async def look_up(*_args: object, **_named: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        vars(asyncio.get_running_loop())["create_connection"] = look_up

        with pytest.raises(Unreachable, match="the name is not known"):
            await connect("broker-a:9876")

    run(main())


def test_what_is_no_address_is_unreachable(run: Run) -> None:
    async def main() -> None:
        channels = Channels()

        with pytest.raises(Unreachable, match="give host:port"):
            await channels.call("broker-a", ASK, CALL_MS)

        await channels.close()

    run(main())


def test_a_dead_address_is_left_alone_until_its_time_has_come(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        channels = Channels(clock=clock, chance=lambda: 0.0)
        address = closed_port()
        with pytest.raises(Unreachable, match=r"refused: nothing listens there$"):
            await channels.call(address, ASK, CALL_MS)

        with pytest.raises(Unreachable, match=rf"next attempt in {FIRST_MS} ms"):
            await channels.call(address, ASK, CALL_MS)

        assert not other_tasks()
        clock.now_ms += FIRST_MS
        async with await serve_commands(Address.parse(address), echo):
            assert (await channels.call(address, ASK, CALL_MS)).body == b"hello"
            await channels.close()

    run(main())


def test_each_caller_of_a_failed_attempt_gets_an_error_of_its_own(run: Run) -> None:
    async def main() -> None:
        channels = Channels()
        address = closed_port()

        outcomes = await asyncio.gather(
            *(channels.call(address, ASK, CALL_MS) for _ in range(3)), return_exceptions=True
        )

        assert [type(outcome) for outcome in outcomes] == [Unreachable] * 3
        assert len({id(outcome) for outcome in outcomes}) == 3
        await channels.close()

    run(main())


def test_a_peer_that_takes_the_connection_and_drops_it_counts_as_failed(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        channels = Channels(clock=clock, chance=lambda: 0.0)
        async with bare_listener() as listener:
            call = asyncio.ensure_future(channels.call(listener.address, ASK, CALL_MS))
            (await listener.accept()).close()
            with pytest.raises(Unreachable):
                await call

            with pytest.raises(Unreachable, match="next attempt in"):
                await channels.call(listener.address, ASK, CALL_MS)
            await channels.close()

    run(main())


def test_a_server_that_comes_back_is_found_by_the_next_call(run: Run) -> None:
    async def main() -> None:
        channels = Channels()
        server = await serve_commands(HERE, echo)
        address = str(server.address)
        for _ in range(5):
            assert (await channels.call(address, ASK, CALL_MS)).body == b"hello"
            lost = await channels.reach(address, CALL_MS)
            await server.stop()
            await lost.closed
            server = await serve_commands(Address.parse(address), echo)

        assert (await channels.call(address, ASK, CALL_MS)).body == b"hello"

        await channels.close()
        await server.stop()

    run(main())


def test_a_thousand_reconnects_leave_nothing_behind(run: Run) -> None:
    async def main() -> None:
        channels = Channels()
        async with await serve_commands(HERE, echo) as server:
            address = str(server.address)
            await channels.call(address, ASK, CALL_MS)
            tasks, threads, files = other_tasks(), threading.active_count(), descriptors()

            for turn in range(1_000):
                channel = await channels.reach(address, CALL_MS)
                if turn % 2:
                    channel.abort("the test")
                else:
                    for accepted in server.channels:
                        accepted.abort("the test")
                await channel.closed
                assert (await channels.call(address, ASK, CALL_MS)).body == b"hello"

            await until(lambda: len(server.channels) == 1)
            assert other_tasks() == tasks
            assert threading.active_count() <= threads
            await until(lambda: descriptors() <= files)
            await channels.close()

    run(main())


def test_a_connect_that_takes_too_long_is_given_up_by_whoever_has_less_time(run: Run) -> None:
    """The peer takes the connection and keeps silent, so that the TLS handshake hangs."""

    async def main() -> None:
        async with bare_listener() as listener:
            channels = Channels(tls=ClientTls(), connect_ms=60_000)
            with pytest.raises(Unreachable, match="timed out after 20 ms connecting"):
                await channels.call(listener.address, ASK, 20)

            with pytest.raises(Unreachable, match="timed out after 30 ms connecting"):
                await connect(listener.address, tls=ClientTls(), timeout_ms=30)

            assert len(other_tasks()) == 1
            await channels.close()

    run(main())


def test_closing_gives_up_attempts_and_refuses_later_calls(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channels = Channels(tls=ClientTls())
            call = asyncio.ensure_future(channels.call(listener.address, ASK, CALL_MS))
            await listener.accept()

            await channels.close()

            with pytest.raises(Unreachable, match="the channels were closed"):
                await call
            with pytest.raises(Unreachable, match="the channels were closed"):
                await channels.call(listener.address, ASK, CALL_MS)
            assert not other_tasks()

    run(main())


def test_the_call_of_a_conversation_is_carried_out(run: Run) -> None:
    async def main() -> None:
        heard: list[Command] = []

        def hear(asked: Command, _channel: Channel) -> Command:
            heard.append(asked)
            return answer(asked, 0, body=asked.body)

        channels = Channels()
        async with await serve_commands(HERE, hear) as server:
            address = str(server.address)

            told = await channels.make(Call(address, request(15, oneway=True), CALL_MS))
            asked = await channels.make(Call(address, ASK, CALL_MS))

            assert told is SENT
            assert asked.body == b"hello"
            assert [command.is_oneway for command in heard] == [True, False]
            await channels.close()

    run(main())


def test_addresses_without_a_channel_are_forgotten_when_there_are_too_many(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("flintmq.net.channels.channel_pool.ADDRESSES_MAX", 3)
        channels = Channels()
        async with await serve_commands(HERE, echo) as server:
            await channels.call(str(server.address), ASK, CALL_MS)

            for number in range(10):
                with pytest.raises(Unreachable):
                    await channels.call(f"not an address {number}", ASK, CALL_MS)

            assert len(channels._peers) <= 3
            assert str(server.address) in channels._peers
            await channels.close()

    run(main())
