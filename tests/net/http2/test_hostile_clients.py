"""Whatever a client sends, its connection holds little and ends in order, others are served, and
nothing is logged as a fault of ours.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from random import Random

import pytest

from flintmq.net.http2 import grpc_call, grpc_server, h2_connection
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import GrpcStatus
from flintmq.protocol.http2.h2_frames import FrameKind, H2Error, Setting
from support.fuzz.bending import bent
from support.net.h2_client import (
    LARGE,
    begin,
    call,
    data,
    fields,
    frame,
    message,
    serving,
)
from support.net.support import Run, bare_client, until

pytestmark = pytest.mark.usefixtures("no_fault")

MIB = 1024 * 1024
WHOLE = frames.END_HEADERS | frames.END_STREAM
PING = frame(FrameKind.PING, 0, 0, b"12345678")
RST = int(H2Error.CANCEL).to_bytes(4, "big")


FAULTS = {
    "settings of a stream": (frame(FrameKind.SETTINGS, 0, 1), H2Error.PROTOCOL_ERROR),
    "a ping of a stream": (frame(FrameKind.PING, 0, 1, bytes(8)), H2Error.PROTOCOL_ERROR),
    "a farewell of a stream": (frame(FrameKind.GOAWAY, 0, 1, bytes(8)), H2Error.PROTOCOL_ERROR),
    "a reset of no stream": (frame(FrameKind.RST_STREAM, 0, 0, RST), H2Error.PROTOCOL_ERROR),
    "a long reset": (frame(FrameKind.RST_STREAM, 0, 1, bytes(5)), H2Error.FRAME_SIZE_ERROR),
    "half a setting": (frame(FrameKind.SETTINGS, 0, 0, bytes(5)), H2Error.FRAME_SIZE_ERROR),
    "a short permission": (frame(FrameKind.WINDOW_UPDATE, 0, 0, b"1"), H2Error.FRAME_SIZE_ERROR),
    "a permission too large": (frames.window_update(0, 2**31 - 1), H2Error.FLOW_CONTROL_ERROR),
    "headers of no stream": (
        frame(FrameKind.HEADERS, WHOLE, 0, fields("/echo")),
        H2Error.PROTOCOL_ERROR,
    ),
    "data of no stream": (frame(FrameKind.DATA, 0, 0, b"x"), H2Error.PROTOCOL_ERROR),
    "half a priority": (
        frame(FrameKind.HEADERS, WHOLE | frames.PRIORITY, 1, b"1234"),
        H2Error.FRAME_SIZE_ERROR,
    ),
    "padding longer than its frame": (
        frame(FrameKind.HEADERS, WHOLE | frames.PADDED, 1, b"\x05abc"),
        H2Error.PROTOCOL_ERROR,
    ),
    "a padded frame of nothing": (
        frame(FrameKind.HEADERS, WHOLE | frames.PADDED, 1),
        H2Error.PROTOCOL_ERROR,
    ),
    "a block of nobody": (frame(FrameKind.CONTINUATION, 0, 1), H2Error.PROTOCOL_ERROR),
    "a block of another": (
        frame(FrameKind.HEADERS, 0, 1) + frame(FrameKind.CONTINUATION, 4, 3),
        H2Error.PROTOCOL_ERROR,
    ),
    "a large frame": (frames.head(16_385, 0, 0, 1), H2Error.FRAME_SIZE_ERROR),
    "an even stream": (frame(FrameKind.HEADERS, WHOLE, 2, b"\x82"), H2Error.PROTOCOL_ERROR),
    "no header block": (frame(FrameKind.HEADERS, WHOLE, 1, b"\x80"), H2Error.COMPRESSION_ERROR),
    "a frame in a block": (
        frame(FrameKind.HEADERS, 0, 1, b"\x82") + PING,
        H2Error.PROTOCOL_ERROR,
    ),
    "data of nothing": (frame(FrameKind.DATA, 0, 1), H2Error.PROTOCOL_ERROR),
    "a short ping": (frame(FrameKind.PING, 0, 0, b"x"), H2Error.FRAME_SIZE_ERROR),
    "a permission of nothing": (frames.window_update(0, 0), H2Error.PROTOCOL_ERROR),
    "a permission for nobody": (frames.window_update(7, 1), H2Error.PROTOCOL_ERROR),
    "a reset of nobody": (frame(FrameKind.RST_STREAM, 0, 7, RST), H2Error.PROTOCOL_ERROR),
    "a window too large": (
        frames.settings({Setting.INITIAL_WINDOW_SIZE: 2**31}),
        H2Error.FLOW_CONTROL_ERROR,
    ),
    "windows that grow too large": (
        call(1, "/wait")
        + frames.window_update(1, 2**31 - 1 - frames.WINDOW_BYTES)
        + frames.settings({Setting.INITIAL_WINDOW_SIZE: frames.WINDOW_BYTES + 1}),
        H2Error.FLOW_CONTROL_ERROR,
    ),
    "small frames": (frames.settings({Setting.MAX_FRAME_SIZE: 100}), H2Error.PROTOCOL_ERROR),
    "half a push": (frames.settings({Setting.ENABLE_PUSH: 2}), H2Error.PROTOCOL_ERROR),
    "settings that confirm and say more": (
        frame(FrameKind.SETTINGS, frames.ACK, 0, bytes(6)),
        H2Error.FRAME_SIZE_ERROR,
    ),
    "half a farewell": (frame(FrameKind.GOAWAY, 0, 0, bytes(4)), H2Error.FRAME_SIZE_ERROR),
    "a long order": (frame(FrameKind.PRIORITY, 0, 1, bytes(6)), H2Error.FRAME_SIZE_ERROR),
    "a push": (frame(FrameKind.PUSH_PROMISE, 0, 1), H2Error.PROTOCOL_ERROR),
    "a bomb of fields": (
        frame(FrameKind.HEADERS, WHOLE, 1, b"\x40\x01x\x78" + b"v" * 120 + b"\xbe" * 9_000),
        H2Error.ENHANCE_YOUR_CALM,
    ),
    "blocks that are too large, again and again": (
        b"".join(begin(each, "/echo", {"x": "v" * 2_000}) for each in range(1, 301, 2)),
        H2Error.ENHANCE_YOUR_CALM,
    ),
    "a flood of settings": (
        frames.settings({Setting.INITIAL_WINDOW_SIZE: 5}) * 100,
        H2Error.ENHANCE_YOUR_CALM,
    ),
    "calls that are given up": (
        b"".join(
            begin(stream_id, "/echo") + frame(FrameKind.RST_STREAM, 0, stream_id, RST)
            for stream_id in range(1, 101, 2)
        ),
        H2Error.ENHANCE_YOUR_CALM,
    ),
    "calls that we are made to give up": (
        b"".join(
            call(stream_id, "/wait") + frames.window_update(stream_id, 0)
            for stream_id in range(1, 101, 2)
        ),
        H2Error.ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_connection_that_breaks_the_rules_ends_alone(run: Run, name: str) -> None:
    async def main() -> None:
        sent, error = FAULTS[name]
        async with serving() as served, served.client() as client:
            await client.send(sent)
            assert await client.farewell() == error
            assert await client.peer.closed()
            await until(lambda: not served.server.call_count)
            await served.check()

    run(main())


@pytest.mark.parametrize("size", [0, 1, 200])
def test_a_header_block_without_end_ends_the_connection(
    run: Run, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """By its size, or, where little comes in its frames, by their number."""
    monkeypatch.setattr(h2_connection, "BLOCK_FRAMES_MAX", 10_000 if size == 200 else 64)

    async def main() -> None:
        async with serving() as served, served.client() as client:
            more = frame(FrameKind.CONTINUATION, 0, 1, bytes(size))
            await client.send(frame(FrameKind.HEADERS, 0, 1))
            try:
                while served.listener.connection_count:
                    await client.send(more * 100)
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            await until(lambda: not served.listener.connection_count)
            await served.check()

    run(main())


BEGUN = frames.PREFACE + frames.settings({})


@pytest.mark.parametrize("sent", [b"", frames.PREFACE[:10], frames.PREFACE, BEGUN, BEGUN + PING])
def test_who_makes_no_call_is_closed_after_its_time(
    run: Run, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(h2_connection, "IDLE_S", 0.05)
    monkeypatch.setattr(h2_connection, "BEGIN_S", 0.05)

    async def main() -> None:
        async with serving() as served, bare_client(served.listener.address) as peer:
            await peer.send(sent)
            assert await peer.closed()
            await until(lambda: not served.listener.connection_count)

    run(main())


def test_a_call_whose_message_does_not_come_is_given_up(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else calls that say nothing would take the room of all others.  Streams may be silent."""
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(grpc_call, "SILENT_LOOKS_MAX", 3)

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/talk") + begin(3, "/echo") + data(3, b"\0\0"))
            status = (await client.answer(3))[1]["grpc-status"]
            assert status == str(int(GrpcStatus.DEADLINE_EXCEEDED))
            assert served.server.call_count == 1
            await client.send(data(1, message(b"late"), is_end=True))
            assert (await client.answer(1))[0] == message(b"late")

    run(main())


