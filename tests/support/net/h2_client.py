"""HTTP/2 by hand: header blocks, messages, a client frame by frame, and a server to talk to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from flintmq.net.http2.call_server import GrpcMethod, H2Limits
from flintmq.net.http2.grpc_call import GrpcCall
from flintmq.net.http2.grpc_server import GrpcServer
from flintmq.net.servers.mixed_listener import MixedListener, listen_mixed
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.h2_frames import FrameKind
from flintmq.protocol.http2.hpack import HeaderReader
from support.net.support import HERE, PATIENCE_S, BarePeer, bare_client

LIMITS = H2Limits(request_bytes_max=100_000, streams_max=4, metadata_bytes_max=2_000)
LARGE = H2Limits(request_bytes_max=8 * 1024 * 1024, streams_max=1_000, metadata_bytes_max=16_384)
MANY_COUNT, MANY_BYTES = 50, 10_000


def number(value: int, prefix_bits: int, first: int = 0) -> bytes:
    """A number of a header block, in the low bits of its first byte and as many more as needed."""
    mask = (1 << prefix_bits) - 1
    if value < mask:
        return bytes([first | value])
    made, value = bytearray([first | mask]), value - mask
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def text(value: str) -> bytes:
    data = value.encode("latin-1")
    return number(len(data), 7) + data


def field(name: str, value: str) -> bytes:
    return b"\x00" + text(name) + text(value)


def fields(path: str, said: Mapping[str, str] | None = None) -> bytes:
    """The header block of a call."""
    every = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        "content-type": "application/grpc",
    }
    return b"".join(field(name, value) for name, value in (every | dict(said or {})).items())


def message(body: bytes, packed: int = 0) -> bytes:
    return bytes([packed]) + len(body).to_bytes(4, "big") + body


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return frames.head(len(payload), kind, flags, stream_id) + payload


def begin(stream_id: int, path: str, said: Mapping[str, str] | None = None) -> bytes:
    """A call whose message comes later."""
    return frame(FrameKind.HEADERS, frames.END_HEADERS, stream_id, fields(path, said))


def data(stream_id: int, payload: bytes, *, is_end: bool = False) -> bytes:
    """In as many frames as it needs."""
    size = frames.FRAME_BYTES_MAX
    parts = [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
    made = [frame(FrameKind.DATA, 0, stream_id, part) for part in parts[:-1]]
    flags = frames.END_STREAM if is_end else 0
    return b"".join([*made, frame(FrameKind.DATA, flags, stream_id, parts[-1])])


def call(
    stream_id: int, path: str, body: bytes = b"", said: Mapping[str, str] | None = None
) -> bytes:
    """A whole call."""
    return begin(stream_id, path, said) + data(stream_id, message(body), is_end=True)


class Seen(NamedTuple):
    """A frame that came."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes


class H2Client:
    """One end of HTTP/2, frame by frame."""

    def __init__(self, peer: BarePeer) -> None:
        self.peer = peer
        self.send = peer.send
        self.window_told: dict[int, int] = {}
        """What the server permits beyond the first windows, by stream."""
        self._fields = HeaderReader(100_000)
        self._rest = b""

    async def next(self) -> Seen:
        while len(self._rest) < frames.HEAD_BYTES or len(self._rest) < self._size():
            came = await self.peer.receive()
            assert came, "the other end closed"
            self._rest += came
        size = self._size()
        whole, self._rest = self._rest[:size], self._rest[size:]
        stream_id = int.from_bytes(whole[5:9], "big")
        seen = Seen(whole[3], whole[4], stream_id, whole[frames.HEAD_BYTES :])
        if seen.kind == FrameKind.WINDOW_UPDATE:
            told = self.window_told.get(stream_id, 0)
            self.window_told[stream_id] = told + int.from_bytes(seen.payload, "big")
        return seen

    def _size(self) -> int:
        return frames.HEAD_BYTES + int.from_bytes(self._rest[:3], "big")

    async def until(self, kind: FrameKind) -> Seen:
        while (seen := await self.next()).kind != kind:
            if seen.kind == FrameKind.HEADERS:
                self._fields.read(seen.payload)
        return seen

    async def answer(self, stream_id: int) -> tuple[bytes, dict[str, str]]:
        """The bytes of all messages of a call, and its fields, or ``reset`` and why."""
        came, said = b"", dict[str, str]()
        while True:
            seen = await self.next()
            block = self._fields.read(seen.payload) if seen.kind == FrameKind.HEADERS else []
            if seen.stream_id != stream_id:
                continue
            if seen.kind == FrameKind.RST_STREAM:
                return came, {"reset": str(int.from_bytes(seen.payload, "big"))}
            if seen.kind == FrameKind.DATA:
                came += seen.payload
            said |= dict(block)
            if seen.kind in (FrameKind.DATA, FrameKind.HEADERS) and seen.flags & frames.END_STREAM:
                return came, said

    async def farewell(self) -> int:
        """The error with which the connection ends."""
        return int.from_bytes((await self.until(FrameKind.GOAWAY)).payload[4:8], "big")

    async def heard(self) -> None:
        """Wait until the server has read all that was sent."""
        await self.send(frame(FrameKind.PING, 0, 0, b"heard???"))
        while (await self.until(FrameKind.PING)).payload != b"heard???":
            pass


