"""A broker is ready when it can store messages and clients can find it; else it says why not."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Callable
from pathlib import Path

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.monitoring.broker_source import broker_source, why_not_ready
from flintmq.broker.server import BrokerServer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.pages import serve_metrics
from flintmq.net.address import Address
from flintmq.protocol.codes import RequestCode
from support.embedded.asking import ask, header_of
from support.metrics.scraping import page, scrape
from support.store.failing_disk import FailingDisk

HERE = Address("127.0.0.1", 0)


def test_a_broker_that_runs_is_ready_and_alive() -> None:
    with EmbeddedBroker(metrics=HERE) as broker:
        ready, alive = page(broker.metrics, "/readyz"), page(broker.metrics, "/healthz")

    assert ready == (200, '{"status":"ready","reasons":[]}\n')
    assert alive == (200, '{"status":"ok","reasons":[]}\n')


def test_a_broker_that_no_name_server_has_is_not_ready(tmp_path: Path) -> None:
    async def run(nobody: Address) -> tuple[int, str]:
        broker = await BrokerServer.start(tmp_path, BrokerConfig(), listen=HERE, namesrv=[nobody])
        try:
            await asyncio.wait_for(broker.registered.wait(), 60)
            pages = await serve_metrics(HERE, [broker_source(broker)])
            try:
                return await asyncio.to_thread(page, str(pages.address), "/readyz")
            finally:
                await pages.stop()
        finally:
            await broker.stop()

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen: who connects is refused
        nobody = Address(*silent.getsockname())
        status, body = asyncio.run(run(nobody))

    assert status == 503
    assert json.loads(body)["reasons"] == [f"no name server has this broker: {nobody}"]


def test_a_broker_whose_disk_is_full_is_not_ready_until_there_is_room(tmp_path: Path) -> None:
    async def run() -> list[list[str]]:
        disk = FailingDisk()
        broker = await BrokerServer.start(tmp_path, BrokerConfig(), listen=HERE, disk=disk)
        try:
            seen = []
            for number in (errno.ENOSPC, 0):
                disk.number = number
                await asyncio.to_thread(
                    ask, str(broker.address), RequestCode.SEND_MESSAGE_V2, header_of("orders"), b"x"
                )
                seen.append(list(why_not_ready(broker)))
            return seen
        finally:
            await broker.stop()

    full, empty = asyncio.run(run())

    assert len(full) == 1
    assert full[0].startswith("nothing can be stored: ")
    assert empty == []


def test_a_broker_that_stops_is_not_ready(tmp_path: Path) -> None:
    async def run() -> list[list[str]]:
        broker = await BrokerServer.start(tmp_path, BrokerConfig(), listen=HERE)
        seen = [list(why_not_ready(broker))]
        await broker.stop()
        seen.append(list(why_not_ready(broker)))
        return seen

    ready, stopped = asyncio.run(run())

    assert ready == []
    assert "the broker is stopping" in stopped


def test_one_of_several_brokers_that_stopped_leaves_the_scrape() -> None:
    with EmbeddedBroker(brokers=2, metrics=HERE) as broker:
        nodes: Callable[[], set[str]] = lambda: {  # noqa: E731
            each.labels["node_id"] for each in scrape(broker.metrics).find("flintmq_ready")
        }
        both = nodes()
        broker.stop_broker("broker-b")
        one = nodes()
        broker.start_broker("broker-b")
        again = nodes()

    assert both == again == {"broker-a", "broker-b"}
    assert one == {"broker-a"}
