"""Servers start together or not at all, and what they keep outlives them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.servers import BrokerPlan, NameServerPlan, Servers
from flintmq.errors import InvalidSetting, Unreachable
from flintmq.net.address import Address
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.bodies.route import ClusterMembers
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import PutSetting, SettingAnswer, SettingOf
from support.embedded.asking import ask
from support.net.certificates import Authority

OTHER = BrokerConfig(broker_name="broker-b")


def test_a_port_that_is_taken_stops_all_of_them(tmp_path: Path) -> None:
    async def start(taken: Address) -> None:
        await Servers.start(
            [
                BrokerPlan(directory=tmp_path / "a"),
                BrokerPlan(directory=tmp_path / "b", config=OTHER, listen=taken),
            ]
        )

    async def start_again() -> int:
        servers = await Servers.start([BrokerPlan(directory=tmp_path / "a")])
        await servers.stop()
        return len(servers.brokers)

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InvalidSetting, match="in use"),
    ):
        asyncio.run(start(Address(*taken.getsockname()[:2])))

    assert asyncio.run(start_again()) == 0


def test_what_a_name_server_was_told_outlives_it(tmp_path: Path) -> None:
    plan = NameServerPlan(settings_file=tmp_path / "namesrv" / "kvConfig.json")
    key = SettingOf(namespace="ns", key="k")

    async def put() -> None:
        servers = await Servers.start([], [plan])
        told = PutSetting(namespace="ns", key="k", value="v")
        await asyncio.to_thread(ask, str(servers.namesrv[0]), RequestCode.PUT_KV_CONFIG, told)
        await servers.stop()

    async def look() -> str | None:
        servers = await Servers.start([], [plan])
        reply = await asyncio.to_thread(
            ask, str(servers.namesrv[0]), RequestCode.GET_KV_CONFIG, key
        )
        await servers.stop()
        return reply.header(SettingAnswer).value

    asyncio.run(put())

    assert asyncio.run(look()) == "v"


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
def test_brokers_reach_their_name_servers_whatever_tls_is_asked_of_others(
    mode: TlsMode, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ServerTls(authority.sign("server"), mode=mode)

    async def look() -> tuple[dict[str, object], str]:
        servers = await Servers.start([BrokerPlan(directory=tmp_path / "store")], tls=tls)
        where = str(servers.namesrv[0])
        trusting = ClientTls(ca_file=authority.ca_file)
        code = RequestCode.GET_BROKER_CLUSTER_INFO
        reply = await asyncio.to_thread(ask, where, code, tls=trusting)
        try:
            plain = str((await asyncio.to_thread(ask, where, code)).code)
        except Unreachable:
            plain = "refused"
        await servers.stop()
        return dict(ClusterMembers.from_body(reply.body).broker_addr_table), plain

    brokers, plain = asyncio.run(look())

    assert list(brokers) == ["broker-a"]
    assert plain == ("refused" if mode is TlsMode.ENFORCING else str(int(ResponseCode.SUCCESS)))


def test_a_broker_that_no_name_server_takes_is_no_start(tmp_path: Path) -> None:
    """Its cluster's name is longer than a name server accepts."""
    plan = BrokerPlan(directory=tmp_path, config=BrokerConfig(cluster="c" * 2_000))

    async def start() -> None:
        await Servers.start([plan])

    with pytest.raises(Unreachable, match="could not be registered"):
        asyncio.run(start())
