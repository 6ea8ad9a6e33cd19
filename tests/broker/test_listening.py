"""A broker also listens two ports below its own, where RocketMQ's fast channel goes.

What a request gets there was seen at brokers 4.9.7 and 5.3.3: pulls are refused with code 3 and
everything else is served.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.server import BrokerServer
from flintmq.errors import Unreachable
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import connect
from flintmq.net.loop import run
from flintmq.net.servers.accepting import SERVER_LIMITS, ServerLimits
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.pull import PullMessage
from support.broker.servers import ASYNC, LOOPBACK, bodies_of, pulling, sending
from support.net.certificates import Authority
from support.net.ports import port_with_one_below
from support.net.support import until


@pytest.fixture
def where() -> Address:
    return Address("127.0.0.1", port_with_one_below(2))


@pytest.fixture
def below(where: Address) -> str:
    return str(replace(where, port=where.port - 2))


@asynccontextmanager
async def serving(
    directory: Path,
    where: Address,
    config: BrokerConfig = ASYNC,
    *,
    tls: ServerTls | None = None,
    limits: ServerLimits = SERVER_LIMITS,
) -> AsyncIterator[BrokerServer]:
    broker = await BrokerServer.start(directory, config, listen=where, tls=tls, limits=limits)
    try:
        yield broker
    finally:
        await broker.stop()


def test_all_but_pulls_is_served_on_the_fast_port(
    tmp_path: Path, where: Address, below: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, where):
            fast, main = await connect(below), await connect(str(where))

            sent = [await fast.call(sending(b"%d" % n), 5_000) for n in range(8)]
            topics = await fast.call(request(RequestCode.GET_ALL_TOPIC_CONFIG), 5_000)
            refused = await fast.call(pulling(0), 5_000)
            header = pulling(0).header(PullMessage)
            lite = await fast.call(request(RequestCode.LITE_PULL_MESSAGE, header), 5_000)
            pulled = await main.call(pulling(0), 5_000)

            assert [reply.code for reply in sent] == [0] * 8
            assert "T" in TopicTable.from_body(topics.body).topic_config_table
            for reply, code in ((refused, 11), (lite, 361)):
                assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert reply.remark == f" request type {code} not supported"
            assert bodies_of(pulled) == [b"%d" % n for n in range(8)]
            await asyncio.gather(fast.close(0), main.close(0))

    run(main())


def test_the_fast_port_is_told_when_the_broker_starts(
    tmp_path: Path, where: Address, below: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(tmp_path, where):
            pass

    with caplog.at_level(logging.INFO, "flintmq.broker.listening"):
        run(main())

    told = [each.getMessage() for each in caplog.records if "fast port" in each.getMessage()]
    assert told == [f"listening on {where}; fast port, for all but pulls: {below}"]


def test_a_fast_port_that_is_taken_is_told_in_one_line_and_the_broker_serves(
    tmp_path: Path, where: Address, below: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> int:
        async with serving(tmp_path, where):
            channel = await connect(str(where))
            sent = await channel.call(sending(), 5_000)
            await channel.close(0)
            return sent.code

    with socket.create_server(("127.0.0.1", where.port - 2)):
        code = run(main())

    assert code == 0
    [told] = [each.getMessage() for each in caplog.records if "fast port" in each.getMessage()]
    assert told.startswith(f"no fast port, {below}: ")
    assert "in use" in told


def test_there_is_no_fast_port_when_it_is_off(tmp_path: Path, where: Address, below: str) -> None:
    async def main() -> None:
        async with serving(tmp_path, where, replace(ASYNC, fast_port=False)):
            with pytest.raises(Unreachable):
                await connect(below)

    run(main())


def test_there_is_no_fast_port_below_one_that_the_system_chose(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, LOOPBACK) as broker:
            assert broker.listeners.fast is None

    run(main())


def test_both_ports_share_one_limit_of_connections(
    tmp_path: Path, where: Address, below: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, where, limits=ServerLimits(connections_max=3)) as broker:
            kept = [await connect(at) for at in (below, str(where), below)]
            await until(lambda: len(broker.peers) == 3)

            for at in (str(where), below):
                over = await connect(at)
                with pytest.raises(Unreachable):
                    await over.call(sending(), 5_000)

            assert len(broker.peers) == 3
            await asyncio.gather(*(channel.close(0) for channel in kept))

    run(main())


def test_stopping_closes_the_fast_port_and_its_connections(
    tmp_path: Path, where: Address, below: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, where) as broker:
            channel = await connect(below)
            await channel.call(sending(), 5_000)

            await broker.stop()

            await until(lambda: channel.is_closed)
            with pytest.raises(Unreachable):
                await connect(below)
        async with serving(tmp_path, where) as again:
            assert again.listeners.fast is not None

    run(main())


def test_a_start_that_fails_leaves_no_fast_port(tmp_path: Path, where: Address, below: str) -> None:
    async def main() -> None:
        (tmp_path / "commitlog").write_text("a file where a directory belongs")
        with pytest.raises(Exception, match="commitlog"):
            await BrokerServer.start(tmp_path, ASYNC, listen=where)
        with pytest.raises(Unreachable):
            await connect(below)

    run(main())


def test_the_fast_port_speaks_the_same_tls(tmp_path: Path, where: Address, below: str) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ServerTls(authority.sign("broker"), mode=TlsMode.ENFORCING)

    async def main() -> None:
        async with serving(tmp_path / "data", where, tls=tls):
            channel = await connect(below, tls=ClientTls(ca_file=authority.ca_file))
            sent = await channel.call(sending(), 5_000)
            await channel.close(0)

            plain = await connect(below)
            with pytest.raises(Unreachable):
                await plain.call(sending(), 5_000)

            assert sent.code == 0

    run(main())
