"""Java clients go on while one of our brokers or name servers is away, and nothing is lost.

Two brokers are registered at two name servers.  A producer never stops and two consumers share
its topic, while a server ends, in order or not, and comes back on its port and its store.

    acknowledged ⊆ stored      every message, where its answer said
    acknowledged ⊆ consumed    at least once
    no send failed             a retry goes to the other broker
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli.serving import ANYWHERE, running
from support.interop.cluster import REGISTER_MS, Cluster, Server, route, running_cluster, wait_until
from support.interop.javaclient import JavaClient
from support.interop.ours import Kind, chosen_kind

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(300),  # some 15 s each; on a busy machine several times that
    pytest.mark.skipif(chosen_kind() is not Kind.OURS, reason="these start our own processes"),
]

BOTH = {"broker-a", "broker-b"}
OTHER = {"broker-a": "broker-b", "broker-b": "broker-a"}
SOME = 100  # messages: half a second of traffic or more
NOTICED_WITHIN_S = 5.0  # an end is told to name servers, or they see the connection go
TRAFFIC_WITHIN_S = 30.0
REGISTERED_WITHIN_S = REGISTER_MS / 1000 + 5.0
SETTLED_AFTER = 4 * SOME  # by then clients have asked for routes more than once


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as up:
        yield up


@pytest.fixture
def client(cluster: Cluster, version: str, tmp_path: Path) -> Iterator[JavaClient]:
    with JavaClient(version, cluster.namesrv, tmp_path / "client") as up:
        yield up


class Traffic:
    """A producer and two consumers at work."""

    def __init__(self, client: JavaClient) -> None:
        self._client = client
        self.topic: str = client.play("traffic").one("topic")["name"]

    def acknowledged(self, *brokers: str) -> list[int]:
        """How many messages these brokers took so far."""
        counts = self._client.play("traffic-so-far").one("so far")["acknowledged"]
        return [counts.get(broker, 0) for broker in brokers]

    def goes_on(self, *brokers: str, count: int = SOME) -> None:
        """Wait until each of these brokers took so many more."""
        before = self.acknowledged(*brokers)

        def more() -> bool:
            now = self.acknowledged(*brokers)
            return all(after - start >= count for after, start in zip(now, before, strict=True))

        wait_until(f"more messages at {brokers}", more, TRAFFIC_WITHIN_S)

    def ends_well(self) -> None:
        """Stop it and see that nothing failed and nothing is missing."""
        told = self._client.play("traffic-end")

        acknowledged = places(told.all("acknowledged"))
        seen = [set(member["bodies"]) for member in told.all("seen")]
        assert {status["status"] for status in told.all("acknowledged")} == {"SEND_OK"}
        assert acknowledged - places(told.all("stored")) == set()
        assert {body for body, *_ in acknowledged} - set.union(*seen) == set()
        assert all(seen), "a member got nothing"
        assert told.one("so far")["failures"] == []


def places(events: list[dict[str, Any]]) -> set[tuple[str, str, int, int]]:
    return {(one["body"], one["broker"], one["queue"], one["offset"]) for one in events}


def is_routed(
    cluster: Cluster,
    topic: str,
    brokers: set[str],
    servers: list[Server],
    within_s: float = NOTICED_WITHIN_S,
) -> None:
    """Wait until these name servers list exactly these brokers, where they are."""
    wanted = {name: cluster.brokers[name].address for name in brokers}

    def agree() -> bool:
        return all(route(server.address, topic) == wanted for server in servers)

    wait_until(f"{brokers} at {len(servers)} name servers", agree, within_s)


def test_a_topic_is_made_on_every_broker_that_gets_a_message_of_it(
    cluster: Cluster, client: JavaClient
) -> None:
    told = client.play("send-to-new-topic-on-both")

    acknowledged = places(told.all("acknowledged"))
    assert {broker for _, broker, *_ in acknowledged} == BOTH
    assert len(acknowledged) == 16
    assert acknowledged == places(told.all("stored"))
    is_routed(cluster, f"{told.prefix}new", BOTH, cluster.name_servers)


@pytest.mark.parametrize(
    ("name", "end"),
    [("broker-b", Server.stop), ("broker-b", Server.kill), ("broker-a", Server.kill)],
    ids=["stopped", "killed", "killed-with-sync"],
)
def test_clients_go_on_without_a_broker_and_with_it_when_it_is_back(
    cluster: Cluster, client: JavaClient, name: str, end: Callable[[Server], None]
) -> None:
    traffic = Traffic(client)
    traffic.goes_on(*BOTH)

    end(cluster.brokers[name])
    is_routed(cluster, traffic.topic, {OTHER[name]}, cluster.name_servers)
    traffic.goes_on(OTHER[name], count=SETTLED_AFTER)
    cluster.brokers[name].start()
    is_routed(cluster, traffic.topic, BOTH, cluster.name_servers)
    traffic.goes_on(*BOTH)

    traffic.ends_well()


def test_clients_and_brokers_go_on_with_either_name_server(
    cluster: Cluster, client: JavaClient, version: str, tmp_path: Path
) -> None:
    first, second = cluster.name_servers
    traffic = Traffic(client)
    traffic.goes_on(*BOTH)

    for away, left in [(first, second), (second, first)]:
        away.stop()
        traffic.goes_on(*BOTH, count=SETTLED_AFTER)
        with JavaClient(version, cluster.namesrv, tmp_path / "newcomer") as newcomer:
            told = newcomer.play("newcomer")
        assert set(told.one("seen")["bodies"]) == {f"m{n}" for n in range(20)}

        away.start()
        assert route(away.address, traffic.topic) == {}
        is_routed(cluster, traffic.topic, BOTH, [away], REGISTERED_WITHIN_S)
        for server in (away, left):
            assert set(route(server.address, told.one("topic")["name"])) == BOTH

    traffic.ends_well()


def test_a_broker_that_starts_while_a_name_server_is_away_registers_there_later(
    cluster: Cluster, client: JavaClient
) -> None:
    first, second = cluster.name_servers
    broker = cluster.brokers["broker-b"]
    traffic = Traffic(client)
    traffic.goes_on(*BOTH)

    first.kill()
    broker.kill()
    broker.start()
    is_routed(cluster, traffic.topic, BOTH, [second])
    traffic.goes_on(*BOTH)
    first.start()
    is_routed(cluster, traffic.topic, BOTH, [first], REGISTERED_WITHIN_S)

    traffic.ends_well()


def test_a_broker_process_of_serve_is_killed_and_comes_back(version: str, tmp_path: Path) -> None:
    anywhere = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
    with (
        running("serve", "--brokers", "2", *anywhere, "--data", tmp_path / "data") as served,
        JavaClient(version, served.namesrv, tmp_path / "client") as client,
    ):
        traffic = Traffic(client)
        traffic.goes_on(*BOTH)
        os.kill(served.brokers()["broker-b"], signal.SIGKILL)
        traffic.goes_on("broker-a")
        traffic.goes_on("broker-b")  # it is back
        traffic.ends_well()
        code = served.stop()

    assert code == 0
