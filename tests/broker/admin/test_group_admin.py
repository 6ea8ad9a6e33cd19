"""Admins make, show and delete consumer groups, with the field names of 4.9 and of 5.x."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.broker_stats import GROUP_GET_NUMS
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import GroupHeader
from flintmq.protocol.headers.group import DeleteGroup, ForbidGroup
from support.broker.admin import done, refused
from support.broker.world import SMALL_STORE, World

CREATE = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
DELETE = RequestCode.DELETE_SUBSCRIPTIONGROUP
ONE = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
FORBID = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


@pytest.mark.parametrize(
    "body",
    [
        (
            b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,'
            b'"consumeFromMinEnable":true,"groupName":"g","notifyConsumerIdsChangedEnable":true,'
            b'"retryMaxTimes":3,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":1}'
        ),
        (
            b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,'
            b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
            b'"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
            b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,"retryQueueNums":2,'
            b'"whichBrokerWhenConsumeSlowly":1}'
        ),
    ],
    ids=["4.9", "5.3"],
)
def test_a_group_is_made_and_shown_as_it_was_sent(world: World, body: bytes) -> None:
    done(world, CREATE, None, body)

    found = world.state.groups.find("g")
    assert found is not None
    assert (found.consume_enable, found.retry_max_times, found.retry_queue_nums) == (False, 3, 2)
    assert done(world, ONE, GroupHeader(group="g")) == body


@pytest.mark.parametrize(
    ("name", "remark"),
    [
        ("", "The specified group is blank."),
        (
            "a b",
            "The specified group contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("g" * 256, "The specified group is longer than group max length."),
    ],
)
def test_a_name_that_may_not_be_is_refused(world: World, name: str, remark: str) -> None:
    asked = GroupConfig(group_name=name)

    assert refused(world, CREATE, None, asked.to_body()) == (29, remark)


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_a_number_of_retry_queues_that_makes_no_sense_is_refused(world: World, count: int) -> None:
    refused(world, CREATE, None, GroupConfig(group_name="g", retry_queue_nums=count).to_body())

    assert "g" not in world.state.groups


def test_unknown_attributes_are_refused_and_known_ones_stay(world: World) -> None:
    asked = GroupConfig(group_name="g", attributes={"+a": "b"})
    assert refused(world, CREATE, None, asked.to_body()) == (1, "unsupported key: a")

    world.state.groups.create_or_replace(
        GroupConfig(group_name="g", attributes={"a": "b"}), world.now_ms
    )
    done(world, CREATE, None, GroupConfig(group_name="g", retry_max_times=1).to_body())

    found = world.state.groups.find("g")
    assert found is not None
    assert (found.retry_max_times, found.attributes) == (1, {"a": "b"})


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff"])
def test_a_body_that_is_no_group_is_refused(world: World, body: bytes) -> None:
    code, _ = refused(world, CREATE, None, body)

    assert code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("header", "offset"),
    [
        (DeleteGroup(group_name="g"), 5),
        (DeleteGroup(group_name="g", remove_offset=False), 5),
        (DeleteGroup(group_name="g", remove_offset=True), None),
        (DeleteGroup(group_name="g", clean_offset=True), None),
    ],
    ids=str,
)
def test_a_deleted_group_leaves_its_offsets_unless_they_go_too(
    world: World, header: DeleteGroup, offset: int | None
) -> None:
    done(world, CREATE, None, GroupConfig(group_name="g").to_body())
    world.state.offsets.commit("g", "T", 0, 5, "test")
    world.state.stats.pulled("g", "T", 1, 1, world.now_ms)

    done(world, DELETE, header)

    assert "g" not in world.state.groups
    assert world.state.offsets.query("g", "T", 0) == offset
    assert world.state.stats.view(GROUP_GET_NUMS, "T@g", world.now_ms) is None


def test_an_unknown_group_is_gone_already(world: World) -> None:
    done(world, DELETE, DeleteGroup(group_name="nope"))


def test_the_group_table_is_shown_as_it_is_saved(world: World) -> None:
    body = done(world, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)

    assert GroupTable.from_body(body) == world.state.groups.table()


def test_an_unknown_group_is_made_by_asking_for_it_where_that_is_allowed(tmp_path: Path) -> None:
    with World(tmp_path / "a") as world:
        shown = GroupConfig.from_body(done(world, ONE, GroupHeader(group="g")))
        assert shown.group_name == "g"
        assert "g" in world.state.groups

    with World(tmp_path / "b", BrokerConfig(store=SMALL_STORE, auto_create_group=False)) as world:
        assert refused(world, ONE, GroupHeader(group="g")) == (26, "No group in this broker")


def test_reading_is_forbidden_and_allowed_again(world: World) -> None:
    asked = ForbidGroup(group="g", topic="T")
    forbidden = ForbidGroup(group="g", topic="T", readable=False)
    allowed = ForbidGroup(group="g", topic="T", readable=True)

    before = done(world, FORBID, asked)
    off = done(world, FORBID, forbidden)
    still_off = done(world, FORBID, asked)
    bits = world.state.groups.table().forbidden_table
    on = done(world, FORBID, allowed)

    assert before == on == b'{"group":"g","readable":true,"topic":"T"}'
    assert off == still_off == b'{"group":"g","readable":false,"topic":"T"}'
    assert bits == {"g": {"T": 4}}  # as 5.x saves it
    assert world.state.groups.may_read("g", "T")


def test_allowing_what_is_allowed_changes_nothing(world: World) -> None:
    version = world.state.groups.version

    done(world, FORBID, ForbidGroup(group="g", topic="T", readable=True))

    assert world.state.groups.version == version
