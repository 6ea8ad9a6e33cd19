"""A route reaches every client: compact, quoted or bare, and never with absurd numbers."""

from __future__ import annotations

import pytest

from flintmq.errors import MalformedBody
from flintmq.model.queue import QueueRef
from flintmq.model.route import QUEUES_MAX, BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import READ_WRITE
from flintmq.protocol.bodies.route import (
    BrokerEntry,
    ClusterMembers,
    MemberGroup,
    QueueEntry,
    TopicRoute,
)

ROUTE = Route(
    brokers=(BrokerReplicas("c", "a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}),),
    queues=(QueueCounts("a", 4, 3, READ_WRITE),),
)
QUOTED = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},'
    b'"brokerName":"a","cluster":"c"}],"filterServerTable":{},"queueDatas":[{"brokerName":"a",'
    b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":3}]}'
)


def test_a_route_is_written_without_spaces_and_with_quoted_keys() -> None:
    assert TopicRoute.of(ROUTE).to_body() == QUOTED


def test_old_versions_get_bare_keys() -> None:
    body = TopicRoute.of(ROUTE).to_body(bare_keys=True)

    assert body == QUOTED.replace(b'"0":', b"0:").replace(b'"1":', b"1:")
    assert TopicRoute.from_body(body).to_route() == ROUTE


def test_a_route_comes_back_as_a_value_of_the_model() -> None:
    route = TopicRoute.from_body(QUOTED).to_route()

    assert route == ROUTE
    assert route.publish_queues("t")[-1] == QueueRef("t", "a", 2)


def test_text_outside_ascii_is_escaped_for_those_who_want_standard_json() -> None:
    route = TopicRoute(broker_datas=(BrokerEntry(broker_name="bröker"),))

    assert b"br\\u00f6ker" in route.to_body()
    assert "bröker".encode() in route.to_body(bare_keys=True)
    assert TopicRoute.from_body(route.to_body()) == route


@pytest.mark.parametrize("count", [-1, QUEUES_MAX + 1])
def test_a_route_with_absurd_queue_numbers_is_refused(count: int) -> None:
    route = TopicRoute(queue_datas=(QueueEntry(broker_name="a", read_queue_nums=count),))

    with pytest.raises(MalformedBody):
        route.to_route()


def test_an_order_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(MalformedBody, match="broker:count"):
        TopicRoute(order_topic_conf="a:four").to_route()


def test_a_cluster_is_read_by_name_and_id() -> None:
    cluster = ClusterMembers.from_body(
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"a",'
        b'"cluster":"c"}},"clusterAddrTable":{"c":["a"]}}'
    )
    members = MemberGroup.from_body(
        b'{"brokerMemberGroup":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"c"}}'
    )

    assert cluster.broker_addr_table["a"].broker_addrs == {0: "h:1", 1: "h:2"}
    assert cluster.cluster_addr_table == {"c": ("a",)}
    assert members.broker_member_group is not None
    assert members.broker_member_group.broker_addrs == {0: "h:1"}
