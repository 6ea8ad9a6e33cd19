"""A server outlives whatever its peers do, and each peer can only hurt its own connection."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from flintmq.errors import InvalidSetting, Unreachable
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.limits import ChannelLimits
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.server import serve, serve_commands
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.frame import Frame
from flintmq.protocol.wire import decode_command, encode_command
from support.net.support import (
    CALL_MS,
    HERE,
    CountedTransport,
    HandClock,
    Run,
    bare_client,
    descriptors,
    echo,
    other_tasks,
    until,
)

ASK = request(10, body=b"hello")


class Recorder:
    """A session that keeps the batches it was given and answers each in two pieces."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.counted = CountedTransport(channel)
        self.batches: list[list[Frame]] = []
        self.is_lost = False

    def frames(self, frames: list[Frame]) -> None:
        self.batches.append(frames)
        for frame in frames:
            reply = encode_command(answer(decode_command(frame), 0, body=b"answer"))
            self.channel.write((reply[:-6], memoryview(reply)[-6:]))

    def lost(self) -> None:
        self.is_lost = True

    async def finish(self) -> None: ...


def test_all_frames_of_a_read_come_at_once_and_their_answers_leave_at_once(run: Run) -> None:
    async def main() -> None:
        sessions: list[Recorder] = []

        def open_session(channel: Channel) -> Recorder:
            sessions.append(Recorder(channel))
            return sessions[-1]

        async with (
            await serve(HERE, open_session) as server,
            bare_client(server.address) as client,
        ):
            await until(lambda: sessions)
            (session,) = sessions
            await client.send(b"".join(encode_command(Command(10, n)) for n in range(20)))

            data = await client.receive()

            assert session.counted.write_count == 1
            assert [len(batch) for batch in session.batches] == [20]
            assert data.count(b"answer") == 20
            client.close()
            await until(lambda: session.is_lost)

    run(main())


