"""Masters and slaves of one name: who learns what, and what remains when one of them leaves.

The registrations are those of real slaves of 4.9.7 and 5.3.3, byte for byte.
"""

from __future__ import annotations

import pytest

from flintmq.nameserver.server import NameServer
from flintmq.net.loop import run
from flintmq.protocol.bodies.route import MemberGroup
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.route import BrokerIdentity, BrokerMembersHeader
from flintmq.protocol.wire import encode_command
from support.golden.slave_requests import VERSIONS, slave_requests
from support.nameserver.servers import name_server, register_request, registration, topic_table
from support.net.support import BarePeer, bare_client, until

CLUSTER, MASTER, MASTER_HA, SLAVE = (
    "DefaultCluster",
    "127.0.0.1:20911",
    "127.0.0.1:20912",
    "127.0.0.1:21911",
)


def know_master(server: NameServer, peer: object = "the master") -> None:
    table = topic_table(["orders", "bills"])
    given = registration("broker-a", 0, MASTER, cluster=CLUSTER, table=table, ha_address=MASTER_HA)
    assert server.state.routes.register(given, peer, 0) is not None


async def asked(client: BarePeer, command: Command) -> Command:
    await client.send(encode_command(command))
    return await client.command()


def addresses(server: NameServer) -> dict[int, str]:
    return dict(server.state.routes.members(CLUSTER, "broker-a").broker_addrs)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_slave_gets_the_recorded_answer_to_its_registration(version: str) -> None:
    recorded = slave_requests(version)[RequestCode.REGISTER_BROKER]

    async def main() -> tuple[Command, dict[int, str]]:
        async with name_server() as server:
            know_master(server)
            async with bare_client(server.address) as client:
                await client.send(recorded.request)
                return await client.command(), addresses(server)

    found, members = run(main())

    expected = recorded.answered
    assert found.field_texts() == expected.field_texts()
    assert found.field_texts() == {"haServerAddr": MASTER_HA, "masterAddr": MASTER}
    assert (found.code, found.body) == (expected.code, expected.body)
    assert members == {0: MASTER, 1: SLAVE}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_slave_without_a_master_is_told_neither_address(version: str) -> None:
    recorded = slave_requests(version)[RequestCode.REGISTER_BROKER]

    async def main() -> Command:
        async with name_server() as server, bare_client(server.address) as client:
            await client.send(recorded.request)
            return await client.command()

    found = run(main())

    assert found.code == 0
    assert not found.field_texts()


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_come_from_the_master_and_routes_have_both_addresses(version: str) -> None:
    recorded = slave_requests(version)[RequestCode.REGISTER_BROKER]

    async def main() -> tuple[tuple[str, ...], dict[int, str]]:
        async with name_server() as server:
            know_master(server)
            async with bare_client(server.address) as client:
                await client.send(recorded.request)
                await client.command()
                route = server.state.routes.route("orders")
                assert route is not None
                return server.state.routes.topics(), dict(route.broker_datas[0].broker_addrs)

    topics, replicas = run(main())

    assert topics == ("orders", "bills")
    assert replicas == {0: MASTER, 1: SLAVE}


def test_a_slave_that_unregisters_leaves_its_master_and_the_other_way_round() -> None:
    recorded = slave_requests("5.3.3")

    async def main() -> list[dict[int, str]]:
        async with name_server() as server:
            know_master(server)
            seen = []
            async with bare_client(server.address) as client:
                await client.send(recorded[RequestCode.REGISTER_BROKER].request)
                await client.command()
                leave = BrokerIdentity(
                    broker_name="broker-a", broker_addr=MASTER, cluster_name=CLUSTER, broker_id=0
                )
                await asked(client, request(RequestCode.UNREGISTER_BROKER, leave))
                seen.append(addresses(server))
                know_master(server)
                await client.send(recorded[RequestCode.UNREGISTER_BROKER].request)
                await client.command()
                seen.append(addresses(server))
            return seen

    assert run(main()) == [{1: SLAVE}, {0: MASTER}]


def test_a_lost_connection_of_the_master_leaves_the_topics_with_the_slave() -> None:
    recorded = slave_requests("4.9.7")[RequestCode.REGISTER_BROKER]

    async def main() -> dict[int, str]:
        async with name_server() as server, bare_client(server.address) as slave:
            async with bare_client(server.address) as master:
                given = registration(
                    "broker-a",
                    0,
                    MASTER,
                    cluster=CLUSTER,
                    table=topic_table(["orders", "bills"]),
                    ha_address=MASTER_HA,
                )
                await asked(master, register_request(given))
                await slave.send(recorded.request)
                await slave.command()
            await until(lambda: addresses(server) == {1: SLAVE})
            route = server.state.routes.route("orders")
            assert route is not None
            return dict(route.broker_datas[0].broker_addrs)

    assert run(main()) == {1: SLAVE}


def test_the_members_of_a_name_are_told_to_who_asks() -> None:
    recorded = slave_requests("5.3.3")[RequestCode.REGISTER_BROKER]

    async def main() -> Command:
        async with name_server() as server:
            know_master(server)
            async with bare_client(server.address) as client:
                await client.send(recorded.request)
                await client.command()
                header = BrokerMembersHeader(cluster_name=CLUSTER, broker_name="broker-a")
                return await asked(client, request(RequestCode.GET_BROKER_MEMBER_GROUP, header))

    members = MemberGroup.from_body(run(main()).body).broker_member_group

    assert members is not None
    assert members.broker_addrs == {0: MASTER, 1: SLAVE}
