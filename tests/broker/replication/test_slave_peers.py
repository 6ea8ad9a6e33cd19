"""Only slaves that are known get the log: by the name servers, by a list, or as neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.replication_config import ReplicationConfig
from flintmq.broker.replication.slave_peers import SlavePeers
from flintmq.broker.server import BrokerServer
from flintmq.model.broker_role import BrokerRole
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.server import NameServer
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.loop import run
from flintmq.protocol.replication.ha_frames import encode_report
from support.broker.servers import LOOPBACK, serving
from support.replication.pairs import (
    SMALL_FILES,
    ha_address,
    log_of,
    master_config,
    send_all,
    slave_config,
    until,
    until_equal,
)


def config(*allowed: str) -> BrokerConfig:
    return BrokerConfig(ha_port=0, replication=ReplicationConfig(allowed_slaves=allowed))


@pytest.mark.parametrize(
    ("allowed", "host", "is_admitted"),
    [
        ((), "127.0.0.1", True),
        ((), "::1", True),
        ((), "10.0.0.2", False),
        (("10.0.0.0/8",), "10.0.0.2", True),
        (("10.0.0.0/8",), "::ffff:10.0.0.2", True),
        (("10.0.0.0/8",), "11.0.0.2", False),
        (("10.0.0.0/8",), "127.0.0.1", False),
        (("fd00::/8",), "fd00::1%eth0", True),
    ],
)
def test_without_name_servers_the_list_counts_or_else_this_machine(
    allowed: tuple[str, ...], host: str, is_admitted: bool
) -> None:
    async def scene() -> None:
        peers = SlavePeers(config(*allowed), (), Channels())

        assert await peers.admits(host) is is_admitted
        assert peers.slaves_at(host) == 1

    run(scene())


def test_a_list_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        config("nonsense")


@asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    server = await NameServer.start(NameServerConfig(listen=LOOPBACK))
    try:
        yield server
    finally:
        await server.stop()


def test_a_registered_slave_is_admitted(tmp_path: Path) -> None:
    """It learns from the name server where its master is, and the master that it is one."""

    async def scene() -> None:
        async with name_server() as names:
            namesrv = (names.address,)
            master = await BrokerServer.start(
                tmp_path / "master", master_config(), listen=LOOPBACK, namesrv=namesrv
            )
            await master.registered.wait()
            await send_all(master, 20)
            slave_of_names = replace(slave_config("x:1"), ha_master_address=None)
            slave = await BrokerServer.start(
                tmp_path / "slave", slave_of_names, listen=LOOPBACK, namesrv=namesrv
            )
            await until_equal(master, slave)

            assert log_of(slave) == log_of(master)
            assert slave.state.master_ha_address == ha_address(master)
            assert not master.state.slaves.refusals
            await slave.stop()
            await master.stop()

    run(scene())


def test_a_stranger_is_told_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        replication = ReplicationConfig(allowed_slaves=("10.0.0.2",))
        settings = BrokerConfig(
            role=BrokerRole.ASYNC_MASTER, ha_port=0, store=SMALL_FILES, replication=replication
        )
        async with serving(tmp_path, settings) as master:
            await send_all(master, 3)
            host, _, port = ha_address(master).rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_report(master.state.log.end_offset))

            await until(lambda: master.state.slaves.refusals)

            (reason,) = master.state.slaves.refusals.values()
            assert "haAllowedSlaves" in reason
            assert master.state.slaves.slaves == []
            assert await reader.read() == b""  # until the master closes it
            writer.close()

    run(scene())
