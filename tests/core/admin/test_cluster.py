"""Brokers are found by name, and changes go to masters only."""

from __future__ import annotations

import pytest

from flintmq.core.admin.cluster import (
    broker_figures,
    broker_settings,
    change_broker_settings,
    fetch_cluster,
    readable_brokers,
    require_route,
)
from flintmq.errors import InvalidSetting, NoRoute
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.codes import RequestCode as Code
from support.core.peers import NS, A, B, Peers, a_cluster, cluster, name_servers, ok, route, routes


def test_the_brokers_come_in_the_order_of_their_names() -> None:
    script = {(NS, 106): cluster({"b": B, "a": A})}

    found = Peers(script).hold(fetch_cluster(name_servers()))  # type: ignore[arg-type]

    assert [known.broker for known in found.brokers] == ["a", "b"]
    assert found.clusters == ("shop",)
    assert found.own_topics == {"shop", "shop_REPLY_TOPIC", "a", "b"}
    assert found.broker_at(B) == "b"
    assert found.broker_at("10.9.9.9:1") is None


def test_a_broker_without_a_master_can_be_read_and_not_changed() -> None:
    peers = Peers({(NS, 106): cluster({"a": A, "b": {2: B, 1: "s:1"}, "c": {}})})

    found = peers.hold(fetch_cluster(name_servers()))

    assert found.masters() == {"a": A}
    assert found.readable() == {"a": A, "b": "s:1"}
    with pytest.raises(InvalidSetting, match="no master is up"):
        found.masters(broker="b")


@pytest.mark.parametrize(("what", "name"), [("cluster", "mill"), ("broker", "broker-x")])
def test_an_unknown_name_is_refused_with_those_that_are_known(what: str, name: str) -> None:
    found = Peers(a_cluster()).hold(fetch_cluster(name_servers()))

    with pytest.raises(InvalidSetting, match="known are") as caught:
        found.masters(**{what: name})

    assert (caught.value.setting, caught.value.value) == (what, name)


def test_masters_are_chosen_by_cluster_and_by_broker() -> None:
    found = Peers(a_cluster()).hold(fetch_cluster(name_servers()))

    assert found.masters("shop", "broker-b") == {"broker-b": B}
    assert list(found.masters("shop")) == ["broker-a", "broker-b"]


def test_a_topic_nobody_has_has_no_route() -> None:
    peers = Peers({(NS, Code.GET_ROUTEINFO_BY_TOPIC): routes(orders=route())})

    found = peers.hold(require_route(name_servers(), "orders"))
    with pytest.raises(NoRoute):
        peers.hold(require_route(name_servers(), "bills"))

    assert readable_brokers(found) == {"broker-a": A, "broker-b": B}


def test_figures_and_settings_are_asked_of_the_broker_that_is_named() -> None:
    peers = Peers(
        a_cluster()
        | {
            (B, Code.GET_BROKER_RUNTIME_INFO): ok(body=KvTable(table={"putTps": "1"}).to_body()),
            (B, Code.GET_BROKER_CONFIG): ok(body=b"brokerName=broker-b\n"),
            (B, Code.UPDATE_BROKER_CONFIG): ok(),
        }
    )
    servers = name_servers()

    assert peers.hold(broker_figures(servers, "broker-b")) == {"putTps": "1"}
    assert peers.hold(broker_settings(servers, "broker-b")) == {"brokerName": "broker-b"}
    peers.hold(change_broker_settings(servers, "broker-b", {"traceOn": "true"}))
    with pytest.raises(InvalidSetting, match="no such broker"):
        peers.hold(broker_figures(servers, "broker-x"))

    ((_, request),) = peers.asked(Code.UPDATE_BROKER_CONFIG)
    assert request.body == b"traceOn=true\n"
