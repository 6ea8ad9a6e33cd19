"""Name servers learn all topics of a broker, or the changed ones, as its permission allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.registration import (
    heartbeat_request,
    order_topics,
    register_request,
    unregister_request,
)
from flintmq.model.topic import AUTO_CREATE_TOPIC, Permission
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.register import BrokerRegistration, body_crc32
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.headers.route import BrokerHeartbeat, BrokerIdentity, RegisterBroker
from support.broker.world import SMALL_STORE, START_MS, World

CONFIG = BrokerConfig(broker_name="broker-b", cluster="c1", store=SMALL_STORE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, CONFIG) as world:
        world.state.topics.ensure("orders", 4, START_MS)
        yield world


def table_of(command: Command) -> TopicTable:
    return BrokerRegistration.from_body(command.body).topic_config_serialize_wrapper


def topics_of(command: Command) -> dict[str, TopicConfig]:
    return table_of(command).topic_config_table


def test_a_broker_says_who_it_is_and_where(world: World) -> None:
    command = register_request(world.state)

    header = command.header(RegisterBroker)
    assert command.code == RequestCode.REGISTER_BROKER
    assert (header.broker_name, header.cluster_name) == ("broker-b", "c1")
    assert (header.broker_id, header.broker_addr) == (0, world.state.address)
    assert header.body_crc32 == body_crc32(command.body)
    assert not header.compressed


@pytest.mark.parametrize(("acting", "timeout_ms"), [(False, None), (True, 7_000)])
def test_who_may_act_as_a_master_says_so_and_how_long_it_may_be_silent(
    tmp_path: Path, acting: bool, timeout_ms: int | None
) -> None:
    with World(tmp_path, replace(CONFIG, acting_master=acting, not_active_ms=7_000)) as world:
        header = register_request(world.state).header(RegisterBroker)

    assert header.enable_acting_master is acting
    assert header.heartbeat_timeout_millis == timeout_ms


def test_a_heartbeat_says_which_broker_lives(world: World) -> None:
    command = heartbeat_request(world.state)

    header = command.header(BrokerHeartbeat)
    assert command.code == RequestCode.BROKER_HEARTBEAT
    assert (header.cluster_name, header.broker_name) == ("c1", "broker-b")
    assert (header.broker_id, header.broker_addr) == (0, world.state.address)


def test_all_topics_are_told_with_their_version(world: World) -> None:
    command = register_request(world.state)

    assert topics_of(command).keys() == {topic.topic_name for topic in world.state.topics}
    assert table_of(command).data_version == world.state.topics.version


def test_a_changed_topic_is_told_alone_with_the_newest_version(world: World) -> None:
    world.state.topics.ensure("bills", 2, START_MS + 1)

    command = register_request(world.state, ["bills"])

    assert list(topics_of(command)) == ["bills"]
    assert table_of(command).data_version == world.state.topics.version


def test_after_a_topic_was_removed_all_others_are_told(world: World) -> None:
    world.state.topics.remove("orders", START_MS + 1)

    command = register_request(world.state, ["orders"])

    assert "orders" not in topics_of(command)
    assert topics_of(command).keys() == {topic.topic_name for topic in world.state.topics}


def test_a_full_permission_leaves_topics_as_they_are(world: World) -> None:
    command = register_request(world.state)

    template = topics_of(command)[AUTO_CREATE_TOPIC]
    assert template.permission & Permission.INHERIT


@pytest.mark.parametrize("named", [None, ["orders"]], ids=["all", "one"])
def test_what_the_broker_may_not_do_no_topic_may(world: World, named: list[str] | None) -> None:
    world.state.config = replace(world.state.config, permission=int(Permission.READ))

    command = register_request(world.state, named)

    assert {topic.perm for topic in topics_of(command).values()} == {int(Permission.READ)}
    assert topics_of(command)["orders"].read_queue_nums == 4


def test_the_list_is_encoded_once_for_each_state_it_had(world: World) -> None:
    first = register_request(world.state)

    again = register_request(world.state)
    world.state.topics.ensure("bills", 2, START_MS + 1)
    changed = register_request(world.state)

    assert again.body is first.body
    assert "bills" in topics_of(changed)


def test_a_permission_that_changed_is_told_at_once(world: World) -> None:
    before = register_request(world.state)
    world.state.config = replace(world.state.config, permission=int(Permission.READ))

    after = register_request(world.state)

    assert topics_of(after)["orders"].perm != topics_of(before)["orders"].perm


def test_a_broker_that_stops_says_which_one_it_was(world: World) -> None:
    command = unregister_request(world.state)

    assert command.code == RequestCode.UNREGISTER_BROKER
    assert command.header(BrokerIdentity) == BrokerIdentity(
        broker_name="broker-b",
        broker_addr=world.state.address,
        cluster_name="c1",
        broker_id=0,
    )


def test_the_answer_names_the_ordered_topics() -> None:
    body = KvTable(table={"orders": "broker-b:4", "bills": "broker-b:1"}).to_body()
    reply = answer(Command(), ResponseCode.SUCCESS, body=body)

    assert order_topics(reply) == ["orders", "bills"]


@pytest.mark.parametrize("body", [b"", b"no table", b"{}"])
def test_an_answer_without_ordered_topics_names_none(body: bytes) -> None:
    reply = answer(Command(), ResponseCode.SUCCESS, body=body)

    assert order_topics(reply) == []
