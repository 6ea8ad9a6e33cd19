"""What the tests of the name server share: brokers that register, servers that run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.replicas import Registration
from flintmq.nameserver.server import NameServer
from flintmq.nameserver.settings import Save
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.register import BrokerRegistration, body_crc32
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.route import RegisterBroker, RouteOf
from support.net.support import CALL_MS, HandClock
from support.protocol.registrations import compressed_form

TOPICS = ("orders", "bills")


def topic_table(
    topics: Iterable[str | TopicConfig] = TOPICS, version: int = 1, state_version: int | None = 0
) -> TopicTable:
    configs = [TopicConfig(topic_name=one) if isinstance(one, str) else one for one in topics]
    return TopicTable(
        data_version=DataVersion(counter=version, state_version=state_version, timestamp=version),
        topic_config_table={config.topic_name: config for config in configs},
    )


def registration(
    broker: str = "broker-a",
    broker_id: int = 0,
    address: str = "10.0.0.1:10911",
    *,
    cluster: str = "c",
    table: TopicTable | None = None,
    filter_servers: tuple[str, ...] = (),
    acting_master: bool | None = False,
    timeout_ms: int = 120_000,
    ha_address: str | None = None,
) -> Registration:
    return Registration(
        cluster=cluster,
        broker=broker,
        broker_id=broker_id,
        address=address,
        ha_address=ha_address or f"ha of {address}",
        table=table or topic_table(),
        filter_servers=filter_servers,
        acting_master=acting_master,
        timeout_ms=timeout_ms,
    )


def register_request(
    given: Registration, *, compressed: bool = False, timeout_ms: int | None = None
) -> Command:
    """A registration as a broker of 5.x sends it."""
    told = BrokerRegistration(
        filter_server_list=given.filter_servers, topic_config_serialize_wrapper=given.table
    )
    body = compressed_form(told, 479) if compressed else told.to_body()
    header = RegisterBroker(
        broker_name=given.broker,
        broker_addr=given.address,
        cluster_name=given.cluster,
        broker_id=given.broker_id,
        ha_server_addr=given.ha_address,
        heartbeat_timeout_millis=timeout_ms,
        enable_acting_master=given.acting_master,
        compressed=compressed,
        body_crc32=body_crc32(body),
    )
    return request(RequestCode.REGISTER_BROKER, header, body)


@asynccontextmanager
async def name_server(
    config: NameServerConfig | None = None,
    *,
    clock: HandClock | None = None,
    loaded: bytes | None = None,
    save: Save | None = None,
) -> AsyncIterator[NameServer]:
    config = config or NameServerConfig(listen=Address("127.0.0.1", 0))
    server = await NameServer.start(config, clock=clock or HandClock(), loaded=loaded, save=save)
    try:
        yield server
    finally:
        await server.stop()


async def ask(
    channel: Channel, code: int, header: Header | None = None, body: bytes = b""
) -> Command:
    return await channel.call(request(code, header, body), CALL_MS)


async def route_of(channel: Channel, topic: str) -> TopicRoute | None:
    found = await ask(channel, RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteOf(topic=topic))
    return TopicRoute.from_body(found.body) if found.code == 0 else None
