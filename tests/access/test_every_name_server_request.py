"""A name server changes and says nothing for who has no rights, whatever the request code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from flintmq.access.needs import TABLE
from flintmq.access.rights import Reserved
from flintmq.access.rules import Dialect
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.processors import PROCESSORS
from flintmq.nameserver.server import NameServer
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.route import QueueEntry, TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import ONEWAY_BIT, Command
from support.broker.guarded import accounts_of, real_body, real_fields, signed
from support.broker.wire import command_of
from support.nameserver.servers import register_request, registration
from support.net.support import CALL_MS

DIALECTS = pytest.mark.parametrize("dialect", list(Dialect), ids=["ACL 1.0", "ACL 2.0"])
UNKNOWN = 99_999
KNOWN = registration("true", 0)
WIPED = registration("wiped", 0, "10.0.0.2:10911")
READING = ("GET_", "QUERY_")


@asynccontextmanager
async def serving(dialect: Dialect) -> AsyncIterator[tuple[NameServer, Channel]]:
    server = await NameServer.start(
        NameServerConfig(listen=Address("127.0.0.1", 0)), accounts=accounts_of(dialect)
    )
    channel = await connect(str(server.address))
    try:
        for given in (KNOWN, WIPED):
            register = signed(register_request(given), "root-user")
            assert (await channel.call(register, CALL_MS)).code == ResponseCode.SUCCESS
        server.state.routes.wipe_write_permission(WIPED.broker)
        for replica in server.state.routes._replicas.values():
            replica.seen_ms -= 1_000  # so that a sign of life shows
        server.state.settings.put("true", "true", "v")
        server.state.settings.put("n", "k", "v")
        yield server, channel
    finally:
        await channel.close()
        await server.stop()


def picture(server: NameServer) -> str:
    state = server.state
    routes = state.routes
    topics = {topic: routes.route(topic) for topic in ("orders", "bills", "T")}
    seen = {place: replica.seen_ms for place, replica in routes._replicas.items()}
    return repr(
        (routes.cluster(), topics, seen, state.settings._table, state.config, len(routes._topics))
    )


def request_of(code: RequestCode) -> Command:
    if code is RequestCode.REGISTER_BROKER:
        return register_request(registration("broker-evil", 0, "10.0.0.66:10911"))
    body = b"orderMessageEnable=true" if "CONFIG" in code.name else real_body(code)
    fields = real_fields(code)
    known = {
        "topic": "orders",
        "brokerName": KNOWN.broker,
        "brokerAddr": KNOWN.address,
        "clusterName": KNOWN.cluster,
    }
    fields |= {name: text for name, text in known.items() if name in fields}
    match code:
        case RequestCode.ADD_WRITE_PERM_OF_BROKER:
            fields["brokerName"] = WIPED.broker
        case RequestCode.REGISTER_TOPIC_IN_NAMESRV:
            fields["topic"] = "T"
            body = TopicRoute(queue_datas=(QueueEntry(broker_name=KNOWN.broker),)).to_body()
        case RequestCode.QUERY_DATA_VERSION:
            body = DataVersion().to_body()
        case _:
            pass
    return command_of(code, fields, body)


@DIALECTS
@pytest.mark.parametrize(
    ("who", "secret"),
    [(None, None), ("root-user", "guessed pw"), ("nobody12", "nobodypw"), ("elsewhere", None)],
    ids=["no account", "wrong signature", "unknown account", "other rights"],
)
def test_without_the_rights_nothing_happens(
    dialect: Dialect, who: str | None, secret: str | None
) -> None:
    async def main() -> None:
        async with serving(dialect) as (server, channel):
            before = picture(server)
            for code in RequestCode:
                command = signed(request_of(code), who, secret)
                answer = await channel.call(command, CALL_MS)
                assert answer.code != ResponseCode.SUCCESS, (code, answer)
                assert answer.body == b""
                channel.send_oneway_now(replace(command, flag=ONEWAY_BIT))
                assert picture(server) == before, code
            unknown = signed(command_of(UNKNOWN, {"topic": "orders"}), who, secret)
            answer = await channel.call(unknown, CALL_MS)
            assert answer.code != ResponseCode.SUCCESS
            await channel.call(command, CALL_MS)  # the oneway requests before it were read
            assert picture(server) == before

    asyncio.run(main())


@DIALECTS
def test_with_the_rights_requests_are_served(dialect: Dialect) -> None:
    async def main() -> None:
        changing = set()
        for code in PROCESSORS:
            async with serving(dialect) as (server, channel):
                before = picture(server)
                who = "root-user" if TABLE[code] is Reserved.SUPER else "granted"
                answer = await channel.call(signed(request_of(code), who), CALL_MS)
                assert answer.code != ResponseCode.NO_PERMISSION, (code, answer)
                assert "AclException" not in (answer.remark or ""), (code, answer)
                if picture(server) != before:
                    changing.add(code)
        must_change = {code for code in PROCESSORS if not code.name.startswith(READING)}
        assert must_change - changing == set(), "the pictures miss something"

    asyncio.run(main())
