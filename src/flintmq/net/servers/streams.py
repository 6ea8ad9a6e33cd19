"""Connections that carry bytes and no remoting frames: who listens for them, and who opens them.

What the bytes mean is for the `asyncio.Protocol` of the owner.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar

from flintmq.errors import InvalidSetting, Unreachable
from flintmq.net.address import Address
from flintmq.net.reasons import CLOSED_BY_PEER, no_connection, why

P = TypeVar("P", bound=asyncio.Protocol)


async def listen_for_streams(listen: Address, make: Callable[[], asyncio.Protocol]) -> StreamServer:
    """Listen, and give each connection a protocol of its own."""
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(make, listen.host, listen.port)
    except OSError as error:
        raise InvalidSetting("listen address", str(listen), why(error)) from None
    return StreamServer(server)


class StreamServer:
    """A listening socket.  Its connections are their owner's."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self.address = Address(*server.sockets[0].getsockname()[:2])
        """Where it really listens, when port 0 was asked for."""

    def stop(self) -> None:
        """Accept no more."""
        self._server.close()


async def open_stream(address: Address, make: Callable[[], P], timeout_ms: int) -> P:
    """Connect; `Unreachable` when nobody answers in time."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            transport, protocol = await loop.create_connection(make, address.host, address.port)
    except TimeoutError:
        raise Unreachable(str(address), no_connection(timeout_ms)) from None
    except OSError as error:
        raise Unreachable(str(address), why(error)) from None
    send_at_once(transport)
    return protocol


def send_at_once(transport: asyncio.BaseTransport) -> None:
    """Do not let the system wait for more before it sends something small."""
    opened: socket.socket | None = transport.get_extra_info("socket")
    if opened is not None:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def first_byte(accepted: socket.socket) -> int:
    """Wait for the first byte of a connection and leave it there."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            ready = asyncio.Event()
            loop.add_reader(accepted.fileno(), ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(accepted.fileno())
        else:
            if not data:
                raise ConnectionResetError(0, CLOSED_BY_PEER)
            return data[0]
