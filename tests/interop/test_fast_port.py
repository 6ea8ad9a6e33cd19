"""Java clients and mqadmin that use the fast channel (vipChannelEnabled) work with our broker.

They ask for two ports below what the route says.  Where nobody listens there, nothing of this
works: a send is not answered and mqadmin cannot connect.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.interop.javaclient import NEW, OLD, JavaClient, MqAdmin
from support.interop.ours import Served, serving
from support.interop.real import free_port

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(300),  # the first test starts servers and JVMs
]


@pytest.fixture(scope="module")
def at_a_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), port=free_port()) as up:
        yield up


@pytest.fixture(scope="module", params=[OLD, NEW])
def fast_client(
    request: pytest.FixtureRequest, at_a_port: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaClient]:
    directory = tmp_path_factory.mktemp("client")
    with JavaClient(request.param, at_a_port.namesrv, directory, fast=True) as up:
        yield up


def test_every_way_of_sending_goes_through_the_fast_port(fast_client: JavaClient) -> None:
    seen = fast_client.play("send")

    assert len(seen.all("stored")) == 9
    assert {seen.one(way)["status"] for way in ("sync", "async", "selected", "queue", "batch")} == {
        "SEND_OK"
    }


def test_a_push_consumer_commits_there_and_pulls_from_the_other_port(
    fast_client: JavaClient,
) -> None:
    seen = fast_client.play("push")

    assert sorted(seen.bodies("seen")) == sorted(f"m{n}" for n in range(60))
    assert seen.bodies("seen next") == ["after a restart"]


def test_transactions_end_as_the_producer_says(fast_client: JavaClient) -> None:
    seen = fast_client.play("transaction")

    assert sorted(seen.bodies("in the end")) == ["C", "U+C", "U+U+C", "last"]


@pytest.mark.parametrize("version", [OLD, NEW])
def test_mqadmin_asks_the_fast_port(
    at_a_port: Served, version: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("mqadmin")
    with MqAdmin(version, at_a_port.namesrv, directory, fast=True) as mqadmin:
        status = mqadmin("brokerStatus", "-b", at_a_port.broker)
        made = mqadmin("updateTopic", "-c", "DefaultCluster", "-t", f"made_by_{version[0]}")

    assert "bootTimestamp" in status
    assert "success" in made
