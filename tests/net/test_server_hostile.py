"""Every accepted connection counts until it is gone, its memory is given back at once, and a
server stops within its limit, whatever its peers and sessions do.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from time import monotonic

import pytest

from flintmq.errors import Unreachable
from flintmq.net.channels.channel import TURN_S, Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.channels.commands import CommandSession
from flintmq.net.channels.partial_frames import GROW_BYTES, GROW_MS
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.server import Server, serve, serve_commands
from flintmq.net.tls import ServerTls
from flintmq.protocol.command import answer, request
from flintmq.protocol.frame import Frame
from flintmq.protocol.wire import decode_command, encode_command
from support.net.certificates import Authority
from support.net.support import CALL_MS, HERE, HandClock, Run, bare_client, descriptors, echo, until

ASK = request(10, body=b"hello")
MIB = 1024 * 1024


def half_frame(size_bytes: int) -> bytes:
    """The first half of a frame, ``size_bytes`` of it."""
    return encode_command(request(10, body=bytes(2 * size_bytes)))[:size_bytes]


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_connection_whose_admission_is_cut_is_forgotten(
    run: Run, authority: Authority, secure: bool
) -> None:
    """A loop that stalls for the whole handshake time cuts an admission in the middle."""

    async def main() -> None:
        tls = ServerTls(authority.sign("cut")) if secure else None
        limits = ServerLimits(handshake_ms=0)
        async with await serve_commands(HERE, echo, tls=tls, limits=limits) as server:
            before = descriptors() + 1  # uvloop opens one of its own at the first connection
            for _ in range(3):
                async with bare_client(server.address) as peer:
                    assert await peer.closed()

            await until(lambda: not server.connection_count)
            assert not server.channels
            await until(lambda: descriptors() <= before)

    run(main())


def test_a_stop_in_the_middle_of_an_admission_leaves_nothing(run: Run) -> None:
    async def main() -> None:
        server = await serve_commands(HERE, echo)
        before = descriptors()
        async with bare_client(server.address) as peer:
            await until(lambda: server.connection_count)

            await server.stop(timeout_ms=20)

            assert await peer.closed()
            assert not server.connection_count
        await until(lambda: descriptors() <= before)

    run(main())


class Stubborn:
    """A session that ends only when the test lets it, whoever cancels it."""

    def __init__(self, may_end: asyncio.Event) -> None:
        self._may_end = may_end

    def frames(self, frames: list[Frame]) -> None: ...

    def lost(self) -> None: ...

    async def finish(self) -> None:
        while not self._may_end.is_set():
            try:
                await self._may_end.wait()
            except asyncio.CancelledError:
                continue


async def stopped(server: Server) -> None:
    """Stop, and fail when that does not end."""
    stopping = asyncio.ensure_future(server.stop(timeout_ms=20))
    done, _ = await asyncio.wait([stopping], timeout=60)
    assert done, "the stop does not end"
    stopping.result()


def test_a_stop_ends_though_a_session_ignores_its_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        monkeypatch.setattr("flintmq.net.servers.server.CUT_MS", 20)
        may_end = asyncio.Event()
        server = await serve(HERE, lambda _: Stubborn(may_end))
        async with bare_client(server.address) as peer:
            await until(lambda: server.channels)

            await stopped(server)

            assert await peer.closed()
            assert not server.connection_count
            assert "cut" in caplog.text
        may_end.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    run(main())


def test_a_stop_ends_though_a_transport_never_reports_its_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("flintmq.net.servers.server.CUT_MS", 20)
        server = await serve_commands(HERE, echo)
        async with bare_client(server.address):
            await until(lambda: server.channels)
            (channel,) = server.channels
            monkeypatch.setattr(channel, "connection_lost", lambda _: None)

            await stopped(server)

            assert not server.connection_count

    run(main())


def test_one_address_cannot_take_all_connections(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        limits = ServerLimits(10, connections_per_address_max=2)
        async with await serve_commands(HERE, echo, limits=limits) as server:
            kept = [await connect(str(server.address)) for _ in range(2)]
            for channel in kept:
                await channel.call(ASK, CALL_MS)

            async with bare_client(server.address) as third:
                assert await third.closed()

            assert "connectionsPerAddressMax is reached" in caplog.text
            await kept[0].close()
            await until(lambda: len(server.channels) == 1)
            late = await connect(str(server.address))
            assert (await late.call(ASK, CALL_MS)).body == b"hello"
            await asyncio.gather(kept[1].close(), late.close())

    run(main())


def test_without_a_setting_one_address_has_half_and_never_less_than_a_machine_needs() -> None:
    assert ServerLimits().per_address_max == 5_000
    assert ServerLimits(500).per_address_max == 1_000


def test_unfinished_frames_of_all_connections_share_a_budget(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection that holds the most is closed; the others are not."""

    async def main() -> None:
        limits = ServerLimits(partial_bytes_max=MIB)
        async with (
            await serve_commands(HERE, echo, limits=limits) as server,
            bare_client(server.address) as small,
            bare_client(server.address) as large,
            bare_client(server.address) as last,
        ):
            await small.send(half_frame(200_000))
            await large.send(half_frame(500_000))
            await until(lambda: server.partial.total_bytes == 700_000)

            await last.send(half_frame(400_000))

            assert await large.closed()
            await until(lambda: server.partial.total_bytes == 600_000)
            assert server.connection_count == 2
            assert "unfinished" in caplog.text

    run(main())


