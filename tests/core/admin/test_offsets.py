"""A group is moved the way its broker allows, never out of a queue, and never where its members
would undo it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from flintmq.core.admin.offsets import (
    ResetPlan,
    apply_reset,
    clone_offsets,
    fetch_offsets,
    plan_like,
    plan_reset,
)
from flintmq.core.admin.spans import END, START, Target, ToOffset, ToTime
from flintmq.errors import InvalidSetting, NoRoute
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client import ConsumerConnections
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.bodies.stats import ConsumeStats, QueueProgress
from flintmq.protocol.command import Command
from flintmq.protocol.headers.client_call import ResetOffset
from flintmq.protocol.headers.group import CloneGroupOffset
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from support.core.peers import (
    NS,
    A,
    B,
    Peers,
    Reply,
    a_cluster,
    name_servers,
    no,
    ok,
    route,
    routes,
)

SERVER_SIDE = ok(body=b"useServerSideResetOffset=true\n")
BY_CLIENTS = ok(body=b"brokerName=broker-a\n")
OFFLINE = no(206)
ONLINE = ok(body=ConsumerConnections().to_body())


def at(offset: int) -> Reply:
    return ok(OffsetAnswer(offset=offset))


def world(settings: Reply = SERVER_SIDE, members: Reply = OFFLINE) -> Peers:
    """One queue on each of two brokers, from 10 to 50; the group stands at 30 in the first."""
    script: dict[tuple[str, int], Reply | list[Reply]] = {
        (NS, 105): routes(orders=route(1)),
        (A, 14): at(30),
        (B, 14): no(22),
    }
    for address in (A, B):
        script |= {
            (address, 31): at(10),
            (address, 30): at(50),
            (address, 29): at(99),
            (address, 26): settings,
            (address, 203): members,
            (address, 222): ok(),
            (address, 15): ok(),
        }
    return Peers(a_cluster() | script)


def planned(peers: Peers, target: Target, **which: object) -> ResetPlan:
    return peers.hold(
        plan_reset(name_servers(), "billing", "orders", target, **which)  # type: ignore[arg-type]
    )


def test_a_plan_says_where_the_group_stands_and_where_it_would_go() -> None:
    peers = world()

    plan = planned(peers, START)

    assert [(m.queue.broker, m.stands_at, m.goes_to, m.again) for m in plan.moves] == [
        ("broker-a", 30, 10, 20),
        ("broker-b", None, 10, 0),
    ]
    assert {call.request.code for call in peers.calls} <= {105, 31, 30, 14}  # nothing is changed


def test_a_plan_never_leads_out_of_a_queue() -> None:
    assert [move.goes_to for move in planned(world(), ToTime(5)).moves] == [50, 50]
    assert [move.goes_to for move in planned(world(), END).moves] == [50, 50]
    assert [move.again for move in planned(world(), END).moves] == [-20, 0]
    with pytest.raises(InvalidSetting, match="goes from 10 to 50"):
        planned(world(), ToOffset(QueueOffset(51)))


def test_a_plan_may_be_for_one_queue() -> None:
    plan = planned(world(), START, broker="broker-b", queue_id=0)

    assert [str(move.queue) for move in plan.moves] == ["orders/broker-b/0"]
    assert plan.is_partial


def test_a_queue_that_is_not_there_is_refused() -> None:
    with pytest.raises(NoRoute, match="no queue 7 to read on broker-a"):
        planned(world(), START, broker="broker-a", queue_id=7)


def test_a_broker_without_a_master_cannot_move_a_group() -> None:
    peers = world()
    peers._script[NS, 105] = routes(orders=route(1, addresses={"broker-a": {1: A}}))

    with pytest.raises(NoRoute, match="no master"):
        planned(peers, START)


def test_a_broker_that_resets_by_itself_is_told_queue_and_offset() -> None:
    peers = world(SERVER_SIDE, ONLINE)

    reached = peers.hold(apply_reset(planned(peers, ToOffset(QueueOffset(20)))))

    header = peers.asked(222)[0][1].header(ResetOffset)
    assert (header.queue_id, header.offset, header.is_force) == (0, 20, True)
    assert [address for address, _ in peers.asked(222)] == [A, B]
    assert peers.asked(15) == []
    assert set(reached.values()) == {20}


def test_where_nobody_is_online_an_older_broker_gets_a_plain_commit() -> None:
    peers = world(BY_CLIENTS, OFFLINE)

    peers.hold(apply_reset(planned(peers, ToOffset(QueueOffset(20)))))

    assert peers.asked(222) == []
    assert peers.asked(15)[0][1].header(UpdateConsumerOffset).commit_offset == 20


@pytest.mark.parametrize(("target", "time_ms"), [(ToTime(77), 77), (START, 0), (END, -1)])
def test_members_of_an_older_broker_are_told_the_time(target: Target, time_ms: int) -> None:
    peers = world(BY_CLIENTS, ONLINE)

    peers.hold(apply_reset(planned(peers, target)))

    header = peers.asked(222)[0][1].header(ResetOffset)
    assert (header.timestamp, header.queue_id, header.offset) == (time_ms, None, None)
    assert len(peers.asked(222)) == 2


def test_members_of_an_older_broker_would_undo_an_offset() -> None:
    peers = world(BY_CLIENTS, ONLINE)

    with pytest.raises(InvalidSetting, match="stop them first"):
        peers.hold(apply_reset(planned(peers, ToOffset(QueueOffset(20)))))
    with pytest.raises(InvalidSetting, match="stop them first"):
        peers.hold(apply_reset(planned(peers, START, queue_id=0)))

    assert peers.asked(222) == peers.asked(15) == []


def test_offsets_are_cloned_topic_by_topic_on_every_master() -> None:
    peers = Peers(a_cluster() | {(A, 314): ok(), (B, 314): ok(), (B, 200): ok()})
    billing = GroupConfig(group_name="billing", retry_max_times=3)
    audit = GroupConfig(group_name="audit")
    peers._script[A, 201] = groups(billing, audit)
    peers._script[B, 201] = groups(billing)
    progress = QueueProgress(broker_offset=5, consumer_offset=2)
    for address in (A, B):
        topics = ("orders", "bills", "%RETRY%billing")
        table = {QueueRef(topic, "x", 0): progress for topic in topics}
        peers._script[address, 208] = ok(body=ConsumeStats(offset_table=table).to_body())

    one = peers.hold(clone_offsets(name_servers(), "billing", "audit", topic="orders"))
    told = [request.header(CloneGroupOffset) for _, request in peers.asked(314)]
    every = peers.hold(clone_offsets(name_servers(), "billing", "audit"))

    assert (one, every) == (("orders",), ("bills", "orders"))
    assert [(header.src_group, header.dest_group, header.topic) for header in told] == [
        ("billing", "audit", "orders")
    ] * 2
    assert len(peers.asked(314)) == 6
    made = [(address, GroupConfig.from_body(asked.body)) for address, asked in peers.asked(200)]
    assert made == [(B, GroupConfig(group_name="audit", retry_max_times=3))] * 2


def groups(*configs: GroupConfig) -> Reply:
    table = {config.group_name: config for config in configs}
    return ok(body=GroupTable(subscription_group_table=table).to_body())


def test_a_queue_whose_broker_is_away_is_left_out() -> None:
    peers = world()
    peers._script[NS, 105] = routes(orders=replace(route(1), brokers=route(1).brokers[:1]))

    found = peers.hold(fetch_offsets(name_servers(), "billing", "orders"))

    assert [queue.broker for queue in found] == ["broker-a"]


def test_offsets_are_none_where_the_group_never_was() -> None:
    found = world().hold(fetch_offsets(name_servers(), "billing", "orders"))

    assert found == {
        QueueRef("orders", "broker-a", 0): 30,
        QueueRef("orders", "broker-b", 0): None,
    }


def test_a_group_may_go_where_another_stands() -> None:
    def stands(request: Command) -> Command:
        theirs = request.header(QueryConsumerOffset).consumer_group == "audit"
        return ok(OffsetAnswer(offset=99 if theirs else 30))

    peers = world(BY_CLIENTS, OFFLINE)
    peers._script[A, 14] = stands

    (plan,) = peers.hold(plan_like(name_servers(), "billing", "audit", topic="orders"))
    peers.hold(apply_reset(plan))

    (move,) = plan.moves  # the other broker has no offset of theirs
    assert (move.stands_at, move.goes_to) == (30, 50)  # never out of the queue
    assert peers.asked(15)[0][1].header(UpdateConsumerOffset).commit_offset == 50


def test_members_of_an_older_broker_would_undo_that_too() -> None:
    peers = world(BY_CLIENTS, ONLINE)
    plans = peers.hold(plan_like(name_servers(), "billing", "audit", topic="orders"))

    with pytest.raises(InvalidSetting, match="stop them first"):
        peers.hold(apply_reset(plans[0]))


def test_without_offsets_there_is_nowhere_to_go() -> None:
    peers = world()
    peers._script[A, 14] = no(22)
    for address in (A, B):
        peers._script[address, 208] = ok(body=ConsumeStats().to_body())

    assert peers.hold(plan_like(name_servers(), "billing", "audit", topic="orders")) == ()
    assert peers.hold(plan_like(name_servers(), "billing", "audit")) == ()
