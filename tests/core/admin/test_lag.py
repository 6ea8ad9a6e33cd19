"""The lag of a group is the sum over all brokers that can be asked, or an error."""

from __future__ import annotations

import pytest

from flintmq.core.admin.lag import GroupLag, LagTrend, QueueLag, group_lag, lag_trend
from flintmq.errors import Unreachable
from flintmq.model.queue import QueueOffset, QueueRef
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


def test_an_offset_beyond_the_end_is_no_negative_lag() -> None:
    ahead = QueueProgress(broker_offset=3, consumer_offset=9)
    peers = Peers(a_cluster() | {(A, Code.GET_CONSUME_STATS): stats(a=ahead), (B, 208): stats()})

    assert peers.hold(group_lag(name_servers(), "billing")).lag == 0


def test_a_sum_without_one_broker_is_not_told() -> None:
    gone = Unreachable(B, "refused")
    peers = Peers(a_cluster() | {(A, Code.GET_CONSUME_STATS): stats(), (B, 208): gone})

    with pytest.raises(Unreachable):
        peers.hold(group_lag(name_servers(), "billing"))


def seen(end: int, at: int, *, name: str = "a") -> GroupLag:
    queue = QueueLag(QueueRef("orders", name, 0), QueueOffset(end), QueueOffset(at), None, None)
    return GroupLag("billing", (queue,), 0.0)


def test_a_trend_is_what_happened_between_two_looks() -> None:
    total, by_queue = lag_trend(seen(100, 20), seen(110, 60), 2_000)

    assert total == LagTrend(20.0, 5.0, 50 / 15)
    assert by_queue == {QueueRef("orders", "a", 0): total}


def test_a_lag_that_does_not_shrink_has_no_end() -> None:
    assert lag_trend(seen(100, 20), seen(140, 60), 1_000)[0] == LagTrend(40.0, 40.0, None)
    assert lag_trend(seen(100, 20), seen(100, 10), 1_000)[0] == LagTrend(0.0, 0.0, None)


def test_the_first_look_and_a_new_queue_have_no_trend() -> None:
    assert lag_trend(None, seen(9, 4), 0)[0] == LagTrend(None, None, None)
    assert lag_trend(None, seen(9, 9), 0)[0] == LagTrend(None, None, 0.0)
    _, by_queue = lag_trend(seen(9, 4), seen(9, 4, name="b"), 1_000)
    assert by_queue[QueueRef("orders", "b", 0)] == LagTrend(None, None, None)
