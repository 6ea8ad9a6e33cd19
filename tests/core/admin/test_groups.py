"""What brokers say of a group is merged, and a group with members is not deleted."""

from __future__ import annotations

import pytest

from flintmq.core.admin.groups import (
    Wish,
    create_group,
    delete_group,
    describe_consumer,
    fetch_members,
    fetch_producers,
    list_groups,
)
from flintmq.core.ask import CLIENT_CALL_MS
from flintmq.errors import BrokerRefused, InvalidName, InvalidSetting
from flintmq.protocol.bodies.client import (
    ClientConnection,
    ProducerConnections,
)
from flintmq.protocol.bodies.client_call import RunningConsumer
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode as Code
from flintmq.protocol.headers.client_call import DescribeConsumer
from flintmq.protocol.headers.group import DeleteGroup
from support.core.group_answers import OFFLINE, online, table
from support.core.peers import NS, A, B, Peers, Reply, a_cluster, name_servers, no, ok


def test_groups_are_merged_by_name() -> None:
    billing = GroupConfig(group_name="billing", retry_max_times=3)
    off = GroupConfig(group_name="billing", retry_max_times=3, consume_enable=False)
    tools = GroupConfig(group_name="TOOLS_CONSUMER")
    peers = Peers(a_cluster() | {(A, 201): table(billing, tools), (B, 201): table(off)})

    found = peers.hold(list_groups(name_servers()))

    assert [(g.name, g.brokers, g.retry_max, g.is_enabled, g.is_system) for g in found] == [
        ("TOOLS_CONSUMER", ("broker-a",), 16, True, True),
        ("billing", ("broker-a", "broker-b"), 3, False, False),
    ]


def test_a_group_is_set_up_on_every_master_that_is_meant() -> None:
    peers = Peers(a_cluster() | {(A, 200): ok(), (B, 200): ok()})

    everywhere = peers.hold(create_group(name_servers(), "billing", retry_max=5))
    only_b = peers.hold(create_group(name_servers(), "billing", broker="broker-b"))

    body = GroupConfig.from_body(peers.asked(200)[0][1].body)
    assert (body.group_name, body.retry_max_times, body.consume_enable) == ("billing", 5, True)
    assert (everywhere, only_b) == (("broker-a", "broker-b"), ("broker-b",))


def test_a_bad_name_is_refused_before_anybody_is_asked() -> None:
    for conversation in (create_group(name_servers(), "a b"), delete_group(name_servers(), "")):
        with pytest.raises(InvalidName):
            Peers({}).hold(conversation)


def deletable() -> Peers:
    script: dict[tuple[str, int], Reply | list[Reply]] = {(NS, 216): ok()}
    for address in (A, B):
        script |= {(address, 203): OFFLINE, (address, 207): ok(), (address, 215): ok()}
    return Peers(a_cluster() | script)


def test_a_group_goes_with_its_offsets_and_its_topics() -> None:
    peers = deletable()

    peers.hold(delete_group(name_servers(), "billing"))

    header = peers.asked(207)[0][1].header(DeleteGroup)
    assert (header.remove_offset, header.clean_offset) == (True, True)  # 4.9's name and 5.x's
    assert len(peers.asked(215)) == 4
    topics = {request.field_texts()["topic"] for _, request in peers.asked(216)}
    assert topics == {"%RETRY%billing", "%DLQ%billing"}


def test_its_topics_may_stay() -> None:
    peers = deletable()

    peers.hold(delete_group(name_servers(), "billing", with_topics=False, with_offsets=False))

    assert peers.asked(215) == []
    assert peers.asked(207)[0][1].header(DeleteGroup).clean_offset is False


def test_a_group_with_members_stays() -> None:
    peers = deletable()
    peers._script[B, 203] = online("c1")

    with pytest.raises(InvalidSetting, match=r"members online \(c1\)"):
        peers.hold(delete_group(name_servers(), "billing"))

    assert peers.asked(207) == []


def test_members_are_merged_over_brokers() -> None:
    peers = Peers(a_cluster() | {(A, 203): online("c2", "c1"), (B, 203): online("c1", text="x")})

    found = peers.hold(fetch_members(name_servers(), "billing"))

    assert found is not None
    assert [(m.client_id, m.brokers) for m in found.members] == [
        ("c1", ("broker-a", "broker-b")),
        ("c2", ("broker-a",)),
    ]
    assert found.members[0].version == "V5_3_3"
    assert found.wishes == (Wish("orders", "*"), Wish("orders", "x"))


def test_nobody_online_is_none() -> None:
    peers = Peers(a_cluster() | {(A, 203): OFFLINE, (B, 203): OFFLINE})

    assert peers.hold(fetch_members(name_servers(), "billing")) is None


def test_a_broker_that_refuses_is_not_taken_for_an_empty_group() -> None:
    peers = Peers(a_cluster() | {(A, 203): no(16, "no right"), (B, 203): OFFLINE})

    with pytest.raises(BrokerRefused):
        peers.hold(fetch_members(name_servers(), "billing"))


def test_producers_are_merged_and_may_be_none() -> None:
    body = ProducerConnections(connection_set=(ClientConnection(client_id="p1"),)).to_body()
    peers = Peers(a_cluster() | {(A, 204): ok(body=body), (B, 204): no(1, "not exist")})

    (found,) = peers.hold(fetch_producers(name_servers(), "shop"))

    assert (found.client_id, found.language, found.brokers) == ("p1", "?", ("broker-a",))


def test_a_member_is_asked_through_a_broker_it_is_connected_to() -> None:
    told = RunningConsumer(jstack="main: waiting", properties={"consumeThreadMin": "20"})
    peers = Peers(
        a_cluster() | {(A, 203): OFFLINE, (B, 203): online("c1"), (B, 307): ok(body=told.to_body())}
    )

    found = peers.hold(describe_consumer(name_servers(), "billing", "c1", with_stacks=True))

    assert found.stacks == "main: waiting"
    assert found.settings == {"consumeThreadMin": "20"}
    assert peers.asked(307)[0][1].header(DescribeConsumer).jstack_enable is True
    assert peers.calls[-1].timeout_ms == CLIENT_CALL_MS


def test_who_is_not_online_cannot_be_asked() -> None:
    peers = Peers(a_cluster() | {(A, 203): OFFLINE, (B, 203): online("c1")})

    with pytest.raises(InvalidSetting, match="online: c1"):
        peers.hold(describe_consumer(name_servers(), "billing", "c9"))


def test_a_broker_that_goes_meanwhile_is_said_so() -> None:
    peers = Peers(a_cluster() | {(A, 203): OFFLINE, (B, 203): online("c1")})
    from support.core.peers import cluster

    peers._script[NS, Code.GET_BROKER_CLUSTER_INFO] = [cluster(), cluster({"broker-a": A})]

    with pytest.raises(InvalidSetting, match="broker-b has gone"):
        peers.hold(describe_consumer(name_servers(), "billing", "c1"))
