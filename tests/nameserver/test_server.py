"""A running name server tells clients who lives, and only that, whatever connections do."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed, InvalidSetting, MalformedBody
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.server import NameServer
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels, connect
from flintmq.net.clock import wall_ms
from flintmq.net.loop import run
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.bodies.route import ClusterMembers
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.common_headers import PutSetting, SettingOf
from flintmq.protocol.headers.route import (
    BrokerHeartbeat,
    BrokerIdentity,
    RegisterAnswer,
    RouteOf,
    WritePermOf,
)
from flintmq.protocol.wire import encode_command
from support.nameserver.servers import (
    ask,
    name_server,
    register_request,
    registration,
    route_of,
    topic_table,
)
from support.net.certificates import Authority
from support.net.support import CALL_MS, HERE, HandClock, bare_client, other_tasks, until

A, B = "10.0.0.1:10911", "10.0.0.2:10911"


def test_clients_find_what_two_brokers_told_two_name_servers() -> None:
    """Each server knows both brokers, and one that stops takes nothing away from the other."""
    of_a = registration("broker-a", 0, A)
    of_b = registration("broker-b", 0, B, table=topic_table(["orders", "only on b"]))

    async def main() -> None:
        async with name_server() as first, name_server() as second:
            brokers, client = Channels(), Channels()
            for server in (first, second):
                for given in (of_a, of_b):
                    await brokers.call(str(server.address), register_request(given), CALL_MS)
            channel = await client.reach(str(second.address), CALL_MS)
            await first.stop()

            orders, only = await route_of(channel, "orders"), await route_of(channel, "only on b")

            assert orders is not None
            assert only is not None
            assert {one.broker_name for one in orders.queue_datas} == {"broker-a", "broker-b"}
            assert [one.broker_addrs for one in only.broker_datas] == [{0: B}]
            await brokers.close()
            await client.close()

    run(main())


def test_a_broker_that_stops_is_gone_and_one_that_starts_again_is_there() -> None:
    async def main() -> None:
        async with name_server() as server:
            client = await connect(str(server.address))
            a, b = await connect(str(server.address)), await connect(str(server.address))
            await a.call(register_request(registration("broker-a", 0, A)), CALL_MS)
            await b.call(register_request(registration("broker-b", 0, B)), CALL_MS)

            await a.close()
            await until(lambda: len(server.state.routes.cluster().broker_addr_table) == 1)
            without = await route_of(client, "orders")
            again = await connect(str(server.address))
            await again.call(register_request(registration("broker-a", 0, A)), CALL_MS)
            with_it = await route_of(client, "orders")

            assert without is not None
            assert with_it is not None
            assert [one.broker_name for one in without.broker_datas] == ["broker-b"]
            assert len(with_it.broker_datas) == 2
            for channel in (again, b, client):
                await channel.close()

    run(main())


def test_a_lost_connection_takes_all_brokers_that_shared_it() -> None:
    async def main() -> None:
        async with name_server() as server:
            async with bare_client(server.address) as peer:
                for given in (registration("broker-a", 0, A), registration("broker-b", 0, B)):
                    await peer.send(encode_command(register_request(given)))
                    await peer.command()
                assert len(server.state.routes.cluster().broker_addr_table) == 2
                peer.reset()

            await until(lambda: not server.state.routes.cluster().broker_addr_table)

            assert server.state.routes.topics() == ()

    run(main())


def test_a_broker_that_says_goodbye_is_gone_at_once() -> None:
    identity = BrokerIdentity(broker_name="broker-a", broker_addr=A, cluster_name="c", broker_id=0)

    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            await channel.call(register_request(registration()), CALL_MS)

            done = await ask(channel, RequestCode.UNREGISTER_BROKER, identity)

            assert done.code == 0
            assert await route_of(channel, "orders") is None
            await channel.close()

    run(main())


def test_a_silent_broker_is_forgotten_and_its_connection_closed() -> None:
    clock = HandClock()

    async def main() -> None:
        async with name_server(clock=clock) as server:
            broker = await connect(str(server.address))
            client = await connect(str(server.address))
            await broker.call(register_request(registration(), timeout_ms=30_000), CALL_MS)

            clock.now_ms += 30_000
            server.tick(clock.now_ms)
            still = await route_of(client, "orders")
            clock.now_ms += 1
            server.tick(clock.now_ms)

            assert still is not None
            assert await route_of(client, "orders") is None
            await until(lambda: broker.is_closed)
            assert not client.is_closed
            await client.close()

    run(main())


def test_the_timer_looks_for_silent_brokers_by_itself() -> None:
    clock = HandClock()
    config = NameServerConfig(listen=HERE, scan_interval_ms=10)

    async def main() -> None:
        async with name_server(config, clock=clock) as server:
            broker = await connect(str(server.address))
            await broker.call(register_request(registration()), CALL_MS)

            clock.now_ms += 120_001

            await until(lambda: broker.is_closed)
            assert not server.state.routes.cluster().broker_addr_table

    run(main())


def test_a_heartbeat_keeps_a_broker() -> None:
    clock = HandClock()
    alive = BrokerHeartbeat(cluster_name="c", broker_addr=A, broker_name="broker-a")

    async def main() -> None:
        async with name_server(clock=clock) as server:
            broker = await connect(str(server.address))
            await broker.call(register_request(registration()), CALL_MS)

            clock.now_ms += 100_000
            await ask(broker, RequestCode.BROKER_HEARTBEAT, alive)
            clock.now_ms += 100_000
            server.tick(clock.now_ms)

            assert await route_of(broker, "orders") is not None
            await broker.close()

    run(main())


def test_brokers_outlive_a_clock_that_is_moved() -> None:
    clock = HandClock()
    day_ms = 24 * 60 * 60 * 1000

    async def main() -> None:
        async with name_server(clock=clock) as server:
            broker = await connect(str(server.address))
            await broker.call(register_request(registration()), CALL_MS)

            clock.now_ms += day_ms
            server.carry(day_ms)
            server.tick(clock.now_ms)

            assert await route_of(broker, "orders") is not None
            await broker.close()

    run(main())


def test_a_slave_learns_of_its_master() -> None:
    async def main() -> Command:
        async with name_server() as server:
            channel = await connect(str(server.address))
            await channel.call(register_request(registration("broker-a", 0, A)), CALL_MS)
            told = await channel.call(register_request(registration("broker-a", 1, B)), CALL_MS)
            await channel.close()
            return told

    told = run(main())

    assert told.header(RegisterAnswer) == RegisterAnswer(ha_server_addr=f"ha of {A}", master_addr=A)


def test_requests_of_one_read_are_answered_in_order() -> None:
    asked = [
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteOf(topic=f"t{n}"), opaque=n)
        for n in range(50)
    ]

    async def main() -> list[Command]:
        async with name_server() as server, bare_client(server.address) as peer:
            await peer.send(b"".join(map(encode_command, asked)))
            return [await peer.command() for _ in asked]

    answers = run(main())

    assert [(one.opaque, one.code) for one in answers] == [(n, 17) for n in range(50)]
    assert answers[7].remark == "No topic route info in name server for the topic: t7"


def test_wiped_permission_is_seen_by_the_next_who_asks() -> None:
    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            await channel.call(register_request(registration()), CALL_MS)
            before = await route_of(channel, "orders")
            of_a = WritePermOf(broker_name="broker-a")

            wiped = await ask(channel, RequestCode.WIPE_WRITE_PERM_OF_BROKER, of_a)
            after = await route_of(channel, "orders")

            assert wiped.field_texts() == {"wipeTopicCount": "2"}
            assert before is not None
            assert after is not None
            assert (before.queue_datas[0].perm, after.queue_datas[0].perm) == (6, 4)
            await channel.close()

    run(main())


def test_settings_are_loaded_and_saved_through_what_it_was_given() -> None:
    saved: list[bytes] = []
    put = PutSetting(namespace="n", key="k", value="v")

    async def main() -> Command:
        async with name_server(save=saved.append) as server:
            channel = await connect(str(server.address))
            await ask(channel, RequestCode.PUT_KV_CONFIG, put)
            await channel.close()
        async with name_server(loaded=saved[-1]) as server:
            channel = await connect(str(server.address))
            found = await ask(channel, RequestCode.GET_KV_CONFIG, SettingOf(namespace="n", key="k"))
            await channel.close()
            return found

    assert run(main()).field_texts() == {"value": "v"}


def test_a_setting_that_could_not_be_saved_is_refused_with_the_reason() -> None:
    def refuse(_: bytes) -> None:
        raise DiskFailed("kvConfig.json", "replace", "No space left on device")

    async def main() -> Command:
        async with name_server(save=refuse) as server:
            channel = await connect(str(server.address))
            put = PutSetting(namespace="n", key="k", value="v")
            reply = await ask(channel, RequestCode.PUT_KV_CONFIG, put)
            await channel.close()
            return reply

    reply = run(main())

    assert reply.code == 1
    assert "No space left on device" in (reply.remark or "")


def test_our_own_mistake_is_told_and_logged_and_the_connection_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> tuple[Command, Command]:
        async with name_server() as server:
            channel = await connect(str(server.address))
            with monkeypatch.context() as patch:
                patch.setattr(server.state, "routes", None)
                failed = await ask(channel, RequestCode.GET_BROKER_CLUSTER_INFO)
            worked = await ask(channel, RequestCode.GET_BROKER_CLUSTER_INFO)
            await channel.close()
            return failed, worked

    failed, worked = run(main())

    assert failed.code == 1
    assert worked.code == 0
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert caplog.records[0].levelno == logging.ERROR


def test_an_answer_too_large_for_a_frame_is_refused_with_the_reason() -> None:
    topics = [f"{n:05d}" + "x" * 1_000 for n in range(17_000)]

    async def main() -> Command:
        async with name_server() as server:
            given = registration(table=topic_table(topics))
            server.state.routes.register(given, "p", wall_ms())
            channel = await connect(str(server.address))
            reply = await ask(channel, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            await channel.close()
            return reply

    reply = run(main())

    assert reply.code == 1
    assert "over the limit" in (reply.remark or "")


@pytest.mark.parametrize("bytes_", [b"\x00\x00\x00\x08\x00\x00\x00\x04{xx}", b"GET / HTTP/1.1\r\n"])
def test_bytes_that_are_no_request_end_only_their_own_connection(bytes_: bytes) -> None:
    async def main() -> None:
        async with name_server() as server:
            channel = await connect(str(server.address))
            async with bare_client(server.address) as peer:
                await peer.send(bytes_)
                assert await peer.closed()

            cluster = await ask(channel, RequestCode.GET_BROKER_CLUSTER_INFO)

            assert ClusterMembers.from_body(cluster.body) == ClusterMembers()
            await channel.close()

    run(main())


def test_tls_is_spoken_where_it_is_set_up(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ServerTls(authority.sign("server"), mode=TlsMode.ENFORCING)

    async def main() -> Command:
        server = await NameServer.start(NameServerConfig(listen=HERE), tls=tls)
        channel = await connect(str(server.address), tls=ClientTls(ca_file=authority.ca_file))
        reply = await ask(channel, RequestCode.GET_BROKER_CLUSTER_INFO)
        await channel.close()
        await server.stop()
        return reply

    assert run(main()).code == 0


def test_a_port_that_is_taken_and_a_broken_file_are_refused() -> None:
    async def main() -> None:
        async with name_server() as server:
            with pytest.raises(InvalidSetting, match="listen address"):
                await NameServer.start(NameServerConfig(listen=server.address))
            with pytest.raises(MalformedBody):
                await NameServer.start(NameServerConfig(listen=HERE), loaded=b"{")

    run(main())


def test_stop_closes_every_connection_and_leaves_nothing_running() -> None:
    async def main() -> None:
        server = await NameServer.start(NameServerConfig(listen=Address("127.0.0.1", 0)))
        channel = await connect(str(server.address))
        await channel.call(register_request(registration()), CALL_MS)

        await server.stop()
        await server.stop()

        await until(lambda: channel.is_closed)
        await asyncio.sleep(0)
        assert not other_tasks()

    run(main())
