"""Neither end sends more than the other permits, whatever the sizes, and what is held is counted
until it is given back.
"""

from __future__ import annotations

import pytest

from flintmq.net.http2.grpc_call import STREAM_WINDOW_BYTES
from flintmq.net.http2.h2_wire import CONNECTION_WINDOW_BYTES
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import GrpcStatus
from flintmq.protocol.http2.h2_frames import FrameKind, H2Error, Setting
from support.net.h2_client import LARGE, LIMITS, begin, call, data, frame, message, serving
from support.net.support import Run, until

MIB = 1024 * 1024
CALL = 1_024
"""What a message that waits counts beside its bytes."""


def window(size: int) -> bytes:
    return frames.settings({Setting.INITIAL_WINDOW_SIZE: size})


@pytest.mark.parametrize("step", [700, 16_384, 60_000])
def test_an_answer_larger_than_the_windows_comes_as_they_open(run: Run, step: int) -> None:
    async def main() -> None:
        body = bytes(range(256)) * 800
        async with serving(LARGE) as served, served.client() as client:
            await client.send(window(step) + call(1, "/echo", body))
            came, permitted = b"", step
            while len(came) < len(body) + 5:
                seen = await client.until(FrameKind.DATA)
                came += seen.payload
                assert len(came) <= permitted
                if len(came) == permitted:
                    permitted += step
                    more = frames.window_update(1, step) + frames.window_update(0, step)
                    await client.send(more)
            assert came == message(body)
            assert (await client.answer(1))[1]["grpc-status"] == "0"
            await until(lambda: not served.server.call_count)

    run(main())


def test_a_window_that_shrinks_below_nothing_stops_a_stream_until_it_is_opened(run: Run) -> None:
    async def main() -> None:
        body = bytes(60_000)
        async with serving() as served, served.client() as client:
            await client.send(window(20_000) + call(1, "/echo", body))
            seen = 0
            while seen < 20_000:
                seen += len((await client.until(FrameKind.DATA)).payload)

            await client.send(window(0))  # now it is at -20,000
            await client.send(frames.window_update(1, 20_000))
            await client.heard()  # without a byte of data
            await client.send(frames.window_update(1, 5))
            assert len((await client.until(FrameKind.DATA)).payload) == 5
            await client.send(window(60_000))
            came, said = await client.answer(1)
            assert len(came) == len(body) + 5 - 20_000 - 5
            assert said["grpc-status"] == "0"

    run(main())


