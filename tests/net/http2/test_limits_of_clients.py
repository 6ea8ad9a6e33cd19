"""What one client may take of a connection has limits; whoever passes one is told, alone, and what
was begun before goes on.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from flintmq.net.http2 import grpc_call, grpc_server, h2_connection
from flintmq.net.http2.grpc_server import GrpcServer
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.mixed_listener import listen_mixed
from flintmq.net.tls import ServerTls
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import GrpcStatus
from flintmq.protocol.http2.h2_frames import FrameKind, H2Error, Setting
from support.net.certificates import self_signed
from support.net.h2_client import (
    LARGE,
    LIMITS,
    begin,
    call,
    data,
    fields,
    frame,
    message,
    number,
    serving,
    text,
)
from support.net.support import HERE, Run, bare_client, until

pytestmark = pytest.mark.usefixtures("no_fault")

MIB = 1024 * 1024
WHOLE = frames.END_HEADERS | frames.END_STREAM
PING = frame(FrameKind.PING, 0, 0, b"12345678")
EXHAUSTED = str(int(GrpcStatus.RESOURCE_EXHAUSTED))


def kept(name: str, value: str) -> bytes:
    """A field that both ends remember."""
    return b"\x40" + text(name) + text(value)


def refer(index: int) -> bytes:
    return number(index, 7, 0x80)


@pytest.mark.parametrize("size", [LIMITS.metadata_bytes_max, 7 * LIMITS.metadata_bytes_max])
def test_too_much_metadata_ends_its_call_alone_and_is_remembered_in_order(
    run: Run, size: int
) -> None:
    """What came after the limit in the same block is in the table of both ends."""

    async def main() -> None:
        async with serving() as served, served.client() as client:
            large = b"\x00" + text("x-large") + text("v" * size)
            block = fields("/echo") + large + kept("grpc-encoding", "gzip") + kept("x-a", "b")
            parts = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
            await client.send(begin(1, "/talk") + data(1, message(b"before")))
            await client.send(frame(FrameKind.HEADERS, 0, 3, parts[0]))
            for part in parts[1:]:
                await client.send(frame(FrameKind.CONTINUATION, 0, 3, part))
            await client.send(frame(FrameKind.CONTINUATION, frames.END_HEADERS, 3))
            assert (await client.answer(3))[1]["grpc-status"] == EXHAUSTED

            encoded = fields("/echo") + refer(63)  # grpc-encoding: gzip
            await client.send(frame(FrameKind.HEADERS, frames.END_HEADERS, 5, encoded))
            await client.send(data(5, message(b"no gzip", 1), is_end=True))
            said = (await client.answer(5))[1]
            assert "unpacked" in said["grpc-message"]
            await client.send(data(1, b"", is_end=True))
            assert (await client.answer(1))[1]["grpc-status"] == "0"
            assert not served.server.partial.total_bytes

    run(main())


def test_the_limit_of_metadata_counts_as_http_2_has_it(run: Run) -> None:
    """Name, value and 32 bytes for each field, as SETTINGS_MAX_HEADER_LIST_SIZE is told."""

    async def main() -> None:
        async with serving() as served, served.client() as client:
            told = await client.until(FrameKind.SETTINGS)
            limit = dict(frames.SETTING.iter_unpack(told.payload))[Setting.MAX_HEADER_LIST_SIZE]
            every = {
                ":method": "POST",
                ":scheme": "http",
                ":path": "/echo",
                "content-type": "application/grpc",
            }
            used = sum(len(name) + len(value) + 32 for name, value in every.items()) + 33
            await client.send(call(1, "/echo", b"x", {"x": "v" * (limit - used)}))
            assert (await client.answer(1))[0] == message(b"x")
            await client.send(call(3, "/echo", b"x", {"x": "v" * (limit - used + 1)}))
            assert (await client.answer(3))[1]["grpc-status"] == EXHAUSTED

    run(main())


def test_trailers_that_are_too_large_end_their_call_alone(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/echo") + data(1, message(b"x")))
            large = b"\x00" + text("x") + text("v" * 3_000)
            await client.send(frame(FrameKind.HEADERS, WHOLE, 1, large))
            assert (await client.answer(1))[1]["grpc-status"] == EXHAUSTED
            await client.send(call(3, "/echo", b"next"))
            assert (await client.answer(3))[0] == message(b"next")

    run(main())


@pytest.mark.parametrize(
    "said",
    [
        {"Upper": "x"},
        {"x": "a\r\nb"},
        {"x": "a\0b"},
        {"x y": "z"},
        {"\xe9": "z"},
        {"connection": "close"},
        {"transfer-encoding": "chunked"},
    ],
)
def test_fields_that_http_2_forbids_reset_their_call(run: Run, said: dict[str, str]) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(1, "/echo", b"x", said))
            assert (await client.answer(1))[1] == {"reset": str(int(H2Error.PROTOCOL_ERROR))}
            await client.send(frame(FrameKind.HEADERS, WHOLE, 3, fields("/echo")[14:]))
            assert (await client.answer(3))[1] == {"reset": str(int(H2Error.PROTOCOL_ERROR))}
            await client.send(call(5, "/echo", b"next"))
            assert (await client.answer(5))[0] == message(b"next")
            assert served.server.call_count <= 1

    run(main())


def test_data_after_the_end_of_a_request_resets_its_call(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(1, "/wait"))
            await until(lambda: served.waiting.running)
            await client.send(data(1, b"more"))
            assert (await client.answer(1))[1] == {"reset": str(int(H2Error.STREAM_CLOSED))}
            await until(lambda: served.waiting.cancelled)

    run(main())


EMPTY = {
    "pings": PING,
    "empty data": data(1, b""),
    "padding": frame(FrameKind.DATA, frames.PADDED, 1, b"\x01\0"),
    "permissions": frames.window_update(0, 1),
    "orders": frame(FrameKind.PRIORITY, 0, 1, bytes(5)),
    "what nobody knows": frame(77, 0, 1),
}


@pytest.mark.parametrize("name", EMPTY)
def test_frames_that_carry_nothing_have_a_limit_a_second(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(h2_connection, "EMPTY_FRAMES_MAX", 1_000)
    monkeypatch.setattr(grpc_server, "LOOK_S", 1_000.0)

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/talk") + EMPTY[name] * 900)
            await client.heard()
            (connection,) = served.server._connections
            connection.look(connection._heard_s)  # the next second
            await client.send(EMPTY[name] * 900)
            await client.heard()
            await client.send(EMPTY[name] * 900)
            assert await client.farewell() == H2Error.ENHANCE_YOUR_CALM
            await served.check()

    run(main())


def test_a_flood_leaves_turns_to_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came in one read is served over several turns, in its order."""
    monkeypatch.setattr(h2_connection, "TURN_S", 0.0)
    turns = 0
    go_on = h2_connection.H2Connection._go_on

    def counted(self: h2_connection.H2Connection) -> None:
        nonlocal turns
        turns += 1
        go_on(self)

    monkeypatch.setattr(h2_connection.H2Connection, "_go_on", counted)

    async def main() -> None:
        async with serving(LARGE) as served, served.client() as client:
            said = [bytes([each]) for each in range(200)]
            sent = b"".join(data(1, message(each)) for each in said)
            await client.send(begin(1, "/talk") + sent + data(1, b"", is_end=True))
            assert (await client.answer(1))[0] == b"".join(map(message, said))
            assert turns > 200 // h2_connection.TURN_FRAMES
            await client.send(call(3, "/echo", b"next"))
            assert (await client.answer(3))[0] == message(b"next")

    run(main())


