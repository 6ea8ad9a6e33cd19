"""A name server tells how many brokers and topics it knows, and what it was asked."""

from __future__ import annotations

import asyncio

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.pages import serve_metrics
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.monitoring import FAMILIES, name_server_source
from flintmq.nameserver.server import NameServer
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from support.embedded.asking import send
from support.metrics.scraping import page, scrape

HERE = Address("127.0.0.1", 0)


def test_brokers_topics_and_requests_are_counted() -> None:
    with EmbeddedBroker(brokers=2, metrics=HERE) as servers:
        send(servers.broker, "orders")
        found = scrape(servers.metrics)

    assert found.value("flintmq_namesrv_brokers", cluster="DefaultCluster") == 2
    assert found.value("flintmq_namesrv_topics") > 2
    assert found.value("flintmq_namesrv_connections") >= 2
    assert found.value("flintmq_namesrv_requests_total", request_code="register_broker") >= 2
    assert {each.name for each in FAMILIES} <= found.names
    assert {each.labels["node_type"] for each in found.find("flintmq_namesrv_topics")} == {
        "namesrv"
    }


def test_a_code_that_is_not_served_makes_no_series() -> None:
    async def run() -> tuple[set[str], list[tuple[int, str]]]:
        server = await NameServer.start(NameServerConfig(listen=HERE))
        pages = await serve_metrics(HERE, [name_server_source(server)])
        channels = Channels()
        try:
            for code in (RequestCode.GET_BROKER_CLUSTER_INFO, 4_711):
                await channels.call(str(server.address), request(code), 10_000)
            found = await asyncio.to_thread(scrape, str(pages.address))
            ready = [await asyncio.to_thread(page, str(pages.address), "/readyz")]
            await server.stop()
            ready.append(await asyncio.to_thread(page, str(pages.address), "/readyz"))
        finally:
            await channels.close()
            await pages.stop()
        codes = found.find("flintmq_namesrv_requests_total")
        return {each.labels["request_code"] for each in codes}, ready

    codes, (ready, stopped) = asyncio.run(run())

    assert codes == {"get_broker_cluster_info"}
    assert ready[0] == 200
    assert stopped == (503, '{"status":"not ready","reasons":["the name server is stopping"]}\n')
