"""A connection serves calls within its windows and limits, and ends for what is no HTTP/2."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from flintmq.net.http2.call_server import GrpcMethod, H2Limits
from flintmq.net.http2.grpc_call import GrpcCall
from flintmq.net.http2.grpc_server import GrpcServer
from flintmq.net.servers.mixed_listener import listen_mixed
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import GrpcStatus, status_fields, timeout_s
from flintmq.protocol.http2.h2_frames import FrameKind, H2Error, Setting
from flintmq.protocol.http2.hpack import HeaderReader
from support.net.support import HERE, Run, until

WAIT_S = 60.0
LIMITS = H2Limits(request_bytes_max=100_000, streams_max=4, metadata_bytes_max=2_000)
LAST = frames.END_HEADERS | frames.END_STREAM


def field(name: str, value: str) -> bytes:
    return b"\x00" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


def fields(path: str, **more: str) -> bytes:
    said = {":path": path, "content-type": "application/grpc"}
    said |= {name.replace("_", "-"): value for name, value in more.items()}
    return b"".join(field(name, value) for name, value in said.items())


def message(body: bytes, packed: int = 0) -> bytes:
    return bytes([packed]) + len(body).to_bytes(4, "big") + body


class Client:
    """One end of HTTP/2, frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._fields = HeaderReader(10_000)
        self.closed = writer.close

    def send(self, kind: FrameKind, flags: int, stream_id: int, payload: bytes = b"") -> None:
        self._writer.write(frames.head(len(payload), kind, flags, stream_id) + payload)

    def raw(self, data: bytes) -> None:
        self._writer.write(data)

    def call(self, stream_id: int, path: str, body: bytes | None = b"", **more: str) -> None:
        """Begin a call, and say all unless there is no body."""
        block = fields(path, **more)
        self.send(FrameKind.HEADERS, frames.END_HEADERS, stream_id, block)
        if body is not None:
            self.send(FrameKind.DATA, frames.END_STREAM, stream_id, message(body))

    async def next(self) -> tuple[int, int, int, bytes]:
        head = await self._reader.readexactly(frames.HEAD_BYTES)
        payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload

    async def answer(self, stream_id: int) -> tuple[bytes, dict[str, str]]:
        """The bytes of all messages of a call, and how it ended."""
        data, said = b"", dict[str, str]()
        while True:
            kind, flags, stream, payload = await self.next()
            if kind == FrameKind.HEADERS:
                block = dict(self._fields.read(payload))
            if stream != stream_id:
                continue
            if kind == FrameKind.RST_STREAM:
                return data, {"reset": str(int.from_bytes(payload, "big"))}
            if kind == FrameKind.DATA:
                data += payload
            elif kind == FrameKind.HEADERS:
                said |= block
            if flags & frames.END_STREAM:
                return data, said

    async def farewell(self) -> int:
        """The error with which the connection ends."""
        while True:
            kind, _, _, payload = await self.next()
            if kind == FrameKind.GOAWAY:
                return int.from_bytes(payload[4:8], "big")


async def echo(call: GrpcCall) -> None:
    call.finish(call.take())


async def many(call: GrpcCall) -> None:
    for _ in range(50):
        await call.send(bytes(10_000))
    call.end()


async def talk(call: GrpcCall) -> None:
    async for said in call.messages():
        await call.send(said)
    call.end()


async def fault(_call: GrpcCall) -> None:
    raise ZeroDivisionError


class Waiting:
    """A method that never ends by itself, and tells how it was ended."""

    def __init__(self) -> None:
        self.running = self.cancelled = 0

    async def __call__(self, _call: GrpcCall) -> None:
        self.running += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


WAITING = Waiting()


@asynccontextmanager
async def serving(
    limits: H2Limits = LIMITS, calls_max: int = 100
) -> AsyncIterator[tuple[GrpcServer, Client]]:
    methods = {
        "/echo": GrpcMethod(echo),
        "/many": GrpcMethod(many),
        "/talk": GrpcMethod(talk, takes_many=True),
        "/fault": GrpcMethod(fault),
        "/wait": GrpcMethod(WAITING),
    }
    server = GrpcServer(methods, limits, calls_max)
    listener = listen_mixed(HERE, tls=None, alpn="h2")
    listener.open(server.connection)
    WAITING.running = WAITING.cancelled = 0
    try:
        async with asyncio.timeout(WAIT_S):
            where = listener.address
            client = Client(*await asyncio.open_connection(where.host, where.port))
            client.raw(frames.PREFACE)
            client.send(FrameKind.SETTINGS, 0, 0)
            yield server, client
            client.closed()
    finally:
        await server.stop(0)
        await listener.stop()


