"""A listener gives each connection a protocol and counts it until its end; TLS is tried in
tests/proxy.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.net.refusals import Refusals
from flintmq.net.servers.accepting import SERVER_LIMITS, ServerLimits
from flintmq.net.servers.mixed_listener import MixedListener, listen_mixed
from support.net.support import HERE, Run, until

WAIT_S = 60.0


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set_result(None)

    def abort(self, _reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        elif not self.ended.done():
            self.ended.set_result(None)


@asynccontextmanager
async def listening(
    limits: ServerLimits = SERVER_LIMITS, refusals: Refusals | None = None
) -> AsyncIterator[MixedListener]:
    listener = listen_mixed(HERE, tls=None, alpn="h2", limits=limits, refusals=refusals)
    try:
        listener.open(Echo)
        yield listener
    finally:
        await listener.stop()


async def connect(listener: MixedListener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(listener.address.host, listener.address.port)


def test_bytes_go_both_ways(run: Run) -> None:
    async def main() -> None:
        large = bytes(range(256)) * 2_000
        async with listening() as listener, asyncio.timeout(WAIT_S):
            reader, writer = await connect(listener)
            writer.write(large)
            assert await reader.readexactly(len(large)) == large
            assert listener.connection_count == 1
            writer.close()

    run(main())


def test_a_stop_ends_connections(run: Run) -> None:
    async def main() -> None:
        async with listening() as listener, asyncio.timeout(WAIT_S):
            reader, writer = await connect(listener)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            await listener.stop()
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            assert listener.connection_count == 0
            writer.close()

    run(main())


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (ServerLimits(2), "connectionsMax"),
        (ServerLimits(10, connections_per_address_max=2), "connectionsPerAddressMax"),
    ],
)
def test_connections_beyond_a_limit_are_refused_and_counted(
    run: Run, limits: ServerLimits, name: str
) -> None:
    """The limits and counters are those of the ports of the remoting protocol."""

    async def main() -> None:
        refusals = Refusals()
        async with listening(limits, refusals) as listener, asyncio.timeout(WAIT_S):
            first, writer = await connect(listener)
            _, second = await connect(listener)
            third, other = await connect(listener)
            assert await third.read() == b""
            assert refusals.counts == {name: 1}
            writer.write(b"x")
            assert await first.readexactly(1) == b"x"
            second.close()
            await until(lambda: listener.connection_count == 1)
            fourth, last = await connect(listener)
            last.write(b"y")
            assert await fourth.readexactly(1) == b"y"
            for each in (writer, other, last):
                each.close()

    run(main())


def test_another_address_is_let_in_when_one_has_all_it_may_have(run: Run) -> None:
    async def main() -> None:
        limits = ServerLimits(10, connections_per_address_max=1)
        async with listening(limits) as listener, asyncio.timeout(WAIT_S):
            _, first = await connect(listener)
            refused, second = await connect(listener)
            assert await refused.read() == b""
            where = listener.address
            reader, third = await asyncio.open_connection(
                where.host, where.port, local_addr=("127.0.0.2", 0)
            )
            third.write(b"x")
            assert await reader.readexactly(1) == b"x"
            for each in (first, second, third):
                each.close()

    run(main())


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = Address(*taken.getsockname()[:2])
        with pytest.raises(InvalidSetting, match=str(where.port)):
            listen_mixed(where, tls=None, alpn="h2")
