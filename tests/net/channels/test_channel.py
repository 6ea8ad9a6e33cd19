"""Every call on a channel ends once, in its answer or in a reason, and memory stays bounded."""

from __future__ import annotations

import asyncio

import pytest

from flintmq.errors import Unreachable
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.wire import encode_command
from support.net.support import (
    CALL_MS,
    HERE,
    BarePeer,
    CountedTransport,
    HandClock,
    Run,
    bare_listener,
    echo,
    other_tasks,
    silent,
    until,
)

ASK = request(10, body=b"hello")


def test_a_call_is_given_its_answer(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo) as server:
            channel = await connect(str(server.address))

            reply = await channel.call(ASK, CALL_MS)

            assert (reply.code, reply.body, reply.is_answer) == (0, b"hello", True)
            await channel.close()

    run(main())


def test_answers_that_come_in_another_order_find_their_calls(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            calls = [asyncio.ensure_future(channel.call(request(n), CALL_MS)) for n in range(5)]
            asked = [await peer.command() for _ in calls]

            for command in reversed(asked):
                await peer.answer(command, body=b"%d" % command.code)

            assert [(await call).body for call in calls] == [b"0", b"1", b"2", b"3", b"4"]
            await channel.close()

    run(main())


def test_both_ends_ask_at_once(run: Run) -> None:
    async def main() -> None:
        asked_back: list[asyncio.Task[Command]] = []

        def serve_and_ask(asked: Command, channel: Channel) -> Command:
            back = channel.call(request(39, body=asked.body), CALL_MS)
            asked_back.append(asyncio.ensure_future(back))
            return answer(asked, 0, body=asked.body)

        async with await serve_commands(HERE, serve_and_ask) as server:
            channel = await connect(str(server.address), handler=echo)
            bodies = [b"%d" % n for n in range(100)]

            replies = await asyncio.gather(
                *(channel.call(request(10, body=body), CALL_MS) for body in bodies)
            )

            assert [reply.body for reply in replies] == bodies
            assert [(await task).body for task in asked_back] == bodies
            await channel.close()

    run(main())


def test_calls_of_one_turn_leave_in_one_write(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            counted = CountedTransport(channel)
            calls = [asyncio.ensure_future(channel.call(ASK, CALL_MS)) for _ in range(10)]

            asked = [await peer.command() for _ in calls]

            assert [command.body for command in asked] == [b"hello"] * 10
            assert counted.write_count == 1
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await channel.close()

    run(main())


def test_a_oneway_request_is_sent_and_gets_no_answer(run: Run) -> None:
    async def main() -> None:
        heard: list[Command] = []

        def hear(asked: Command, _channel: Channel) -> Command:
            heard.append(asked)
            return answer(asked, 0)

        async with await serve_commands(HERE, hear) as server:
            channel = await connect(str(server.address))
            await channel.send_oneway(request(15, body=b"note"), CALL_MS)

            reply = await channel.call(ASK, CALL_MS)

            assert [command.is_oneway for command in heard] == [True, False]
            assert reply.opaque == heard[1].opaque
            await channel.close()

    run(main())


def test_no_answer_in_time_says_how_long_and_for_what(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, silent) as server:
            channel = await connect(str(server.address))

            with pytest.raises(Unreachable) as caught:
                await channel.call(request(11), 30)

            assert caught.value.address == str(server.address)
            assert (
                caught.value.reason
                == "timed out after 30 ms waiting for an answer to a pull (PULL_MESSAGE, 11)"
            )
            assert not channel.is_closed
            await channel.close()

    run(main())


def test_one_timer_ends_calls_of_different_length_in_their_order(run: Run) -> None:
    async def main() -> None:
        clock = HandClock()
        async with await serve_commands(HERE, silent) as server:
            channel = await connect(str(server.address), clock=clock)
            long = asyncio.ensure_future(channel.call(request(11), 60_000))
            short = asyncio.ensure_future(channel.call(request(12), 59_000))
            await until(lambda: len(channel._calls) == 2)

            clock.now_ms += 59_000
            channel.timer_fired()

            with pytest.raises(Unreachable, match="59000 ms"):
                await short
            assert not long.done()
            clock.now_ms += 1_000
            channel.timer_fired()
            with pytest.raises(Unreachable, match="60000 ms"):
                await long
            assert not other_tasks()
            await channel.close()

    run(main())


def test_an_answer_after_the_deadline_is_dropped(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            with pytest.raises(Unreachable):
                await channel.call(ASK, 1)
            late = await peer.command()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))

            await peer.answer(late, body=b"late")
            await peer.answer(await peer.command(), body=b"right")

            assert (await call).body == b"right"
            await channel.close()

    run(main())


def test_a_cancelled_call_leaves_nothing_behind(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            given_up = await peer.command()

            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

            assert call.cancelled()
            assert channel._calls == {}
            assert channel._connection.waiting_count == 0
            await peer.answer(given_up)
            again = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            await peer.answer(await peer.command(), body=b"fine")
            assert (await again).body == b"fine"
            await channel.close()

    run(main())


def test_a_call_cancelled_in_the_turn_its_answer_comes_is_cancelled(run: Run) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, silent) as server:
            channel = await connect(str(server.address))
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            await until(lambda: channel._calls)
            (opaque,) = channel._calls

            call.cancel()
            channel.answered(answer(Command(opaque=opaque), 0))
            await asyncio.gather(call, return_exceptions=True)

            assert call.cancelled()
            assert channel._calls == {}
            await channel.close()

    run(main())


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (BarePeer.close, "the peer closed the connection"),
        (BarePeer.reset, "the connection was reset by the peer"),
    ],
)
def test_a_lost_connection_ends_all_its_calls(run: Run, leave: object, reason: str) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            calls = [asyncio.ensure_future(channel.call(ASK, CALL_MS)) for _ in range(3)]
            for _ in calls:
                await peer.command()

            assert callable(leave)
            leave(peer)
            outcomes = await asyncio.gather(*calls, return_exceptions=True)

            assert [str(outcome) for outcome in outcomes] == [f"{listener.address}: {reason}"] * 3
            assert len({id(outcome) for outcome in outcomes}) == 3
            with pytest.raises(Unreachable, match=reason):
                await channel.call(ASK, CALL_MS)
            with pytest.raises(Unreachable, match=reason):
                await channel.send_oneway(ASK, CALL_MS)

    run(main())


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "over the limit"),
        (b"\0\0\0\x00\0\0\0\0", "a frame length of 0 is impossible"),
        (b"\0\0\0\x06\0\0\0\x02[]", "the peer broke the protocol"),
        (b"\0\0\0\x08\x07\0\0\0{}{}", "header form 7 is unknown"),
    ],
)
def test_bytes_that_are_no_frames_close_the_channel(run: Run, garbage: bytes, reason: str) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            await peer.command()

            await peer.send(garbage)

            with pytest.raises(Unreachable, match=reason):
                await call
            assert await peer.closed()
            await channel.closed

    run(main())


def test_an_answer_may_come_one_byte_at_a_time(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            asked = await peer.command()

            for byte in encode_command(answer(asked, 0, body=b"slow")):
                await peer.send(bytes([byte]))

            assert (await call).body == b"slow"
            await channel.close()

    run(main())


def test_a_connection_that_ends_inside_a_frame_says_so(run: Run) -> None:
    async def main() -> None:
        async with bare_listener() as listener:
            channel = await connect(listener.address)
            peer = await listener.accept()
            call = asyncio.ensure_future(channel.call(ASK, CALL_MS))
            asked = await peer.command()

            await peer.send(encode_command(answer(asked, 0, body=b"half"))[:-2])
            peer.close()

            with pytest.raises(Unreachable, match="in the middle of a frame"):
                await call
            await channel.closed

    run(main())
