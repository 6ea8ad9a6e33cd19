"""A slave takes no sends and no changes, and says so with RocketMQ's codes; the rest it serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.admin.read_only import NO_CHANGES, NO_RESETS, REFUSALS
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model.broker_role import BrokerRole
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from support.broker.admin import done, join, make_topic
from support.broker.popping import pop_header
from support.broker.wire import Wire, plain
from support.broker.world import SMALL_STORE, World, header_of

SLAVE = BrokerConfig(store=SMALL_STORE, role=BrokerRole.SLAVE, broker_id=1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A slave with a message, and one that waits for its delay."""
    with World(tmp_path) as master:
        make_topic(master, "T")
        master.send("T")
        master.send("T", properties="DELAY\x011\x02")
        master.send("T", properties="TIMER_DELAY_SEC\x011\x02")
        master.state.groups.create_or_replace(GroupConfig(group_name="g"), master.now_ms)
        master.tables.topics.save(master.state.topics.table())
        master.tables.groups.save(master.state.groups.table())
    with World(tmp_path, SLAVE) as slave:
        yield slave


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_what_stores_or_changes_is_refused_whatever_it_says(world: World, code: int) -> None:
    end = world.state.log.end_offset
    topics, groups = world.state.topics.table(), world.state.groups.table()

    (answer,) = Wire(world).ask(code, plain(code))

    assert (answer.code, answer.remark) == (REFUSALS[code].code, REFUSALS[code].remark)
    assert world.state.log.end_offset == end
    assert (world.state.topics.table(), world.state.groups.table()) == (topics, groups)


def test_the_codes_are_those_of_a_slave_of_rocketmq() -> None:
    codes = {code: (refusal.code, refusal.remark) for code, refusal in REFUSALS.items()}

    for send in (10, 310, 320):
        assert codes[send][0] == ResponseCode.SERVICE_NOT_AVAILABLE
        assert codes[send][1].startswith("service not available now. ")
    assert {codes[code] for code in (17, 200, 207, 215)} == {(1, NO_CHANGES)}
    assert codes[222] == (1, NO_RESETS)
    assert codes[37] == (11, "not set any response code")
    assert codes[36] == (1, "SERVICE_NOT_AVAILABLE")


def test_a_send_that_is_like_the_ones_before_is_refused_too(world: World) -> None:
    wire = Wire(world)

    answers = [wire.ask(310, plain(310), b"x")[0] for _ in range(4)]

    assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}


def test_nothing_is_delivered_by_the_clock(world: World) -> None:
    end = world.state.log.end_offset

    world.advance(3_600_000)

    assert world.state.log.end_offset == end
    assert world.state.delays.delivered_count == world.state.timers.delivered_count == 0


def test_no_part_of_the_broker_can_append(world: World) -> None:
    message = NewMessage("T", 0, b"x", {}, 0, world.state.host, world.state.host)

    with pytest.raises(Refusal, match="service not available"):
        append(world.state, message, world.now_ms)


def test_consumers_join_and_commit_while_their_master_is_gone(world: World) -> None:
    join(world, "g", "T")
    commit = UpdateConsumerOffset(consumer_group="g", topic="T", queue_id=0, commit_offset=1)
    query = QueryConsumerOffset(consumer_group="g", topic="T", queue_id=0)

    done(world, RequestCode.UPDATE_CONSUMER_OFFSET, commit)

    answer = world.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
    assert header_of(answer, OffsetAnswer).offset == 1


@pytest.mark.parametrize("poll_ms", [0, 15_000])
def test_pops_are_refused_and_never_held(world: World, poll_ms: int) -> None:
    """A slave could not write down what it hands out."""
    header = pop_header(world, consumer_group="g", poll_time=poll_ms)

    answer = world.ask(RequestCode.POP_MESSAGE, header)

    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark == "pops are served by the master alone"
    assert len(world.state.held_pops) == world.state.in_flight.message_count == 0
    assert world.state.offsets.query("g", "T", 0) is None


def test_a_master_that_is_fenced_refuses_the_same(tmp_path: Path) -> None:
    with World(tmp_path) as master:
        make_topic(master, "T")
        assert master.send("T").code == ResponseCode.SUCCESS
        master.state.is_read_only = True

        refused = master.send("T")

        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        master.state.is_read_only = False
        assert master.send("T").code == ResponseCode.SUCCESS
