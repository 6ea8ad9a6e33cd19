"""What the tests of `net` share: waiting for a condition, peers made of bare sockets, echoes."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.protocol.command import Command, answer
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.wire import decode_command, encode_command

T = TypeVar("T")

HERE = Address("127.0.0.1", 0)
PATIENCE_S = 60.0
"""How long a test waits for what must happen, on a machine that may be very busy.

Longer than 20 and 30 seconds: so long clients and brokers wait until they look again at members,
locks and routes when a message between them came too late.
"""

CALL_MS = 15_000
"""A timeout that no test means to reach."""


class Run(Protocol):
    """Runs a coroutine on one of the event loops."""

    def __call__(self, main: Coroutine[Any, Any, T]) -> T: ...


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def echo(request: Command, _channel: Channel) -> Command:
    return answer(request, 0, body=request.body)


def silent(_request: Command, _channel: Channel) -> None:
    """Never answers."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; fail when it does not come true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - conditions of any kind, and a deadline
            await asyncio.sleep(0.001)


class CountedTransport:
    """A transport that counts how often it is written to."""

    def __init__(self, channel: Channel) -> None:
        self._transport = channel._transport
        self.write_count = 0
        channel._transport = cast(asyncio.Transport, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("write"):
            self.write_count += 1
        return getattr(self._transport, name)


def descriptors() -> int:
    """How many files are open; what other tests left to the collector does not count."""
    gc.collect()
    return sum(1 for _ in Path("/dev/fd").iterdir())


def other_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


class BarePeer:
    """One end of a connection, by hand."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._commands: list[Command] = []

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.sock, data)

    async def answer(self, to: Command, body: bytes = b"") -> None:
        await self.send(encode_command(answer(to, 0, body=body)))

    async def command(self) -> Command:
        """The next command that arrives."""
        while not self._commands:
            data = await self.receive()
            assert data, "the other end closed"
            self._commands += [decode_command(frame) for frame in self._reader.feed(data)]
        return self._commands.pop(0)

    async def receive(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self._loop.sock_recv(self.sock, 65_536)

    async def closed(self) -> bool:
        """Wait until the other end closes; whatever it still sends is read and dropped."""
        try:
            while await self.receive():
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Close so that the other end sees a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()


class BareListener:
    """A listening socket whose connections are taken by hand."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.address = str(Address(*self._listener.getsockname()))
        self._peers: list[BarePeer] = []

    async def accept(self) -> BarePeer:
        async with asyncio.timeout(PATIENCE_S):
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._peers.append(BarePeer(sock))
        return self._peers[-1]

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()


@asynccontextmanager
async def bare_listener() -> AsyncIterator[BareListener]:
    listener = BareListener()
    try:
        yield listener
    finally:
        listener.close()


@asynccontextmanager
async def bare_client(
    address: Address, *, receive_bytes: int = 0, source: str = ""
) -> AsyncIterator[BarePeer]:
    """A connection to a server; ``receive_bytes`` keeps the system's own buffer small."""
    sock = socket.socket()
    if source:
        sock.bind((source, 0))
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    peer = BarePeer(sock)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (address.host, address.port))
        yield peer
    finally:
        peer.close()


def closed_port() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(Address(*listener.getsockname()))


class ThreadedPeer:
    """A bare listener whose one connection a function serves on a thread: for blocking tests."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = str(Address(*self._listener.getsockname()))
        self._serve = serve
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        self._listener.settimeout(PATIENCE_S)
        sock, _ = self._listener.accept()
        with sock:
            sock.settimeout(PATIENCE_S)
            self._serve(sock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        self._listener.close()
        assert not self._thread.is_alive()


def read_commands(sock: socket.socket, count: int) -> list[Command]:
    """Read so many commands from a blocking socket."""
    reader = FrameReader()
    commands: list[Command] = []
    while len(commands) < count:
        data = sock.recv(65_536)
        assert data, "the other end closed"
        commands += [decode_command(frame) for frame in reader.feed(data)]
    return commands


def reply(sock: socket.socket, to: Command, body: bytes = b"") -> None:
    sock.sendall(encode_command(answer(to, 0, body=body)))


def echo_once(sock: socket.socket) -> None:
    (asked,) = read_commands(sock, 1)
    reply(sock, asked, asked.body)
