"""A connection serves calls within its windows and limits, and ends for what is no HTTP/2."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable

import pytest

from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import GrpcStatus, status_fields, timeout_s
from flintmq.protocol.http2.h2_frames import FrameKind, H2Error, Setting
from flintmq.protocol.http2.hpack import HeaderReader
from support.net.h2_client import (
    LIMITS,
    H2Client,
    begin,
    call,
    data,
    fields,
    frame,
    message,
    serving,
)
from support.net.support import PATIENCE_S, Run, bare_client, until

LAST = frames.END_HEADERS | frames.END_STREAM
OK = {":status": "200", "content-type": "application/grpc", "grpc-status": "0"}


def code(status: GrpcStatus) -> str:
    return str(int(status))


def test_calls_are_answered(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(1, "/echo", b"one"))
            came, said = await client.answer(1)
            assert came == message(b"one")
            assert OK.items() <= said.items()
            await client.send(call(3, "/none", b"x"))
            assert (await client.answer(3))[1]["grpc-status"] == code(GrpcStatus.UNIMPLEMENTED)
            await client.send(call(5, "/fault", b"x"))
            assert (await client.answer(5))[1]["grpc-status"] == code(GrpcStatus.UNKNOWN)
            await until(lambda: not served.server.call_count)

    run(main())


def test_a_message_may_come_in_any_pieces(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/echo"))
            await client.send(b"".join(data(1, bytes([byte])) for byte in message(b"slowly")))
            await client.send(data(1, b"", is_end=True))
            assert (await client.answer(1))[0] == message(b"slowly")
            block = fields("/echo")
            await client.send(frame(FrameKind.HEADERS, 0, 3, block[:5]))
            await client.send(frame(FrameKind.CONTINUATION, frames.END_HEADERS, 3, block[5:]))
            padded = b"\x03" + message(b"padded") + bytes(3)
            await client.send(frame(FrameKind.DATA, frames.END_STREAM | frames.PADDED, 3, padded))
            assert (await client.answer(3))[0] == message(b"padded")

    run(main())


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_packed_messages_are_unpacked(run: Run, name: str, pack: Callable[[bytes], bytes]) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            said = {"grpc-encoding": name}
            packed = message(pack(b"body" * 100), 1)
            await client.send(begin(1, "/echo", said) + data(1, packed, is_end=True))
            assert (await client.answer(1))[0] == message(b"body" * 100)
            packed = message(pack(bytes(LIMITS.request_bytes_max + 1)), 1)
            await client.send(begin(3, "/echo", said) + data(3, packed, is_end=True))
            status = (await client.answer(3))[1]["grpc-status"]
            assert status == code(GrpcStatus.RESOURCE_EXHAUSTED)

    run(main())


def test_a_stream_carries_messages_both_ways(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/talk"))
            for said in (b"a", b"b"):
                await client.send(data(1, message(said)))
                assert (await client.until(FrameKind.DATA)).payload == message(said)
            await client.send(data(1, b"", is_end=True))
            assert (await client.answer(1))[1]["grpc-status"] == "0"

    run(main())


def test_a_stream_is_read_while_its_answers_wait(run: Run) -> None:
    """One task reads and another one sends: neither may take the other's place."""

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
            await client.send(begin(1, "/both") + data(1, message(b"first")))
            await until(lambda: served.both.heard == [b"first"])
            await client.heard()  # its reader waits again, and its first answer for a window
            await client.send(data(1, message(b"second")))
            await until(lambda: served.both.heard == [b"first", b"second"])
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 1_000}))
            await client.send(data(1, message(b"third"), is_end=True))
            came, said = await client.answer(1)
            assert came == b"".join(map(message, (b"hello", b"first", b"second", b"third")))
            assert said["grpc-status"] == "0"

    run(main())


def test_no_more_is_sent_than_the_client_permits(run: Run) -> None:
    """Half a megabyte; a window of the connection is 65,535 bytes and is opened step by step."""

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(1, "/many"))
            seen = permitted = 0
            while seen < 50 * 10_005:
                seen += len((await client.until(FrameKind.DATA)).payload)
                assert seen <= frames.WINDOW_BYTES + permitted
                if seen == frames.WINDOW_BYTES + permitted:
                    permitted += 100_000
                    more = frames.window_update(1, 100_000) + frames.window_update(0, 100_000)
                    await client.send(more)
            assert (await client.answer(1))[1]["grpc-status"] == "0"
            await until(lambda: not served.server.call_count)

    run(main())


