"""A peer that answers what nobody asked is cut off, and calls to others are not delayed."""

from __future__ import annotations

import asyncio
import socket

import pytest

from flintmq.errors import RemoteProtocolError, Unreachable
from flintmq.net.blocking.blocking import connect as connect_blocking
from flintmq.net.channels.channel_pool import connect
from flintmq.net.channels.commands import LOOK_EVERY, refuse
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.command import answer, request
from flintmq.protocol.connection import UNMATCHED_MAX, Connection, Unmatched
from flintmq.protocol.frame import Frame
from flintmq.protocol.wire import encode_command
from support.net.support import (
    CALL_MS,
    HERE,
    Run,
    ThreadedPeer,
    bare_client,
    bare_listener,
    echo,
    until,
)

ASK = request(10, body=b"hello")
UNASKED = answer(request(10, opaque=1_000_000), 0)


def test_answers_nobody_waits_for_have_a_limit() -> None:
    """As many as there were requests may come late, and some more."""
    connection = Connection()
    for _ in range(10):
        connection.send_oneway(ASK)

    for _ in range(10 + UNMATCHED_MAX):
        assert isinstance(connection.arrive(UNASKED), Unmatched)
    with pytest.raises(RemoteProtocolError, match="nobody waits for"):
        connection.arrive(UNASKED)


def test_late_answers_never_end_a_connection() -> None:
    connection = Connection()
    for now_ms in range(3 * UNMATCHED_MAX):
        opaque, _ = connection.call(ASK, now_ms, 1)
        connection.expire(now_ms + 1)
        late = answer(request(10, opaque=opaque), 0)
        assert isinstance(connection.arrive(late), Unmatched)


def test_a_client_hangs_up_on_a_flood(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            await peer.command()

            await peer.send(encode_command(UNASKED) * (UNMATCHED_MAX + 2))

            with pytest.raises(Unreachable, match="nobody waits for"):
                await call
            await channel.close()

    run(main())


def test_a_server_hangs_up_on_a_flood(run: Run) -> None:
    async def main() -> None:
        async with (
            await serve_commands(HERE, echo) as server,
            bare_client(server.address) as peer,
        ):
            await peer.send(encode_command(UNASKED) * (UNMATCHED_MAX + 1))

            assert await peer.closed()
            await until(lambda: not server.connection_count)

    run(main())


def test_a_blocking_client_hangs_up_on_a_flood() -> None:
    def flood(sock: socket.socket) -> None:
        sock.sendall(encode_command(UNASKED) * (UNMATCHED_MAX + 2))

    with (
        ThreadedPeer(flood) as peer,
        connect_blocking(peer.address) as channel,
        pytest.raises(Unreachable, match="nobody waits for"),
    ):
        channel.call(ASK, CALL_MS)


def test_a_client_serves_a_flood_of_requests_in_parts(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time in a turn, others run after every few of them."""
    monkeypatch.setattr("flintmq.net.channels.channel.TURN_S", 0.0)

    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address, handler=refuse)
            peer = await listener.accept()
            left: list[int] = []
            later = channel.later

            def counted(frames: list[Frame]) -> None:
                left.append(len(frames))
                later(frames)

            monkeypatch.setattr(channel, "later", counted)
            await peer.send(encode_command(ASK) * (10 * LOOK_EVERY))

            for _ in range(10 * LOOK_EVERY):
                assert (await peer.command()).code == 3
            assert len([count for count in left if count]) >= 5
            await channel.close()

    run(main())
