"""A broker with thousands of topics registers, and others are served meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from flintmq.net.channels.channel_pool import connect
from flintmq.net.loop import run
from flintmq.protocol.bodies.register import PART_TOPICS, TOPICS_MAX
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.route import RouteOf
from support.nameserver.servers import (
    ask,
    name_server,
    register_request,
    registration,
    route_of,
    topic_table,
)
from support.net.support import CALL_MS

TOPICS = 50 * PART_TOPICS


@pytest.mark.parametrize("compressed", [False, True], ids=["json", "packed"])
def test_ten_thousand_topics_are_taken(compressed: bool) -> None:
    table = topic_table(f"topic-{number}" for number in range(TOPICS))

    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            told = register_request(registration(table=table), compressed=compressed)

            # the second one of the same connection waits for the first
            done, found = await asyncio.gather(
                channel.call(told, CALL_MS), route_of(channel, f"topic-{TOPICS - 1}")
            )

            assert done.code == ResponseCode.SUCCESS
            assert found is not None
            assert len(server.state.routes.topics()) == TOPICS
            await channel.close()

    run(main())


@pytest.mark.parametrize("compressed", [False, True], ids=["json", "packed"])
def test_others_are_answered_while_topics_are_read(
    compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time in a turn every part has a turn of its own."""
    monkeypatch.setattr("flintmq.net.channels.channel.TURN_S", 0.0)
    table = topic_table(f"topic-{number}" for number in range(TOPICS))

    async def main() -> None:
        async with name_server() as server:
            broker, client = await connect(str(server.address)), await connect(str(server.address))
            told = register_request(registration(table=table), compressed=compressed)
            registering = asyncio.ensure_future(broker.call(told, CALL_MS))
            answered_before = 0
            while not registering.done():
                await ask(client, RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteOf(topic="other"))
                answered_before += not registering.done()

            assert registering.result().code == ResponseCode.SUCCESS
            assert answered_before >= 3
            await broker.close()
            await client.close()

    run(main())


def test_a_broker_that_leaves_in_the_middle_is_not_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flintmq.net.channels.channel.TURN_S", 0.0)
    table = topic_table(f"topic-{number}" for number in range(TOPICS))

    async def main() -> None:
        async with name_server() as server:
            broker, client = await connect(str(server.address)), await connect(str(server.address))
            registering = asyncio.ensure_future(
                broker.call(register_request(registration(table=table)), CALL_MS)
            )
            while not (sessions := [c for c in server._server.channels if c._backlog]):  # noqa: ASYNC110
                await asyncio.sleep(0)
            sessions[0].abort("the test wants it so")
            await asyncio.gather(registering, return_exceptions=True)

            assert await route_of(client, "topic-1") is None
            await broker.close()
            await client.close()

    run(main())


def test_more_topics_than_the_limit_are_refused_with_a_reason() -> None:
    table = topic_table(f"t{number}" for number in range(TOPICS_MAX + 1))

    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))

            reply = await channel.call(
                register_request(registration(table=table), compressed=True), CALL_MS
            )

            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert f"limit of {TOPICS_MAX}" in (reply.remark or "")
            await channel.close()

    run(main())


def test_settings_that_are_too_long_are_refused_with_a_reason() -> None:
    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))

            reply = await channel.call(
                request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"a=b\n" * 100_000), CALL_MS
            )

            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert "the body of request 318 has 400000 bytes" in (reply.remark or "")
            await channel.close()

    run(main())