OK = {":status": "200", "content-type": "application/grpc", "grpc-status": "0"}


def is_ok(said: dict[str, str]) -> bool:
    return OK.items() <= said.items()


def test_calls_are_answered(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, client):
            client.call(1, "/echo", b"one")
            data, said = await client.answer(1)
            assert data == message(b"one")
            assert is_ok(said)
            client.call(3, "/none", b"x")
            assert (await client.answer(3))[1]["grpc-status"] == str(int(GrpcStatus.UNIMPLEMENTED))
            client.call(5, "/fault", b"x")
            assert (await client.answer(5))[1]["grpc-status"] == str(int(GrpcStatus.UNKNOWN))
            await until(lambda: not server.call_count)

    run(main())


def test_a_message_may_come_in_any_pieces(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, client):
            client.call(1, "/echo", None)
            for byte in message(b"slowly"):
                client.send(FrameKind.DATA, 0, 1, bytes([byte]))
            client.send(FrameKind.DATA, frames.END_STREAM, 1)
            assert (await client.answer(1))[0] == message(b"slowly")
            block = fields("/echo")
            client.send(FrameKind.HEADERS, 0, 3, block[:5])
            client.send(FrameKind.CONTINUATION, frames.END_HEADERS, 3, block[5:])
            padded = b"\x03" + message(b"padded") + bytes(3)
            client.send(FrameKind.DATA, frames.END_STREAM | frames.PADDED, 3, padded)
            assert (await client.answer(3))[0] == message(b"padded")

    run(main())


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_packed_messages_are_unpacked(run: Run, name: str, pack: Callable[[bytes], bytes]) -> None:
    async def main() -> None:
        async with serving() as (_, client):
            client.call(1, "/echo", None, grpc_encoding=name)
            data = message(pack(b"body" * 100), 1)
            client.send(FrameKind.DATA, frames.END_STREAM, 1, data)
            assert (await client.answer(1))[0] == message(b"body" * 100)
            client.call(3, "/echo", None, grpc_encoding=name)
            data = message(pack(bytes(LIMITS.request_bytes_max + 1)), 1)
            client.send(FrameKind.DATA, frames.END_STREAM, 3, data)
            said = (await client.answer(3))[1]
            assert said["grpc-status"] == str(int(GrpcStatus.RESOURCE_EXHAUSTED))

    run(main())


def test_a_stream_carries_messages_both_ways(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, client):
            client.call(1, "/talk", None)
            for said in (b"a", b"b"):
                client.send(FrameKind.DATA, 0, 1, message(said))
                while (frame := await client.next())[0] != FrameKind.DATA:
                    pass
                assert frame[3] == message(said)
            client.send(FrameKind.DATA, frames.END_STREAM, 1)
            assert (await client.answer(1))[1]["grpc-status"] == "0"

    run(main())


def test_no_more_is_sent_than_the_client_permits(run: Run) -> None:
    """Half a megabyte; a window of the connection is 65,535 bytes and is opened step by step."""

    async def main() -> None:
        async with serving() as (server, client):
            client.call(1, "/many")
            seen = permitted = 0
            while seen < 50 * 10_005:
                kind, _, _, payload = await client.next()
                if kind != FrameKind.DATA:
                    continue
                seen += len(payload)
                assert seen <= frames.WINDOW_BYTES + permitted
                if seen == frames.WINDOW_BYTES + permitted:
                    permitted += 100_000
                    more = (100_000).to_bytes(4, "big")
                    client.send(FrameKind.WINDOW_UPDATE, 0, 1, more)
                    client.send(FrameKind.WINDOW_UPDATE, 0, 0, more)
            assert (await client.answer(1))[1]["grpc-status"] == "0"
            await until(lambda: not server.call_count)

    run(main())


def test_a_call_that_is_given_up_is_cancelled(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, client):
            client.call(1, "/wait")
            await until(lambda: WAITING.running == 1)
            client.send(FrameKind.RST_STREAM, 0, 1, int(H2Error.CANCEL).to_bytes(4, "big"))
            await until(lambda: WAITING.cancelled == 1)
            client.call(3, "/wait", grpc_timeout="1m")
            said = (await client.answer(3))[1]
            assert said["grpc-status"] == str(int(GrpcStatus.DEADLINE_EXCEEDED))
            client.call(5, "/wait")
            await until(lambda: WAITING.running == 3)
            client.closed()
            await until(lambda: WAITING.cancelled == 3 and not server.call_count)

    run(main())


