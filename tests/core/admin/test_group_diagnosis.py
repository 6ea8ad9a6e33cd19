"""Why a queue is behind is told by the first reason that holds, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.core.admin.group_diagnosis import (
    MemberTold,
    diagnose_group,
    explain,
    find_conflicts,
)
from flintmq.core.admin.groups import Member
from flintmq.core.admin.lag import QueueLag
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.client_call import QueueState, RunningConsumer, queue_note
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.stats import ConsumeStats, QueueProgress
from flintmq.protocol.bodies.topic import TopicList
from support.core.group_answers import OFFLINE, online, table
from support.core.peers import NS, A, B, Peers, Reply, a_cluster, name_servers, no, ok

QUEUE = QueueRef("orders", "broker-a", 0)
BEHIND = QueueLag(QUEUE, QueueOffset(9), QueueOffset(4), None, None)
NOW_MS = 10_000_000


def member(name: str) -> Member:
    return Member(name, f"{name}:1", "JAVA", "V5_3_3", ("broker-a",))


def told(
    name: str = "c1",
    state: QueueState | None = None,
    *,
    wants: str = "*",
    ordered: bool = False,
    notes: dict[str, str] | None = None,
    has: QueueRef = QUEUE,
) -> MemberTold:
    running = RunningConsumer(
        mq_table={} if state is None else {has: state},
        properties={"PROP_CONSUMEORDERLY": str(ordered).lower()},
        subscription_set=(
            Subscription(topic="orders", sub_string=wants),
            Subscription(topic="%RETRY%billing", sub_string="*"),
        ),
        user_consumer_info=notes,
    )
    return MemberTold(member(name), running)


def silent(name: str = "c9") -> MemberTold:
    return MemberTold(member(name), silence="does not tell: timed out")


def why(*members: MemberTold, is_enabled: bool = True, progress: QueueLag = BEHIND) -> str:
    return explain(progress, members, group="billing", is_enabled=is_enabled, now_ms=NOW_MS)


def test_a_member_that_tells_is_believed() -> None:
    note = {queue_note(QUEUE): "1000 messages cached, the limit is 1000"}

    assert why(told(state=QueueState(), notes=note)) == "1000 messages cached, the limit is 1000"


@pytest.mark.parametrize(
    ("state", "ordered", "expected"),
    [
        (QueueState(dropped=True), False, "giving the queue up"),
        (QueueState(locked=False), True, "waits for the lock"),
        (
            QueueState(cached_msg_count=7, last_consume_timestamp=NOW_MS - 90_000),
            False,
            "7 messages wait for its listeners, and none was consumed for 90 s",
        ),
        (
            QueueState(cached_msg_count=7, last_consume_timestamp=NOW_MS - 10),
            False,
            "7 messages wait for its listeners",
        ),
        (QueueState(last_pull_timestamp=NOW_MS - 130_000), False, "did not pull for 130 s"),
        (QueueState(last_pull_timestamp=NOW_MS - 10, locked=True), True, "it pulls"),
    ],
)
def test_the_numbers_of_a_java_member_are_read(
    state: QueueState, ordered: bool, expected: str
) -> None:
    assert expected in why(told(state=state, ordered=ordered))


def test_without_an_owner_it_is_said_why() -> None:
    other = QueueRef("bills", "broker-a", 0)
    bills = QueueLag(other, QueueOffset(9), QueueOffset(4), None, None)

    assert why() == "no member is online"
    assert "switched off" in why(told(state=QueueState()), is_enabled=False)
    assert "c9 does not tell" in why(told(), silent())
    assert "no member subscribes to bills" in why(told(), progress=bills)
    assert "shared out" in why(told())


def test_members_that_agree_are_no_conflict() -> None:
    both = [told("c1", wants="a || b"), told("c2", wants="b||a"), silent()]

    assert find_conflicts("billing", both, {QUEUE: ["c1"]}) == []


def test_every_disagreement_is_named() -> None:
    members = [told("c1", wants="a"), told("c2", wants="b", ordered=True)]

    found = find_conflicts("billing", members, {QUEUE: ["c2", "c1"]})

    assert found == [
        "members differ on orders: c1 wants a, c2 wants b",
        "some members consume in order, others do not",
        "orders/broker-a/0 belongs to 2 members: c1, c2",
    ]


def progress(**rows: int) -> Reply:
    queues = {
        QueueRef("orders", name.replace("_", "-"), 0): QueueProgress(
            broker_offset=10, consumer_offset=offset
        )
        for name, offset in rows.items()
    }
    return ok(body=ConsumeStats(offset_table=queues).to_body())


def cluster_of(**more: Any) -> dict[tuple[str, int], Reply | list[Reply]]:
    return a_cluster() | {
        (A, 201): table(GroupConfig(group_name="billing")),
        (B, 201): table(),
        (A, 203): more["members"],
        (B, 203): OFFLINE,
        (A, 208): progress(broker_a=4),
        (B, 208): progress(broker_b=10),
        (NS, 206): ok(body=TopicList(topic_list=("orders", "TBW102")).to_body()),
    }


def test_all_is_put_together() -> None:
    running = RunningConsumer(
        mq_table={QUEUE: QueueState()}, user_consumer_info={queue_note(QUEUE): "waits"}
    )
    script = cluster_of(members=online("c1", "c2"))
    peers = Peers(script | {(A, 307): [ok(body=running.to_body()), no(206, "timed out")]})

    found = peers.hold(diagnose_group(name_servers(), "billing", now_ms=NOW_MS))

    assert found.is_known
    assert [each.member.client_id for each in found.members] == ["c1", "c2"]
    assert "timed out" in found.members[1].silence
    assert [(each.progress.lag, each.owners, each.why) for each in found.queues] == [
        (6, ("c1",), "waits"),
        (0, (), ""),
    ]


def test_a_subscribed_topic_that_nobody_created_is_named_with_the_nearest_one() -> None:
    script = cluster_of(members=online("c1", topic="ordrs")) | {(A, 307): no(206, "timed out")}

    found = Peers(script).hold(diagnose_group(name_servers(), "billing", now_ms=NOW_MS))

    assert found.missing == (
        "topic 'ordrs' has no route: nobody created it yet; did you mean 'orders'?",
    )


def test_a_group_nobody_knows_has_nothing() -> None:
    peers = Peers(cluster_of(members=OFFLINE) | {(A, 208): progress(), (B, 208): progress()})

    found = peers.hold(diagnose_group(name_servers(), "nobody", now_ms=NOW_MS))

    assert (found.is_known, found.online, found.members, found.queues) == (False, None, (), ())