def test_a_frame_that_does_not_grow_is_given_up(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        async with (
            await serve_commands(HERE, echo, clock=clock) as server,
            bare_client(server.address) as slow,
            bare_client(server.address) as steady,
        ):
            await slow.send(half_frame(10_000))
            whole = encode_command(request(10, body=bytes(GROW_BYTES * 2)))
            await steady.send(whole[:100])
            await until(lambda: server.partial.total_bytes == 10_100)

            clock.now_ms += GROW_MS // 2
            server.partial.sweep()
            await slow.send(b"x")
            await steady.send(whole[100 : 100 + GROW_BYTES])
            await until(lambda: server.partial.total_bytes == 10_101 + GROW_BYTES)
            server.partial.sweep()
            clock.now_ms += GROW_MS // 2
            server.partial.sweep()

            assert await slow.closed()
            await steady.send(whole[100 + GROW_BYTES :])
            assert len((await steady.command()).body) == GROW_BYTES * 2
            assert server.partial.total_bytes == 0

    run(main())


@pytest.mark.parametrize("how", ["peer", "server"])
def test_the_memory_of_a_connection_is_given_back_without_a_collection(run: Run, how: str) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            async with bare_client(server.address) as peer:
                await peer.send(half_frame(5 * MIB))
                await until(lambda: server.partial.total_bytes == 5 * MIB)
                kept = weakref.ref(next(iter(server.channels)))
                buffer = weakref.ref(kept()._reader)  # type: ignore[union-attr]
                if how == "server":
                    kept().abort("the test wants it so")  # type: ignore[union-attr]
                    assert await peer.closed()

            await until(lambda: not server.connection_count)
            await asyncio.sleep(0)

            assert server.partial.total_bytes == 0
            assert buffer() is None
            assert kept() is None

    gc.collect()
    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()


def test_a_read_that_takes_too_long_is_served_in_parts_and_in_order(run: Run) -> None:
    """Others have their turn between two parts of one connection's requests."""
    served: list[tuple[str, bytes]] = []

    class Slow:
        def __init__(self, channel: Channel) -> None:
            self._channel = channel

        def frames(self, frames: list[Frame]) -> None:
            for done, frame in enumerate(frames, 1):
                command = decode_command(frame)
                served.append((self._channel.peer, command.body))
                end = monotonic() + (TURN_S if command.body != b"quick" else 0)
                while monotonic() < end:
                    pass
                self._channel.answer(command, answer(command, 0, body=command.body))
                if not self._channel.has_time():
                    self._channel.later(frames[done:])
                    return

        def lost(self) -> None: ...

        async def finish(self) -> None: ...

    async def main() -> None:
        async with (
            await serve(HERE, Slow) as server,
            bare_client(server.address) as greedy,
            bare_client(server.address) as modest,
        ):
            await until(lambda: len(server.channels) == 2)
            bodies = [b"%d" % number for number in range(20)]
            await greedy.send(b"".join(encode_command(request(10, body=body)) for body in bodies))
            await modest.send(encode_command(request(10, body=b"quick")))

            assert (await modest.command()).body == b"quick"
            assert [(await greedy.command()).body for _ in bodies] == bodies

        order = [body for _, body in served]
        assert [body for body in order if body != b"quick"] == bodies
        assert order.index(b"quick") < len(bodies)

    run(main())


def test_a_session_that_cannot_be_opened_ends_its_own_connection(run: Run) -> None:
    async def main() -> None:
        def broken(_channel: Channel) -> CommandSession:
            raise KeyError("nothing there")

        async with await serve(HERE, broken) as server, bare_client(server.address) as peer:
            assert await peer.closed()
            await until(lambda: not server.connection_count)

    run(main())


def test_a_call_on_a_channel_that_was_given_up_is_refused(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            channel = await connect(str(server.address))
            channel.give_up("the test wants it so")

            assert channel.closed.done()
            with pytest.raises(Unreachable, match="the test wants it so"):
                await channel.call(ASK, CALL_MS)
            await channel.close()

    run(main())