def test_a_session_asks_its_peer(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            channel = await connect(str(server.address), handler=echo)
            await until(lambda: server.channels)
            (accepted,) = server.channels

            reply = await accepted.call(request(220, body=b"offsets"), CALL_MS)

            assert reply.body == b"offsets"
            accepted.send_oneway_now(request(40))
            await channel.close()

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 9,
        b"\0\0\0\x06\0\0\0\x02[]",
        b"\x16\x03\x01\x02\0\x01",
    ],
)
def test_garbage_closes_only_its_own_connection_with_one_line_in_the_log(
    run: Run, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with (
            await serve_commands(HERE, echo) as server,
            bare_client(server.address) as vandal,
        ):
            bystander = await connect(str(server.address))

            with caplog.at_level(logging.INFO, logger="flintmq.net"):
                await vandal.send(garbage + bytes(20))
                assert await vandal.closed()

            assert (await bystander.call(ASK, CALL_MS)).body == b"hello"
            (line,) = caplog.records
            assert line.getMessage().startswith("127.0.0.1:")
            assert "broke the protocol" in line.getMessage()
            assert line.exc_info is None
            await bystander.close()

    run(main())


def test_a_peer_that_leaves_inside_a_frame_is_forgotten(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            async with bare_client(server.address) as peer:
                await peer.send(encode_command(ASK)[:-1])
                await until(lambda: server.channels)
            await until(lambda: not server.channels)

    run(main())


def test_a_peer_that_does_not_read_is_not_served_more(run: Run) -> None:
    async def main() -> None:
        limits = ChannelLimits(write_high_bytes=300_000, write_low_bytes=100_000)
        served = 0

        def large(asked: Command, _channel: Channel) -> Command:
            nonlocal served
            served += 1
            return answer(asked, 0, body=bytes(100_000))

        async with (
            await serve_commands(HERE, large, channel_limits=limits) as server,
            bare_client(server.address, receive_bytes=16_384) as client,
        ):
            asked = 0

            async def ask() -> None:
                nonlocal asked
                await client.send(encode_command(Command(10, asked)))
                asked += 1

            await ask()
            await until(lambda: server.channels)
            (accepted,) = server.channels
            while not accepted._full:
                await ask()
                await until(lambda: served == asked)
            await ask()
            for _ in range(20):  # turns in which a server that reads would serve
                await asyncio.sleep(0)

            assert served == asked - 1
            assert accepted.unsent_bytes < limits.write_high_bytes + 2 * 100_000
            assert accepted._transport is not None
            assert not accepted._transport.is_reading()

            for _ in range(asked):
                await client.command()
            assert served == asked
            await until(lambda: accepted.unsent_bytes == 0)
            assert accepted._transport.is_reading()

    run(main())


def test_a_peer_over_the_hard_cap_is_cut_off(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        limits = ChannelLimits(write_high_bytes=1_000, write_low_bytes=0, write_bytes_max=1_000_000)

        def flood(asked: Command, channel: Channel) -> None:
            for _ in range(1_000):
                channel.answer(asked, answer(asked, 0, body=bytes(100_000)))

        async with (
            await serve_commands(HERE, flood, channel_limits=limits) as server,
            bare_client(server.address, receive_bytes=4_096) as client,
        ):
            await client.send(encode_command(ASK))

            await until(lambda: caplog.records)
            assert await client.closed()

            assert "bytes unread" in caplog.text
            await until(lambda: not server.channels)

    run(main())


def test_connections_over_the_limit_are_refused(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo, limits=ServerLimits(2)) as server:
            kept = [await connect(str(server.address)) for _ in range(2)]
            for channel in kept:
                await channel.call(ASK, CALL_MS)

            async with bare_client(server.address) as third:
                assert await third.closed()

            assert "connectionsMax is reached" in caplog.text
            await kept[0].close()
            await until(lambda: len(server.channels) == 1)
            late = await connect(str(server.address))
            assert (await late.call(ASK, CALL_MS)).body == b"hello"
            await asyncio.gather(kept[1].close(), late.close())

    run(main())


def test_want_of_descriptors_stops_accepting_for_a_while_and_not_for_ever(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        monkeypatch.setattr("flintmq.net.servers.server.ACCEPT_PAUSE_S", 0.01)
        async with await serve_commands(HERE, echo) as server:
            real = server._listener
            failures = [OSError(24, "Too many open files"), ConnectionAbortedError()]

            class Exhausted:
                def fileno(self) -> int:
                    return real.fileno()

                def close(self) -> None:
                    real.close()

                def accept(self) -> tuple[socket.socket, tuple[str, int]]:
                    if failures:
                        raise failures.pop(0)
                    return real.accept()

            server._listener = Exhausted()  # type: ignore[assignment]
            channel = await connect(str(server.address))

            assert (await channel.call(ASK, CALL_MS)).body == b"hello"

            assert caplog.text.count("cannot accept: Too many open files") == 1
            await channel.close()

    run(main())


def test_stopping_lets_requests_under_way_be_answered(run: Run) -> None:
    async def main() -> None:
        may_answer = asyncio.Event()
        begun: list[Command] = []

        async def slow(asked: Command, _channel: Channel) -> Command:
            begun.append(asked)
            await may_answer.wait()
            return answer(asked, 0, body=b"done")

        server = await serve_commands(HERE, slow)
        channel = await connect(str(server.address))
        call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
        await until(lambda: begun)
        stopping = asyncio.ensure_future(server.stop(CALL_MS))
        await until(lambda: server._listener.fileno() == -1)
        assert not call.done()

        may_answer.set()
        await stopping

        assert (await call).body == b"done"
        await channel.closed
        with pytest.raises(Unreachable, match="refused"):
            await connect(str(server.address))

    run(main())


def test_stopping_does_not_wait_past_its_deadline(run: Run) -> None:
    async def main() -> None:
        begun: list[Command] = []

        async def endless(asked: Command, _channel: Channel) -> None:
            begun.append(asked)
            await asyncio.Event().wait()

        server = await serve_commands(HERE, endless)
        channel = await connect(str(server.address))
        call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
        await until(lambda: begun)

        await server.stop(timeout_ms=20)

        with pytest.raises(Unreachable):
            await call
        assert not other_tasks()
        await channel.closed

    run(main())


def test_a_peer_without_traffic_is_closed(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        async with (
            await serve_commands(HERE, echo, clock=clock) as server,
            bare_client(server.address) as peer,
        ):
            await until(lambda: server.channels)
            (accepted,) = server.channels

            clock.now_ms += 120_000
            accepted.timer_fired()

            assert await peer.closed()
            await until(lambda: not server.channels)

    run(main())


def test_accepted_sockets_send_small_answers_at_once(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            channel = await connect(str(server.address))
            await until(lambda: server.channels)
            for end in (channel, *server.channels):
                assert end._transport is not None
                sock = end._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await channel.close()

    run(main())


def test_a_server_on_ipv6_tells_addresses_with_brackets(run: Run) -> None:
    async def main() -> None:
        try:
            server = await serve_commands(Address("::1", 0), echo)
        except InvalidSetting as error:
            pytest.skip(f"no IPv6 here: {error}")
        async with server:
            channel = await connect(str(server.address))
            assert (await channel.call(ASK, CALL_MS)).body == b"hello"
            (accepted,) = server.channels
            assert accepted.peer.startswith("[::1]:")
            await channel.close()

    run(main())


def test_an_address_in_use_is_named(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            with pytest.raises(InvalidSetting, match="already in use") as caught:
                await serve_commands(server.address, echo)

            assert caught.value.value == str(server.address)

    run(main())


def test_a_server_that_stopped_holds_no_descriptor(run: Run) -> None:
    async def main() -> None:
        async def serve_once() -> None:
            server = await serve_commands(HERE, echo)
            channel = await connect(str(server.address))
            await channel.call(ASK, CALL_MS)
            await server.stop()
            await server.stop()
            await channel.closed

        await serve_once()  # the loop opens a spare of its own with the first
        before = descriptors()

        await serve_once()

        await until(lambda: descriptors() <= before)

    run(main())
