"""A relay carries bytes both ways and ends both sides together; TLS is tried in tests/proxy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.net.servers.relay import Relay, RelayLimits, listen_for_relay
from support.net.support import HERE, Run, other_tasks

WAIT_S = 30.0


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def relaying(limits: RelayLimits | None = None) -> AsyncIterator[Relay]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    relay = listen_for_relay(HERE, tls=None, alpn="h2", limits=limits)
    try:
        relay.open(Address(*server.sockets[0].getsockname()[:2]))
        yield relay
    finally:
        await relay.stop()
        server.close()
        async with asyncio.timeout(WAIT_S):
            while other_tasks():  # noqa: ASYNC110  # connections of the server end by themselves
                await asyncio.sleep(0)


async def connect(relay: Relay) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(relay.address.host, relay.address.port)


def test_bytes_go_both_ways(run: Run) -> None:
    async def main() -> None:
        large = bytes(range(256)) * 20_000  # more than all buffers on the way
        async with relaying() as relay, asyncio.timeout(WAIT_S):
            reader, writer = await connect(relay)
            reading = asyncio.ensure_future(reader.readexactly(len(large)))
            writer.write(large)
            assert await reading == large
            assert relay.connection_count == 1
            writer.close()

    run(main())


def test_a_stop_ends_both_sides(run: Run) -> None:
    async def main() -> None:
        async with relaying() as relay, asyncio.timeout(WAIT_S):
            reader, writer = await connect(relay)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
            await relay.stop()
            assert await reader.read() == b""
            assert relay.connection_count == 0
            writer.close()

    run(main())


def test_connections_beyond_the_limit_are_refused(run: Run) -> None:
    async def main() -> None:
        async with relaying(RelayLimits(connections_max=1)) as relay, asyncio.timeout(WAIT_S):
            first, writer = await connect(relay)
            writer.write(b"x")
            assert await first.readexactly(1) == b"x"
            second, other = await connect(relay)
            assert await second.read() == b""
            writer.close()
            other.close()

    run(main())


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = Address(*taken.getsockname()[:2])
        with pytest.raises(InvalidSetting, match=str(where.port)):
            listen_for_relay(where, tls=None, alpn="h2")