async def echo(asked: GrpcCall) -> None:
    asked.finish(asked.take())


async def many(asked: GrpcCall) -> None:
    for count in range(MANY_COUNT):
        await asked.send(bytes([count]) * MANY_BYTES)
    asked.end()


async def talk(asked: GrpcCall) -> None:
    async for said in asked.messages():
        await asked.send(said)
    asked.end()


async def fault(_asked: GrpcCall) -> None:
    raise ZeroDivisionError


class Waiting:
    """A method that never ends by itself, and tells how it was ended."""

    def __init__(self) -> None:
        self.running = self.cancelled = 0

    async def __call__(self, _asked: GrpcCall) -> None:
        self.running += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class Both:
    """A method whose one task says hello and what it was told, while another one listens."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def __call__(self, asked: GrpcCall) -> None:
        listening = asyncio.ensure_future(self._listen(asked))
        await asked.send(b"hello")
        await listening
        for said in self.heard:
            await asked.send(said)
        asked.end()

    async def _listen(self, asked: GrpcCall) -> None:
        async for said in asked.messages():
            self.heard.append(said)


class Served(NamedTuple):
    """A server, where it listens, and its methods that wait: ``/wait``, and ``/deaf`` of many."""

    server: GrpcServer
    listener: MixedListener
    waiting: Waiting
    both: Both

    @property
    def where(self) -> str:
        return str(self.listener.address)

    @asynccontextmanager
    async def client(self, *, receive_bytes: int = 0, source: str = "") -> AsyncIterator[H2Client]:
        """A connection that has begun."""
        where = self.listener.address
        async with bare_client(where, receive_bytes=receive_bytes, source=source) as peer:
            await peer.send(frames.PREFACE + frames.settings({}))
            yield H2Client(peer)

    async def check(self) -> None:
        """Another connection is served."""
        async with self.client() as other:
            await other.send(call(1, "/echo", b"still here"))
            answer, said = await other.answer(1)
            assert answer == message(b"still here")
            assert said["grpc-status"] == "0"


@asynccontextmanager
async def serving(limits: H2Limits = LIMITS, calls_max: int = 10_000) -> AsyncIterator[Served]:
    waiting, both = Waiting(), Both()
    methods = {
        "/both": GrpcMethod(both, takes_many=True),
        "/echo": GrpcMethod(echo),
        "/many": GrpcMethod(many),
        "/talk": GrpcMethod(talk, takes_many=True),
        "/deaf": GrpcMethod(waiting, takes_many=True),
        "/fault": GrpcMethod(fault),
        "/wait": GrpcMethod(waiting),
    }
    server = GrpcServer(methods, limits, calls_max)
    listener = listen_mixed(HERE, tls=None, alpn="h2")
    listener.open(server.connection)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield Served(server, listener, waiting, both)
    finally:
        await server.stop(0)
        await listener.stop()
    assert not server.call_count
    assert not server.partial.total_bytes
    assert not server.unread.total_bytes
