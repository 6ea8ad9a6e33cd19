"""Two brokers at two name servers: who serves a topic is known everywhere, at every moment.

Requests go over connections that stay open, as a client's do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import Unreachable
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.loop import run
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.headers.topic import CreateTopic
from flintmq.protocol.records.received import decode_messages

TIMEOUT_MS = 10_000
PATIENCE_S = 60.0


async def ask(
    channel: Channel, code: RequestCode, header: Header | None = None, body: bytes = b""
) -> Command:
    return await channel.call(request(code, header, body), TIMEOUT_MS)


async def create(channel: Channel, topic: str, queues: int) -> None:
    header = CreateTopic(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    reply = await ask(channel, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    assert reply.code == ResponseCode.SUCCESS, reply


async def send(channel: Channel, topic: str, body: bytes) -> Command:
    header = SendMessageV2(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties="",
    )
    return await ask(channel, RequestCode.SEND_MESSAGE_V2, header, body)


async def bodies(channel: Channel, topic: str) -> list[bytes]:
    """What is in queue 0."""
    header = PullMessage(
        consumer_group="consumers",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    reply = await ask(channel, RequestCode.PULL_MESSAGE, header)
    assert reply.code == ResponseCode.SUCCESS, reply
    return [message.body for message in decode_messages(reply.body, broker="").messages]


class Company:
    """Connections to both name servers, and what they say."""

    def __init__(self, servers: EmbeddedBroker, name_servers: list[Channel]) -> None:
        self.servers = servers
        self.addresses = dict(zip(("broker-a", "broker-b"), servers.brokers, strict=True))
        self._name_servers = name_servers

    async def routes(self, topic: str) -> list[dict[str, int]]:
        """Each name server's brokers of a topic, and how many queues each has."""
        found = []
        for channel in self._name_servers:
            reply = await ask(channel, RequestCode.GET_ROUTEINFO_BY_TOPIC, OfTopic(topic=topic))
            route = TopicRoute()
            if reply.code != ResponseCode.TOPIC_NOT_EXIST:
                route = TopicRoute.from_body(reply.body)
            at = {entry.broker_name: entry.broker_addrs[0] for entry in route.broker_datas}
            assert at.items() <= self.addresses.items()
            assert list(at) == [queues.broker_name for queues in route.queue_datas]
            found.append({each.broker_name: each.write_queue_nums for each in route.queue_datas})
        return found

    async def agree(self, topic: str, wanted: dict[str, int]) -> None:
        """Wait until both name servers say this."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.routes(topic) != [wanted] * 2:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.001)

    async def connect(self, name: str) -> Channel:
        return await connect(self.addresses[name])

    async def stop(self, name: str) -> None:
        await asyncio.to_thread(self.servers.stop_broker, name)

    async def start(self, name: str) -> None:
        await asyncio.to_thread(self.servers.start_broker, name)


@asynccontextmanager
async def company() -> AsyncIterator[Company]:
    async with EmbeddedBroker(brokers=2, name_servers=2) as servers:
        channels = [await connect(address) for address in servers.namesrv.split(";")]
        yield Company(servers, channels)
        for channel in channels:
            await channel.close(0)


def test_both_name_servers_know_the_topics_of_both_brokers() -> None:
    async def main() -> None:
        async with company() as world:
            first, second = await world.connect("broker-a"), await world.connect("broker-b")

            await create(first, "shared", 2)
            await create(second, "shared", 3)
            await send(second, "made-by-a-send", b"hello")

            await world.agree("shared", {"broker-a": 2, "broker-b": 3})
            await world.agree("made-by-a-send", {"broker-b": 1})
            await first.close(0)
            await second.close(0)

    run(main())


def test_a_broker_that_stops_leaves_every_route_and_comes_back_with_what_it_had() -> None:
    async def main() -> None:
        async with company() as world:
            first, second = await world.connect("broker-a"), await world.connect("broker-b")
            for channel in (first, second):
                await create(channel, "shared", 2)
            await create(second, "only-b", 1)
            await send(second, "shared", b"kept in b")
            await world.agree("only-b", {"broker-b": 1})

            await world.stop("broker-b")

            assert await world.routes("shared") == [{"broker-a": 2}] * 2
            assert await world.routes("only-b") == [{}, {}]
            with pytest.raises(Unreachable):
                await send(second, "shared", b"nobody is there")
            accepted = await send(first, "shared", b"meanwhile in a")
            assert accepted.header(SendAnswer).queue_offset == 0

            await world.start("broker-b")

            assert await world.routes("shared") == [{"broker-a": 2, "broker-b": 2}] * 2
            assert await world.routes("only-b") == [{"broker-b": 1}] * 2
            again = await world.connect("broker-b")
            await send(again, "shared", b"again in b")
            assert await bodies(again, "shared") == [b"kept in b", b"again in b"]
            assert await bodies(first, "shared") == [b"meanwhile in a"]
            await first.close(0)
            await again.close(0)

    run(main())


def test_both_may_be_away_and_come_back_in_any_order() -> None:
    async def main() -> None:
        async with company() as world:
            for name in ("broker-a", "broker-b"):
                channel = await world.connect(name)
                await create(channel, "shared", 1)
                await channel.close(0)

            await world.stop("broker-a")
            await world.stop("broker-b")
            nobody = await world.routes("shared")
            await world.start("broker-b")
            one = await world.routes("shared")
            await world.start("broker-a")
            both = await world.routes("shared")

            assert nobody == [{}, {}]
            assert one == [{"broker-b": 1}] * 2
            assert both == [{"broker-b": 1, "broker-a": 1}] * 2

    run(main())
