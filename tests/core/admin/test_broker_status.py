"""The status of a cluster names every replica, also one that does not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintmq.core.admin.broker_status import BrokerFigures, cluster_status, read_figures
from flintmq.errors import InvalidSetting, Unreachable
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.codes import RequestCode as Code
from support.core.peers import A, B, Peers, Reply, a_cluster, name_servers, no, ok

GOLDEN = Path(__file__).parents[2] / "golden" / "runtime_figures.jsonl"


def answers(address: str, **figures: str) -> dict[tuple[str, int], Reply | list[Reply]]:
    topics = {"orders": TopicConfig(topic_name="orders"), "bills": TopicConfig(topic_name="bills")}
    groups = {"billing": GroupConfig(group_name="billing")}
    return {
        (address, Code.GET_BROKER_RUNTIME_INFO): ok(body=KvTable(table=figures).to_body()),
        (address, Code.GET_ALL_TOPIC_CONFIG): ok(
            body=TopicTable(topic_config_table=topics).to_body()
        ),
        (address, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG): ok(
            body=GroupTable(subscription_group_table=groups).to_body()
        ),
        (address, Code.GET_BROKER_HA_STATUS): no(3, " request type 907 not supported"),  # 4.9
    }


def test_a_broker_that_does_not_answer_is_among_the_others() -> None:
    gone = Unreachable(B, "refused")
    script = a_cluster() | answers(A, putTps="12.5 1 0", commitLogDiskRatio="0.25")
    peers = Peers(script | {(B, Code.GET_BROKER_RUNTIME_INFO): gone})

    on_a, on_b = peers.hold(cluster_status(name_servers()))

    assert on_a.figures is not None
    assert (on_a.role, on_a.error, on_a.figures.sent_per_s) == ("master", None, 12.5)
    assert (on_a.figures.topic_count, on_a.figures.group_count) == (2, 1)
    assert on_a.figures.replicas is None
    assert on_b.figures is None
    assert "refused" in (on_b.error or "")


def test_one_broker_is_asked_when_it_is_named() -> None:
    peers = Peers(a_cluster() | answers(B))

    (found,) = peers.hold(cluster_status(name_servers(), broker="broker-b"))

    assert (found.broker, found.address) == ("broker-b", B)
    with pytest.raises(InvalidSetting, match="known are broker-a, broker-b"):
        peers.hold(cluster_status(name_servers(), broker="broker-x"))


def test_what_is_missing_or_no_number_is_not_known() -> None:
    empty = read_figures({})
    odd = read_figures(
        {
            "putTps": "",
            "earliestMessageTimeStamp": "-1",
            "putLatency99": "-1.00",
            "bootTimestamp": "x",
        }
    )

    assert set(_values(empty)) == {None, 0}
    assert (odd.sent_per_s, odd.oldest_ms, odd.put_p99_ms, odd.started_ms) == (None,) * 4


def _values(figures: BrokerFigures) -> list[object]:
    return [getattr(figures, name) for name in figures.__slots__]


@pytest.mark.parametrize("recorded", GOLDEN.read_text().splitlines(), ids=["4.9.7", "5.3.3"])
def test_figures_that_real_brokers_reported_are_read(recorded: str) -> None:
    found = read_figures(json.loads(recorded)["figures"])

    assert found.version
    assert found.started_ms
    assert found.sent_per_s is not None
    assert found.delivered_per_s is not None
    assert found.log_bytes
    assert found.disk_ratio is not None
    assert 0 < found.disk_ratio < 1
