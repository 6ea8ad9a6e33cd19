"""A proxy tells what calls were answered with, how long they took, and who is connected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'flintmq[dev]'")

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.address import Address
from flintmq.proxy.monitoring import FAMILIES
from flintmq.proxy.tables.call_counts import CANCELLED, CallCounts
from flintmq.proxy.wire.grpc_codes import Code
from support.metrics.scraping import Scrape, scrape
from support.proxy.grpc_client import GrpcClient, producer_settings

HERE = Address("127.0.0.1", 0)


@pytest.fixture(scope="module")
def found() -> Iterator[Scrape]:
    """What is told after a send and a receive, the same of nowhere, and while a stream is open."""
    with EmbeddedBroker(grpc=True, metrics=HERE) as broker:
        with broker.admin() as admin:
            admin.create_topic("orders", queues=1)
        with GrpcClient(broker.grpc, "a") as client:
            stream = client.telemetry()
            stream.tell(producer_settings("orders"))
            stream.hear()
            client.send("orders")
            client.send("nowhere")
            [got] = client.receive_all("orders", "billing", 1)
            client.ack("orders", "billing", [got])
            client.receive("nowhere", "billing")
            yield scrape(broker.metrics)
            stream.close()


def calls(found: Scrape, call: str) -> dict[str, float]:
    rows = found.find("flintmq_proxy_calls_total")
    return {each.labels["code"]: each.value for each in rows if each.labels["call"] == call}


def test_calls_are_counted_by_what_they_were_answered_with(found: Scrape) -> None:
    assert calls(found, "SendMessage") == {"OK": 1, "TOPIC_NOT_FOUND": 1}
    assert calls(found, "AckMessage") == {"OK": 1}
    assert calls(found, "ReceiveMessage") == {"OK": 1, "TOPIC_NOT_FOUND": 1}
    count = found.value("flintmq_proxy_call_milliseconds_count", call="SendMessage")
    assert count == 2


def test_streams_clients_and_connections_are_those_that_are_there(found: Scrape) -> None:
    assert found.value("flintmq_proxy_streams", call="Telemetry") == 1
    assert found.value("flintmq_proxy_streams", call="ReceiveMessage") == 0
    assert found.value("flintmq_proxy_clients") == 1
    assert found.value("flintmq_proxy_connections") >= 1
    assert found.value("flintmq_proxy_receipts") == 0
    assert found.value("flintmq_proxy_refused_total", limit="connectionsMax") == 0
    assert found.value("rocketmq_proxy_up", proxy_mode="cluster", node_type="proxy") == 1
    names = {f"{name}_count" if name.endswith("seconds") else name for name in NAMES}
    assert names <= found.names


NAMES = {each.name for each in FAMILIES}


def test_a_stream_that_its_client_left_counts_as_cancelled() -> None:
    counts = CallCounts()
    with counts.stream("ReceiveMessage"):
        assert counts.open_streams["ReceiveMessage"] == 1
    with counts.stream("ReceiveMessage") as counted:
        counted(Code.OK)

    assert counts.open_streams["ReceiveMessage"] == 0
    assert counts.calls == {("ReceiveMessage", CANCELLED): 1, ("ReceiveMessage", "OK"): 1}
