"""Where a name server has an address for administrators, the other one serves clients and brokers
alone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flintmq import Message, aio
from flintmq.access.needs import ADMINISTRATIVE, TABLE
from flintmq.embedded.servers import BrokerPlan, NameServerPlan, Servers
from flintmq.errors import BrokerRefused, InvalidSetting
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.processors import PROCESSORS
from flintmq.nameserver.server import OF_ADMINS, OF_BROKERS, NameServer
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import write_fields

HERE = Address("127.0.0.1", 0)
CONFIG = NameServerConfig(listen=HERE)


async def ask(address: str, *requests: Command) -> list[Command]:
    channels = Channels()
    try:
        return [await channels.call(address, each, 10_000) for each in requests]
    finally:
        await channels.close()


def test_requests_of_administrators_are_served_at_their_own_address_only() -> None:
    put = Command(
        code=RequestCode.PUT_KV_CONFIG,
        fields=write_fields({"namespace": "n", "key": "k", "value": "v"}),
    )

    async def run() -> None:
        server = await NameServer.start(CONFIG, admin_listen=HERE)
        try:
            main, admin = str(server.address), server.admin_at
            assert admin is not None
            codes = sorted(OF_ADMINS)
            for reply in await ask(main, put, *map(request, codes)):
                assert reply.code == ResponseCode.NO_PERMISSION
                assert reply.remark == f"administrative requests are served at {admin} only"
            assert server.state.settings.value("n", "k") is None
            (done,) = await ask(admin, put)
            assert (done.code, server.state.settings.value("n", "k")) == (ResponseCode.SUCCESS, "v")
        finally:
            await server.stop()

    asyncio.run(run())


def test_every_request_that_is_served_is_of_clients_of_brokers_or_of_administrators() -> None:
    served = set(PROCESSORS)

    assert served >= OF_ADMINS | OF_BROKERS
    assert served - OF_ADMINS - OF_BROKERS == {RequestCode.GET_ROUTEINFO_BY_TOPIC}
    assert OF_ADMINS <= ADMINISTRATIVE <= TABLE.keys()


def test_clients_and_brokers_go_on_beside_an_address_for_administrators(tmp_path: Path) -> None:
    async def run() -> None:
        plan = NameServerPlan(config=CONFIG, admin_listen=HERE)
        servers = await Servers.start([BrokerPlan(directory=tmp_path)], [plan])
        try:
            (server,) = servers.name_servers
            main, admin = str(server.address), server.admin_at
            async with aio.Admin(namesrv=main) as stranger:
                with pytest.raises(BrokerRefused, match="are served at"):
                    await stranger.topics()
            async with aio.Admin(namesrv=admin) as own:
                await own.create_topic("orders")
                assert "orders" in {topic.name for topic in await own.topics()}
            async with aio.Producer("shop", namesrv=main) as producer:
                await producer.send(Message("orders", b"hello"))
        finally:
            await servers.stop()

    asyncio.run(run())


def test_an_address_that_is_in_use_stops_the_start_and_leaves_nothing_open() -> None:
    async def run() -> None:
        first = await NameServer.start(CONFIG)
        try:
            with pytest.raises(InvalidSetting):
                await NameServer.start(CONFIG, admin_listen=first.address)
            busy = NameServerConfig(listen=first.address)
            with pytest.raises(InvalidSetting):
                await NameServer.start(busy, admin_listen=HERE)
        finally:
            await first.stop()

    asyncio.run(run())