def test_a_change_of_windows_holds_for_calls_that_come_later(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(window(3) + window(7) + call(1, "/echo", b"0123456789"))
            assert len((await client.until(FrameKind.DATA)).payload) == 7
            await client.send(window(8))
            assert len((await client.until(FrameKind.DATA)).payload) == 1
            await client.send(frames.window_update(1, 100))
            assert (await client.answer(1))[0] == b"3456789"

    run(main())


def test_one_call_without_a_window_does_not_stop_others(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(window(0) + call(1, "/echo", b"first") + call(3, "/many"))
            await client.heard()
            await client.send(window(50) + frames.window_update(1, 100))
            assert (await client.answer(1))[0] == message(b"first")
            await client.send(frame(FrameKind.RST_STREAM, 0, 3, bytes(4)))
            await until(lambda: not served.server.call_count)

    run(main())


def test_large_messages_are_permitted_as_they_come(run: Run) -> None:
    """A client that keeps to the windows never waits for ever, padding or not."""

    async def main() -> None:
        body = bytes(3 * MIB)
        async with serving(LARGE) as served, served.client() as client:
            await client.send(begin(1, "/talk"))
            await client.until(FrameKind.SETTINGS)
            rest, sent = message(body), 0
            while rest:
                part, rest = rest[:1_000], rest[1_000:]
                padded = b"\xff" + part + bytes(255)
                if sent + len(padded) > STREAM_WINDOW_BYTES + client.window_told.get(1, 0):
                    await client.until(FrameKind.WINDOW_UPDATE)
                await client.send(frame(FrameKind.DATA, frames.PADDED, 1, padded))
                sent += len(padded)
            await client.send(window(2**31 - 1) + frames.window_update(0, 8 * MIB))
            await client.send(data(1, b"", is_end=True))
            assert (await client.answer(1))[0] == message(body)

    run(main())


def test_who_sends_more_than_a_method_takes_is_refused_within_its_limit(run: Run) -> None:
    """Nobody reads ``/deaf``: windows are opened, but what waits has a limit of its own."""

    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/deaf"))
            for _ in range(9):
                await client.send(data(1, message(bytes(10_000))))
            await client.heard()
            assert served.server.partial.total_bytes == 9 * (10_000 + CALL)
            await client.send(data(1, message(bytes(10_000))) * 50)
            status = (await client.answer(1))[1]["grpc-status"]
            assert status == str(int(GrpcStatus.RESOURCE_EXHAUSTED))
            await client.heard()
            assert not served.server.partial.total_bytes
            await served.check()

    run(main())


def test_a_whole_message_counts_as_held_until_its_call_is_whole(run: Run) -> None:
    """Else a client could leave the largest message in each of its calls, and end none."""

    async def main() -> None:
        async with serving() as served, served.client() as client:
            for stream_id in (1, 3, 5, 7):
                await client.send(begin(stream_id, "/echo") + data(stream_id, message(bytes(500))))
            await client.heard()
            assert served.server.partial.total_bytes == 4 * (500 + CALL)
            await client.send(data(1, b"", is_end=True))
            assert (await client.answer(1))[0] == message(bytes(500))
            assert served.server.partial.total_bytes == 3 * (500 + CALL)

    run(main())


def test_what_a_stream_has_read_is_no_longer_held(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(begin(1, "/talk") + data(1, message(b"a")))
            assert (await client.until(FrameKind.DATA)).payload == message(b"a")
            await until(lambda: not served.server.partial.total_bytes)

    run(main())


def test_all_connections_share_a_budget_for_what_is_held(run: Run) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as small, served.client() as large:
            served.server.partial._bytes_max = 100_000
            await small.send(begin(1, "/echo") + data(1, message(bytes(90_000))[:30_000]))
            await until(lambda: served.server.partial.total_bytes == 30_000)
            await large.send(begin(1, "/echo") + data(1, message(bytes(90_000))[:80_000]))
            assert await large.peer.closed()
            await small.heard()
            assert served.server.partial.total_bytes == 30_000
            await served.check()

    run(main())


@pytest.mark.parametrize("size", [LIMITS.request_bytes_max, LIMITS.request_bytes_max + 1])
def test_the_largest_message_is_taken_and_no_larger(run: Run, size: int) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(window(MIB) + frames.window_update(0, MIB))
            await client.send(call(1, "/echo", bytes(size)))
            came, said = await client.answer(1)
            if size <= LIMITS.request_bytes_max:
                assert came == message(bytes(size))
            else:
                assert said["grpc-status"] == str(int(GrpcStatus.RESOURCE_EXHAUSTED))

    run(main())


def test_a_small_limit_holds_for_a_message_in_one_frame(run: Run) -> None:
    async def main() -> None:
        limits = LIMITS._replace(request_bytes_max=10)
        async with serving(limits) as served, served.client() as client:
            await client.send(call(1, "/echo", bytes(10)) + call(3, "/echo", bytes(11)))
            status = (await client.answer(3))[1]["grpc-status"]  # it needs no method
            assert status == str(int(GrpcStatus.RESOURCE_EXHAUSTED))
            assert (await client.answer(1))[0] == message(bytes(10))

    run(main())


@pytest.mark.parametrize(
    ("permission", "error"),
    [
        (frames.window_update(1, 0), H2Error.PROTOCOL_ERROR),
        (frames.window_update(1, 2**31 - 1), H2Error.FLOW_CONTROL_ERROR),
    ],
    ids=["nothing", "too much"],
)
def test_a_permission_of_no_use_ends_its_call_alone(
    run: Run, permission: bytes, error: H2Error
) -> None:
    async def main() -> None:
        async with serving() as served, served.client() as client:
            await client.send(call(1, "/wait"))
            await until(lambda: served.waiting.running)
            await client.send(permission + call(3, "/echo", b"x"))
            assert await client.answer(1) == (b"", {"reset": str(int(error))})
            assert (await client.answer(3))[0] == message(b"x")
            await until(lambda: served.waiting.cancelled)

    run(main())


def unread(stream_id: int, size: int) -> bytes:
    """Data of a stream that nobody reads, in messages of 16,000 bytes."""
    return data(stream_id, (message(bytes(16_000)) * (size // 16_005 + 1))[:size])


def test_who_overruns_the_window_of_a_stream_loses_that_call(run: Run) -> None:
    """A stream that nobody reads is not opened again; one byte beyond its window is too much."""

    async def main() -> None:
        async with serving(LARGE) as served, served.client() as client:
            await client.send(begin(1, "/deaf") + unread(1, STREAM_WINDOW_BYTES))
            await client.heard()
            assert 1 not in client.window_told
            assert served.server.call_count == 1
            held_bytes = served.server.partial.total_bytes
            assert held_bytes < 2 * STREAM_WINDOW_BYTES
            await client.send(data(1, b"x"))
            reset = {"reset": str(int(H2Error.FLOW_CONTROL_ERROR))}
            assert await client.answer(1) == (b"", reset)
            await client.send(unread(1, STREAM_WINDOW_BYTES) + call(3, "/echo", b"x"))
            assert (await client.answer(3))[0] == message(b"x")
            assert not served.server.partial.total_bytes

    run(main())


def test_who_overruns_the_window_of_all_streams_is_closed(run: Run) -> None:
    async def main() -> None:
        async with serving(LARGE) as served, served.client() as client:
            count = CONNECTION_WINDOW_BYTES // STREAM_WINDOW_BYTES
            ids = range(1, 2 * count + 1, 2)
            for stream_id in ids:
                await client.send(begin(stream_id, "/deaf") + unread(stream_id, MIB))
            await client.heard()
            assert served.server.call_count == count
            assert client.window_told == {0: CONNECTION_WINDOW_BYTES - frames.WINDOW_BYTES}
            assert served.server.partial.total_bytes < 2 * CONNECTION_WINDOW_BYTES
            await client.send(begin(2 * count + 1, "/deaf") + data(2 * count + 1, b"x"))
            assert await client.farewell() == H2Error.FLOW_CONTROL_ERROR
            await until(lambda: not served.listener.connection_count)
            assert not served.server.partial.total_bytes
            await served.check()

    run(main())


def test_a_stream_that_is_read_is_opened_again(run: Run) -> None:
    """More than both windows, through a method that reads what comes."""

    async def main() -> None:
        async with serving(LARGE) as served, served.client() as client:
            await client.send(begin(1, "/both") + window(MIB))
            sent = 0
            while sent < CONNECTION_WINDOW_BYTES + MIB:
                while sent + 160_050 > STREAM_WINDOW_BYTES + client.window_told.get(1, 0):
                    await client.until(FrameKind.WINDOW_UPDATE)
                await client.send(data(1, message(bytes(16_000)) * 10))
                sent += 160_050
            await until(lambda: len(served.both.heard) == sent // 16_005)
            await client.send(frames.reset(1, H2Error.CANCEL))
            await until(lambda: not served.server.call_count)

    run(main())