def test_calls_beyond_the_limits_are_refused_alone(run: Run) -> None:
    async def main() -> None:
        async with serving(calls_max=2) as (_, client):
            for stream_id in (1, 3, 5):
                client.call(stream_id, "/wait")
            assert await client.answer(5) == (b"", {"reset": str(int(H2Error.REFUSED_STREAM))})
            client.send(FrameKind.PING, 0, 0, b"12345678")
            while (frame := await client.next())[0] != FrameKind.PING:
                pass
            assert frame[1] == frames.ACK
            assert frame[3] == b"12345678"

    run(main())


def test_a_message_that_is_too_large_is_refused_before_it_came(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, client):
            client.call(1, "/echo", None)
            head = b"\x00" + (LIMITS.request_bytes_max + 1).to_bytes(4, "big")
            client.send(FrameKind.DATA, 0, 1, head)
            said = (await client.answer(1))[1]
            assert said["grpc-status"] == str(int(GrpcStatus.RESOURCE_EXHAUSTED))

    run(main())


FAULTS = {
    "no preface": (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", H2Error.PROTOCOL_ERROR),
    "a large frame": (frames.head(16_385, 0, 0, 1), H2Error.FRAME_SIZE_ERROR),
    "an even stream": (
        frames.head(1, FrameKind.HEADERS, LAST, 2) + b"\x82",
        H2Error.PROTOCOL_ERROR,
    ),
    "no header block": (
        frames.head(1, FrameKind.HEADERS, LAST, 1) + b"\x80",
        H2Error.COMPRESSION_ERROR,
    ),
    "a frame in a block": (
        frames.head(1, FrameKind.HEADERS, 0, 1) + b"\x82" + frames.PING_ACK + bytes(8),
        H2Error.PROTOCOL_ERROR,
    ),
    "a block without end": (
        frames.head(0, FrameKind.HEADERS, 0, 1)
        + (frames.head(1_500, FrameKind.CONTINUATION, 0, 1) + bytes(1_500)) * 2,
        H2Error.ENHANCE_YOUR_CALM,
    ),
    "data of nothing": (frames.head(0, FrameKind.DATA, 0, 1), H2Error.PROTOCOL_ERROR),
    "a short ping": (frames.head(1, FrameKind.PING, 0, 0) + b"x", H2Error.FRAME_SIZE_ERROR),
    "a window of nothing": (frames.window_update(0, 0), H2Error.FLOW_CONTROL_ERROR),
    "a window too large": (
        frames.settings({Setting.INITIAL_WINDOW_SIZE: 2**31}),
        H2Error.FLOW_CONTROL_ERROR,
    ),
    "a push": (frames.head(0, FrameKind.PUSH_PROMISE, 0, 1), H2Error.PROTOCOL_ERROR),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_connection_that_breaks_the_rules_is_told_and_closed(run: Run, name: str) -> None:
    async def main() -> None:
        data, error = FAULTS[name]
        server = GrpcServer({}, LIMITS, 10)
        listener = listen_mixed(HERE, tls=None, alpn="h2")
        listener.open(server.connection)
        where = listener.address
        async with asyncio.timeout(WAIT_S):
            client = Client(*await asyncio.open_connection(where.host, where.port))
            client.raw(data if name == "no preface" else frames.PREFACE + data)
            assert await client.farewell() == error
            await until(lambda: not listener.connection_count)
            client.closed()
        await server.stop(0)
        await listener.stop()

    run(main())


def test_who_gives_up_call_after_call_is_closed(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, client):
            for stream_id in range(1, 41, 2):
                client.call(stream_id, "/wait")
                client.send(FrameKind.RST_STREAM, 0, stream_id, bytes(4))
            assert await client.farewell() == H2Error.ENHANCE_YOUR_CALM
            await until(lambda: not server.call_count)

    run(main())


def test_a_stop_says_farewell_and_lets_calls_end(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, client):
            client.call(1, "/talk", None)
            client.send(FrameKind.DATA, 0, 1, message(b"a"))
            await until(lambda: server.call_count == 1)
            stopping = asyncio.ensure_future(server.stop(WAIT_S))
            assert await client.farewell() == H2Error.NO_ERROR
            client.call(3, "/echo", b"late")
            assert (await client.answer(3))[1] == {"reset": str(int(H2Error.REFUSED_STREAM))}
            client.send(FrameKind.DATA, frames.END_STREAM, 1)
            await stopping

    run(main())


def test_times_and_texts_of_grpc() -> None:
    assert timeout_s("30S") == 30.0
    assert timeout_s("1500m") == 1.5
    assert [timeout_s(text) for text in ("", "S", "1x", "-1S", "123456789S", "1.5S")] == [None] * 6
    block = status_fields(GrpcStatus.INTERNAL, "50% é\n" + "x" * 5_000, is_first=True)
    said = dict(HeaderReader(10_000).read(block))
    assert said["grpc-status"] == "13"
    assert said["grpc-message"].startswith("50%25 %C3%A9%0Ax")
