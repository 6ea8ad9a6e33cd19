"""The client of gRPC's own library is served as by any other server of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import grpc
import pytest

from flintmq.net.http2.call_server import H2Limits
from support.net.h2_client import LARGE, LIMITS, MANY_BYTES, MANY_COUNT, Served, serving
from support.net.support import Run, until

MIB = 1024 * 1024
CALL_S = 50.0


def ask(run: Run, work: Callable[[Any, Served], object], limits: H2Limits = LARGE) -> None:
    """Do something with a channel, on a thread."""

    async def main() -> None:
        async with serving(limits) as served:

            def on_thread() -> object:
                with channel_to(served.where) as channel:
                    return work(channel, served)

            await asyncio.to_thread(on_thread)
            await until(lambda: not served.server.call_count)

    run(main())


def channel_to(where: str) -> AbstractContextManager[Any]:
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
    ]
    channel: AbstractContextManager[Any] = grpc.insecure_channel(where, options)
    return channel


def status_of(work: Callable[[], object]) -> Any:
    with pytest.raises(grpc.RpcError) as raised:
        work()
    return raised.value.code()


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 70_000, 3 * MIB])
def test_messages_of_any_size_come_back(run: Run, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)

    def work(channel: Any, _served: Served) -> None:
        assert channel.unary_unary("/echo")(body[:size], timeout=CALL_S) == body[:size]

    ask(run, work)


def test_streams_of_answers_and_of_both_ways(run: Run) -> None:
    def work(channel: Any, _served: Served) -> None:
        came = list(channel.unary_stream("/many")(b"", timeout=CALL_S))
        assert came == [bytes([count]) * MANY_BYTES for count in range(MANY_COUNT)]
        said = [bytes([count]) * 100_000 for count in range(30)]
        assert list(channel.stream_stream("/talk")(iter(said), timeout=CALL_S)) == said

    ask(run, work)


@pytest.mark.parametrize("limits", [LARGE, LIMITS], ids=["all at once", "four at once"])
def test_a_thousand_calls_of_one_connection(run: Run, limits: H2Limits) -> None:
    """A client keeps to the calls at once that it is told."""

    def work(channel: Any, _served: Served) -> None:
        echo = channel.unary_unary("/echo")
        calls = [echo.future(b"%d" % count, timeout=CALL_S) for count in range(1_000)]
        assert [call.result() for call in calls] == [b"%d" % count for count in range(1_000)]

    ask(run, work, limits)


def test_packed_requests_are_unpacked(run: Run) -> None:
    def work(channel: Any, _served: Served) -> None:
        for packing in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            echo = channel.unary_unary("/echo")
            assert echo(b"body" * 5_000, timeout=CALL_S, compression=packing) == b"body" * 5_000

    ask(run, work)


def test_what_cannot_be_served_has_its_status(run: Run) -> None:
    def work(channel: Any, _served: Served) -> None:
        for path, body, status in (
            ("/none", b"", grpc.StatusCode.UNIMPLEMENTED),
            ("/fault", b"", grpc.StatusCode.UNKNOWN),
            ("/echo", bytes(LIMITS.request_bytes_max + 1), grpc.StatusCode.RESOURCE_EXHAUSTED),
        ):
            call = channel.unary_unary(path)
            assert status_of(partial(call, body, timeout=CALL_S)) == status

    ask(run, work, LIMITS)


def test_deadlines_and_cancels_end_the_method(run: Run) -> None:
    def work(channel: Any, served: Served) -> None:
        wait = channel.unary_unary("/wait")
        assert status_of(lambda: wait(b"", timeout=0.3)) == grpc.StatusCode.DEADLINE_EXCEEDED
        running = wait.future(b"", timeout=CALL_S)
        while served.waiting.running < 2:
            channel.unary_unary("/echo")(b"", timeout=CALL_S)
        running.cancel()
        while served.waiting.cancelled < 2:
            channel.unary_unary("/echo")(b"", timeout=CALL_S)

    ask(run, work)