FLOODS = {
    "pings": PING,
    "settings": frames.settings({}),
    "refused calls": b"",
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_client_that_never_reads_is_no_longer_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(h2_connection, "EMPTY_FRAMES_MAX", 10**9)

    async def main() -> None:
        limits = LARGE._replace(streams_max=1_000_000)
        async with (
            serving(limits, calls_max=10_000) as served,
            served.client(receive_bytes=4_096) as client,
        ):
            tracemalloc.start()
            try:
                sent_bytes, stream_id = 0, 1
                while sent_bytes < 64 * MIB:
                    part = FLOODS[name] * 5_000
                    if not part:
                        ids = range(stream_id, stream_id + 1_000, 2)
                        part = b"".join(call(each, "/none") for each in ids)
                        stream_id += 1_000
                    sending = asyncio.ensure_future(client.send(part))
                    done, _ = await asyncio.wait([sending], timeout=1.0)
                    if not done:
                        sending.cancel()
                        await asyncio.wait([sending])
                        break
                    sent_bytes += len(part)
                _, peak_bytes = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert sent_bytes < 64 * MIB, "it is read without end"
            assert peak_bytes < 32 * MIB
            await served.check()

    run(main())


def test_many_tiny_frames_and_permissions_are_served(run: Run) -> None:
    async def main() -> None:
        async with serving(LARGE) as served, served.client() as client:
            await client.send(begin(1, "/echo"))
            await client.send(b"".join(data(1, bytes([b])) for b in message(bytes(5_000))))
            await client.send(data(1, b"") * 10_000 + frame(FrameKind.PRIORITY, 0, 3, bytes(5)))
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
            await client.send(data(1, b"", is_end=True))
            await client.heard()
            await client.send(frames.window_update(1, 1) * 6_000)
            assert (await client.answer(1))[0] == message(bytes(5_000))
            await client.send(frames.window_update(1, 1))
            await client.send(frame(77, 255, 5, b"unknown") + frame(77, 0, 0))
            await client.heard()

    run(main())


def test_permissions_that_come_together_are_used_together(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame of 13 bytes must not have the server look at a thousand calls that wait."""

    async def main() -> None:
        async with serving(LARGE) as served, served.client() as client:
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
            ids = range(1, 401, 2)
            await client.send(b"".join(call(each, "/echo", bytes(100)) for each in ids))
            await client.heard()
            (connection,) = served.server._connections
            await until(lambda: len(connection.calls.blocked) == 200)
            tried = 0
            pump = grpc_call.GrpcCall.pump

            def counted(self: grpc_call.GrpcCall) -> bool:
                nonlocal tried
                tried += 1
                return pump(self)

            monkeypatch.setattr(grpc_call.GrpcCall, "pump", counted)
            await client.send(frames.window_update(0, 1) * 5_000)
            await client.heard()
            assert tried < 200 * 500
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 1_000}))
            assert (await client.answer(ids[-1]))[0] == message(bytes(100))

    run(main())


def test_trailers_end_a_call_and_what_is_none_resets_it(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/echo") + data(1, message(b"x")))
            await client.send(frame(FrameKind.HEADERS, WHOLE, 1, b"\x00\x01a\x01b"))
            assert (await client.answer(1))[0] == message(b"x")
            await client.send(begin(3, "/echo") + data(3, message(b"x")) + begin(3, "/echo"))
            assert (await client.answer(3))[1] == {"reset": str(int(H2Error.PROTOCOL_ERROR))}
            await client.send(call(5, "/wait") + begin(5, "/echo"))
            assert (await client.answer(5))[1] == {"reset": str(int(H2Error.PROTOCOL_ERROR))}
            await until(lambda: not served.server.call_count)

    run(main())


def test_the_number_of_a_call_that_is_over_begins_no_other(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(5, "/echo", b"x"))
            assert (await client.answer(5))[0] == message(b"x")
            await client.send(call(5, "/wait") + call(3, "/wait") + data(1, b"x"))
            await client.heard()
            assert not served.server.call_count
            assert not served.waiting.running

    run(main())


@pytest.mark.parametrize(
    ("said", "body", "status"),
    [
        ({"content-type": "text/plain"}, message(b"x"), GrpcStatus.INTERNAL),
        ({":method": "GET"}, message(b"x"), GrpcStatus.INTERNAL),
        ({}, b"", GrpcStatus.INTERNAL),
        ({}, message(b"x") * 2, GrpcStatus.INTERNAL),
        ({}, message(b"x")[:-1], GrpcStatus.INTERNAL),
        ({}, message(b"x", 2), GrpcStatus.INTERNAL),
        ({}, message(b"x", 1), GrpcStatus.INTERNAL),
        ({"grpc-encoding": "gzip"}, message(b"x", 1), GrpcStatus.INTERNAL),
        ({"grpc-encoding": "b\xe9"}, message(b"x", 1), GrpcStatus.INTERNAL),
    ],
)
def test_a_call_that_cannot_be_read_is_answered_alone(
    run: Run, said: dict[str, str], body: bytes, status: GrpcStatus
) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/echo", said) + data(1, body, is_end=True))
            assert (await client.answer(1))[1]["grpc-status"] == str(int(status))
            await client.send(call(3, "/echo", b"next"))
            assert (await client.answer(3))[0] == message(b"next")

    run(main())


CORPUS = [
    call(1, "/echo", b"hello"),
    call(3, "/many", b"", {"grpc-timeout": "1S"}),
    begin(5, "/talk") + data(5, message(b"x")) + data(5, b"", is_end=True),
    begin(7, "/echo") + frame(FrameKind.RST_STREAM, 0, 7, RST),
    frame(FrameKind.HEADERS, 0, 9, fields("/echo")[:9])
    + frame(FrameKind.CONTINUATION, frames.END_HEADERS, 9, fields("/echo")[9:])
    + frame(
        FrameKind.DATA, frames.PADDED | frames.END_STREAM, 9, b"\x02" + message(b"y") + b"\0\0"
    ),
    frames.settings({Setting.INITIAL_WINDOW_SIZE: 10}) + frames.window_update(0, 1_000),
    PING
    + frames.window_update(3, 5)
    + frames.SETTINGS_ACK
    + frame(FrameKind.GOAWAY, 0, 0, bytes(8)),
    begin(11, "/echo", {"grpc-encoding": "gzip"}) + data(11, message(b"\x1f\x8b", 1), is_end=True),
]


def test_bent_bytes_never_bring_a_fault(run: Run) -> None:
    """What is between two connections is served too, and nothing is left of any of them."""

    async def main() -> None:
        chance = Random("http2")
        async with serving() as served:
            for number in range(300):
                sent = b"".join(bent(CORPUS, chance) for _ in range(chance.randrange(1, 5)))
                async with served.client() as client:
                    try:
                        await client.send(sent)
                    except ConnectionError:
                        continue
                if not number % 50:
                    await served.check()
            await until(lambda: not served.listener.connection_count)
            assert not served.server.call_count
            await served.check()

    run(main())