def test_a_call_that_is_given_up_is_cancelled(run: Run) -> None:
    async def main() -> None:
        async with serving() as served:
            waiting = served.waiting
            async with served.client() as client:
                await client.send(call(1, "/wait"))
                await until(lambda: waiting.running == 1)
                await client.send(frames.reset(1, H2Error.CANCEL))
                await until(lambda: waiting.cancelled == 1)
                await client.send(call(3, "/wait", b"", {"grpc-timeout": "1m"}))
                status = (await client.answer(3))[1]["grpc-status"]
                assert status == code(GrpcStatus.DEADLINE_EXCEEDED)
                await client.send(call(5, "/wait"))
                await until(lambda: waiting.running == 3)
            await until(lambda: waiting.cancelled == 3 and not served.server.call_count)

    run(main())


def test_calls_beyond_the_limits_are_refused_alone(run: Run) -> None:
    async def main() -> None:
        async with serving(calls_max=2) as served, served.client() as client:
            await client.send(b"".join(call(stream_id, "/wait") for stream_id in (1, 3, 5)))
            assert await client.answer(5) == (b"", {"reset": str(int(H2Error.REFUSED_STREAM))})
            await client.send(frame(FrameKind.PING, 0, 0, b"12345678"))
            seen = await client.until(FrameKind.PING)
            assert seen.flags == frames.ACK
            assert seen.payload == b"12345678"

    run(main())


def test_a_message_that_is_too_large_is_refused_before_it_came(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            head = b"\x00" + (LIMITS.request_bytes_max + 1).to_bytes(4, "big")
            await client.send(begin(1, "/echo") + data(1, head))
            status = (await client.answer(1))[1]["grpc-status"]
            assert status == code(GrpcStatus.RESOURCE_EXHAUSTED)

    run(main())


FAULTS = {
    "no preface": (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", H2Error.PROTOCOL_ERROR),
    "no settings": (
        frames.PREFACE + frame(FrameKind.PING, 0, 0, bytes(8)),
        H2Error.PROTOCOL_ERROR,
    ),
    "settings that confirm nothing": (
        frames.PREFACE + frames.SETTINGS_ACK,
        H2Error.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_begins_as_no_http_2_is_told_and_closed(run: Run, name: str) -> None:
    async def main() -> None:
        sent, error = FAULTS[name]
        async with serving() as served, bare_client(served.listener.address) as peer:
            await peer.send(sent)
            assert await H2Client(peer).farewell() == error
            await until(lambda: not served.listener.connection_count)

    run(main())


def test_a_stop_says_farewell_and_lets_calls_end(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/talk") + data(1, message(b"a")))
            await until(lambda: served.server.call_count == 1)
            stopping = asyncio.ensure_future(served.server.stop(PATIENCE_S))
            assert await client.farewell() == H2Error.NO_ERROR
            await client.send(call(3, "/echo", b"late"))
            assert (await client.answer(3))[1] == {"reset": str(int(H2Error.REFUSED_STREAM))}
            await client.send(data(1, b"", is_end=True))
            assert (await client.answer(1))[1]["grpc-status"] == "0"
            await stopping

    run(main())


def test_a_stop_tells_calls_that_do_not_end(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(1, "/wait") + begin(3, "/deaf"))
            await until(lambda: served.waiting.running == 2)
            stopping = asyncio.ensure_future(served.server.stop(0.01))
            for stream_id in (1, 3):
                status = (await client.answer(stream_id))[1]["grpc-status"]
                assert status == code(GrpcStatus.UNAVAILABLE)
            assert await client.farewell() == H2Error.NO_ERROR
            assert await client.peer.closed()
            await stopping
            assert served.waiting.cancelled == 2

    run(main())


def test_times_and_texts_of_grpc() -> None:
    assert timeout_s("30S") == 30.0
    assert timeout_s("1500m") == 1.5
    assert [timeout_s(text) for text in ("", "S", "1x", "-1S", "123456789S", "1.5S")] == [None] * 6
    block = status_fields(GrpcStatus.INTERNAL, "50% é\n" + "x" * 5_000, is_first=True)
    said = dict(HeaderReader(10_000).read(block))
    assert said["grpc-status"] == "13"
    assert said["grpc-message"].startswith("50%25 %C3%A9%0Ax")
