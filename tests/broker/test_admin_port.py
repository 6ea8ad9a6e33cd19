"""Where a broker has a port for administrators, no other port serves their requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flintmq import aio
from flintmq.access.needs import ADMINISTRATIVE, TABLE
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.processor_table import processors
from flintmq.broker.server import BrokerServer
from flintmq.embedded.servers import BrokerPlan, Servers
from flintmq.errors import BrokerRefused, InvalidSetting
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from support.embedded.asking import header_of

HERE = Address("127.0.0.1", 0)


async def ask(address: Address, *requests: Command) -> list[Command]:
    channels = Channels()
    try:
        return [await channels.call(str(address), each, 10_000) for each in requests]
    finally:
        await channels.close()


def test_administrative_requests_are_served_at_their_own_address_only(tmp_path: Path) -> None:
    codes = sorted(ADMINISTRATIVE & processors().keys())

    async def run() -> None:
        broker = await BrokerServer.start(tmp_path, BrokerConfig(), listen=HERE, admin_listen=HERE)
        try:
            admin = broker.listeners.admin
            assert admin is not None
            answers = await ask(broker.address, *map(request, codes))
            assert len(codes) > 20
            for code, reply in zip(codes, answers, strict=True):
                assert reply.code == ResponseCode.NO_PERMISSION, code
                assert reply.remark == f"administrative requests are served at {admin.address} only"
            (shown,) = await ask(admin.address, request(RequestCode.GET_BROKER_CONFIG))
            assert shown.code == ResponseCode.SUCCESS
            send = request(RequestCode.SEND_MESSAGE_V2, header_of("orders"), b"hello")
            for where in (broker.address, admin.address):
                (sent,) = await ask(where, send)
                assert sent.code == ResponseCode.SUCCESS
        finally:
            await broker.stop()

    asyncio.run(run())


def test_an_admin_address_that_is_in_use_stops_the_start(tmp_path: Path) -> None:
    async def run() -> None:
        first = await BrokerServer.start(tmp_path / "a", BrokerConfig(), listen=HERE)
        try:
            with pytest.raises(InvalidSetting):
                await BrokerServer.start(
                    tmp_path / "b", BrokerConfig(), listen=HERE, admin_listen=first.address
                )
        finally:
            await first.stop()

    asyncio.run(run())


def test_an_admin_that_knows_the_address_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        plan = BrokerPlan(directory=tmp_path, admin_listen=HERE)
        servers = await Servers.start([plan])
        try:
            (broker,) = servers.brokers.values()
            namesrv = str(servers.namesrv[0])
            async with aio.Admin(namesrv=namesrv) as stranger:
                with pytest.raises(BrokerRefused, match="are served at"):
                    await stranger.create_topic("orders")
            async with aio.Admin(namesrv=namesrv, admin_at=broker.listeners.admin_at) as admin:
                await admin.create_topic("orders")
                assert (await admin.describe_topic("orders")).topic == "orders"
            monkeypatch.setenv("FLINTMQ_ADMIN_AT", broker.listeners.admin_at or "")
            async with aio.Admin(namesrv=namesrv) as admin:
                await admin.delete_topic("orders")
        finally:
            await servers.stop()

    asyncio.run(run())


def test_what_clients_need_is_not_administrative() -> None:
    clients = {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.PULL_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
    }

    assert clients.isdisjoint(ADMINISTRATIVE)
    assert TABLE.keys() >= ADMINISTRATIVE
