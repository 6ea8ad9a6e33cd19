"""A handler may answer at once, later, never or wrongly: the peer hears what there is to hear."""

from __future__ import annotations

import asyncio
import logging

import pytest

from flintmq.errors import BrokerRefused
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.channels.commands import REQUESTS_MAX
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.wire import encode_command
from support.net.support import CALL_MS, HERE, Run, bare_listener, other_tasks, until


def test_answers_of_async_handlers_leave_as_they_are_ready(run: Run) -> None:
    async def main() -> None:
        first_may_end = asyncio.Event()

        async def handle(asked: Command, _channel: Channel) -> Command:
            if asked.code == 1:
                await first_may_end.wait()
            else:
                first_may_end.set()
            return answer(asked, 0, body=b"%d" % asked.code)

        async with await serve_commands(HERE, handle) as server:
            channel = await connect(str(server.address))

            first, second = await asyncio.gather(
                channel.call(request(1), CALL_MS), channel.call(request(2), CALL_MS)
            )

            assert (first.body, second.body) == (b"1", b"2")
            await channel.close()

    run(main())


def test_who_has_no_handler_says_the_code_is_not_supported(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            await peer.send(encode_command(request(4711, opaque=5)))

            reply = await peer.command()
            assert (reply.code, reply.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5)
            assert reply.remark == " request type 4711 not supported"
            await channel.close()

    run(main())


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("error", "level"),
    [(ZeroDivisionError("oh"), logging.ERROR), (BrokerRefused(14, "full"), logging.INFO)],
)
def test_a_handler_that_raises_is_answered_with_code_1(
    run: Run, caplog: pytest.LogCaptureFixture, error: Exception, level: int, later: bool
) -> None:
    async def main() -> None:
        def fail(_asked: Command, _channel: Channel) -> None:
            raise error

        async def fail_later(_asked: Command, _channel: Channel) -> None:
            raise error

        async with await serve_commands(HERE, fail_later if later else fail) as server:
            channel = await connect(str(server.address))

            with caplog.at_level(logging.INFO, logger="flintmq.net"):
                reply = await channel.call(request(10), CALL_MS)

            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert reply.remark == f"{type(error).__name__}: {error}"
            assert [record.levelno for record in caplog.records] == [level]
            await channel.close()

    run(main())


def test_an_answer_too_large_for_a_frame_is_told_as_a_failure(run: Run) -> None:
    async def main() -> None:
        def huge(asked: Command, _channel: Channel) -> Command:
            return answer(asked, 0, body=bytes(17 * 1024 * 1024))

        async with await serve_commands(HERE, huge) as server:
            channel = await connect(str(server.address))

            reply = await channel.call(request(10), CALL_MS)

            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert "over the limit" in (reply.remark or "")
            await channel.close()

    run(main())


def test_too_many_requests_under_way_are_answered_as_busy(run: Run) -> None:
    async def main() -> None:
        may_end = asyncio.Event()

        async def wait(asked: Command, _channel: Channel) -> Command:
            await may_end.wait()
            return answer(asked, 0)

        async with await serve_commands(HERE, wait) as server:
            channel = await connect(str(server.address))
            under_way = [
                asyncio.ensure_future(channel.call(request(10), CALL_MS))
                for _ in range(REQUESTS_MAX)
            ]

            await until(lambda: len(channel._calls) == REQUESTS_MAX)
            refused = await channel.call(request(10), CALL_MS)

            assert refused.code == ResponseCode.SYSTEM_BUSY
            may_end.set()
            assert {(await call).code for call in under_way} == {0}
            await channel.close()

    run(main())


def test_requests_of_a_peer_that_left_are_given_up(run: Run) -> None:
    async def main() -> None:
        begun: list[Command] = []
        given_up: list[Command] = []

        async def endless(asked: Command, _channel: Channel) -> None:
            begun.append(asked)
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(asked)

        async with await serve_commands(HERE, endless) as server:
            channel = await connect(str(server.address))
            await until(lambda: server.channels and not server._admitting)
            before = other_tasks()
            await channel.send_oneway(request(10), CALL_MS)
            await until(lambda: begun)

            channel.abort("the test")

            await until(lambda: given_up)
            await until(lambda: other_tasks() == before)

    run(main())
