"""The lag of a group is the sum over all brokers that can be asked, or an error."""

from __future__ import annotations

import pytest

from flintmq.core.admin.lag import every_group_lag, group_lag
from flintmq.errors import Unreachable
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.bodies.stats import ConsumeStats, QueueProgress
from flintmq.protocol.codes import RequestCode as Code
from flintmq.protocol.headers.group import ConsumeStatsOf
from support.core.peers import A, B, Peers, Reply, a_cluster, name_servers, ok


def stats(**rows: QueueProgress) -> Reply:
    table = {QueueRef("orders", name, 0): progress for name, progress in rows.items()}
    return ok(body=ConsumeStats(consume_tps=1.5, offset_table=table).to_body())


def test_it_is_summed_over_brokers() -> None:
    on_a = QueueProgress(broker_offset=10, consumer_offset=4, last_timestamp=99, pull_offset=6)
    on_b = QueueProgress(broker_offset=7, consumer_offset=0)
    peers = Peers(
        a_cluster()
        | {(A, Code.GET_CONSUME_STATS): stats(a=on_a), (B, Code.GET_CONSUME_STATS): stats(b=on_b)}
    )

    found = peers.hold(group_lag(name_servers(), "billing", topic="orders"))

    assert (found.group, found.lag, found.consumed_per_second) == ("billing", 13, 3.0)
    assert [(q.queue.broker, q.lag, q.last_consumed_ms, q.in_flight) for q in found.queues] == [
        ("a", 6, 99, 2),
        ("b", 7, None, None),
    ]
    header = peers.asked(Code.GET_CONSUME_STATS)[0][1].header(ConsumeStatsOf)
    assert (header.consumer_group, header.topic) == ("billing", "orders")


def test_every_group_is_asked_about_and_none_of_the_system() -> None:
    groups = {name: GroupConfig(group_name=name) for name in ("billing", "audit", "TOOLS_CONSUMER")}
    known = ok(body=GroupTable(subscription_group_table=groups).to_body())
    behind = QueueProgress(broker_offset=10, consumer_offset=4)
    script = {(each, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG): known for each in (A, B)}
    peers = Peers(a_cluster() | script | {(A, 208): stats(a=behind), (B, 208): stats()})

    found = peers.hold(every_group_lag(name_servers()))

    assert [(each.group, each.lag) for each in found] == [("audit", 6), ("billing", 6)]


def test_an_offset_beyond_the_end_is_no_negative_lag() -> None:
    ahead = QueueProgress(broker_offset=3, consumer_offset=9)
    peers = Peers(a_cluster() | {(A, Code.GET_CONSUME_STATS): stats(a=ahead), (B, 208): stats()})

    assert peers.hold(group_lag(name_servers(), "billing")).lag == 0


def test_a_sum_without_one_broker_is_not_told() -> None:
    gone = Unreachable(B, "refused")
    peers = Peers(a_cluster() | {(A, Code.GET_CONSUME_STATS): stats(), (B, 208): gone})

    with pytest.raises(Unreachable):
        peers.hold(group_lag(name_servers(), "billing"))