def test_one_address_does_not_take_all_calls(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "ADDRESS_CALLS_MIN", 2)

    async def main() -> None:
        refused = {"reset": str(int(H2Error.REFUSED_STREAM))}
        async with serving(calls_max=4) as served, served.client() as client:
            await client.send(b"".join(call(each, "/wait") for each in (1, 3, 5)))
            assert (await client.answer(5))[1] == refused
            async with served.client(source="127.0.0.2") as other:
                await other.send(call(1, "/echo", b"x"))
                assert (await other.answer(1))[0] == message(b"x")
            await client.send(frames.reset(1, H2Error.CANCEL) + call(7, "/echo", b"x"))
            assert (await client.answer(7))[0] == message(b"x")

    run(main())


def test_answers_that_are_not_taken_end_their_call(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow reader of a stream keeps neither its call nor what waits for it."""
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(grpc_call, "SILENT_LOOKS_MAX", 3)

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 10}))
            await client.send(call(1, "/many"))
            status = (await client.answer(1))[1]["grpc-status"]
            assert status == str(int(GrpcStatus.DEADLINE_EXCEEDED))
            assert not served.server.call_count
            await client.send(call(3, "/echo", b"x"))
            assert (await client.answer(3))[0] == message(b"x")

    run(main())


def test_what_clients_leave_unread_has_a_limit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all of them the one that left the most is cut."""
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(grpc_call, "SILENT_LOOKS_MAX", 10**6)

    async def main() -> None:
        async with serving(LARGE) as served, served.client() as few, served.client() as many:
            served.server.unread._all_max = 100_000
            for client, count in ((few, 2), (many, 9)):
                await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
                for each in range(count):
                    with suppress(ConnectionError):
                        await client.send(call(2 * each + 1, "/many"))
            assert await many.peer.closed()
            await few.heard()
            await until(lambda: served.server.unread.total_bytes == 2 * 10_005)
            await few.send(frames.reset(1, H2Error.CANCEL) + frames.reset(3, H2Error.CANCEL))
            await served.check()

    run(main())


def test_who_reads_nothing_is_cut_after_its_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(h2_connection, "STALLED_S", 0.05)

    async def main() -> None:
        async with serving(LARGE) as served, served.client(receive_bytes=4_096) as client:
            await client.send(frames.settings({Setting.INITIAL_WINDOW_SIZE: 2**31 - 1}))
            await client.send(frames.window_update(0, 2**31 - 1 - frames.WINDOW_BYTES))
            for each in range(1, 101, 2):
                with suppress(ConnectionError):
                    await client.send(call(each, "/many"))
            await until(lambda: not served.listener.connection_count)
            assert not served.server.call_count
            await served.check()

    run(main())


def test_who_has_gone_without_a_word_is_asked_and_forgotten(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream may be silent for ever, as long as its client answers a ping."""
    monkeypatch.setattr(grpc_server, "LOOK_S", 0.01)
    monkeypatch.setattr(h2_connection, "SILENT_S", 0.05)
    monkeypatch.setattr(h2_connection, "LOST_S", 0.5)

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/deaf"))
            for _ in range(3):
                seen = await client.until(FrameKind.PING)
                assert seen.flags == 0
                await client.send(frames.PING_ACK + seen.payload)
            assert served.server.call_count == 1
            await until(lambda: not served.listener.connection_count)
            assert served.waiting.cancelled == 1

    run(main())


def test_connections_that_are_not_admitted_leave_nothing(run: Run, tmp_path: Path) -> None:
    """Handshakes that fail, or do not come, are forgotten by listener and server."""

    async def main() -> None:
        tls = ServerTls(certificate_file=self_signed(tmp_path, "server"))
        server = GrpcServer({}, LIMITS, 10)
        listener = listen_mixed(HERE, tls=tls, alpn="h2", limits=ServerLimits(handshake_ms=300))
        listener.open(server.connection)
        strict = ssl.create_default_context()
        where = listener.address
        for _ in range(5):
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection(where.host, where.port, ssl=strict)
            async with bare_client(where) as peer:
                await peer.send(b"\x16\x03\x01 no handshake")
                assert await peer.closed()
        await until(lambda: not listener.connection_count)
        assert not server._connections
        await server.stop(0)
        await listener.stop()

    run(main())
