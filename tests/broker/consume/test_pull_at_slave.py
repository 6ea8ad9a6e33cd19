"""Pulls at a slave: messages are served, offsets are neither stored by them nor corrected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.model.broker_role import BrokerRole
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.headers.pull import PullAnswer
from support.broker.pulling import (
    COMMIT,
    GROUP,
    SUBSCRIPTION,
    SUSPEND,
    TOPIC,
    add_topic,
    bodies_of,
    broker_config,
    pull,
    store,
)
from support.broker.world import SMALL_STORE, World, header_of

RETRY = ResponseCode.PULL_RETRY_IMMEDIATELY
FIRST = 8
"""Where the queue begins: the start of a young slave's log is not the start of the master's."""


def slave_config(**changes: Any) -> BrokerConfig:
    return broker_config(role=BrokerRole.SLAVE, broker_id=1, **changes)


def fill(directory: Path, **changes: Any) -> None:
    """The directory of a slave that came when its master had dropped its first messages."""
    with World(directory, broker_config(**changes)) as master:
        add_topic(master)
        group = GroupConfig(group_name=GROUP, broker_id=0, which_broker_when_consume_slowly=1)
        master.state.groups.create_or_replace(group, master.now_ms)
        store(master, *(b"%d" % number for number in range(FIRST + 4)))
        master.state.offsets.commit(GROUP, TOPIC, 0, 3, "test")
        master.tables.topics.save(master.state.topics.table())
        master.tables.groups.save(master.state.groups.table())
        master.tables.consumer_offsets.save(master.state.offsets.table(master.now_ms))


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[World]:
    fill(tmp_path)
    with World(tmp_path, slave_config()) as world:
        yield world


def test_messages_are_served_whatever_slave_read_says(slave: World) -> None:
    answer = pull(slave, queue_offset=FIRST)

    assert bodies_of(answer) == [b"8", b"9", b"10", b"11"]
    assert header_of(answer, PullAnswer).suggest_which_broker_id == 0


def test_the_offset_in_a_pull_is_not_stored(slave: World) -> None:
    pull(slave, queue_offset=FIRST, sys_flag=SUBSCRIPTION | COMMIT, commit_offset=7)

    assert slave.state.offsets.queues(GROUP, TOPIC) == {0: 3}


def test_a_slave_that_may_act_as_the_master_stores_it(tmp_path: Path) -> None:
    fill(tmp_path)
    with World(tmp_path, slave_config(acting_master=True)) as slave:
        pull(slave, queue_offset=FIRST, sys_flag=SUBSCRIPTION | COMMIT, commit_offset=7)

        assert slave.state.offsets.queues(GROUP, TOPIC) == {0: 7}


@pytest.mark.parametrize(("offset", "queue_id"), [(FIRST + 5, 0), (2**40, 0), (5, 1)])
def test_an_offset_the_slave_does_not_have_is_given_back_as_it_is(
    slave: World, offset: int, queue_id: int
) -> None:
    end = slave.state.log.end_offset

    answer = pull(slave, queue_offset=offset, queue_id=queue_id)

    assert answer is not None
    header = header_of(answer, PullAnswer)
    assert (answer.code, header.next_begin_offset) == (RETRY, offset)
    assert header.suggest_which_broker_id == 0
    slave.settle()
    assert slave.state.log.end_offset == end  # no event of a moved offset


def test_with_offset_check_in_slave_it_is_corrected_as_by_a_master(tmp_path: Path) -> None:
    fill(tmp_path)
    with World(tmp_path, slave_config(offset_check_in_slave=True)) as slave:
        answer = pull(slave, queue_offset=2**40)

        assert answer is not None
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        assert header_of(answer, PullAnswer).next_begin_offset == FIRST + 4
        slave.settle()


def test_a_pull_at_the_end_is_held_and_then_finds_nothing(slave: World) -> None:
    flags = SUBSCRIPTION | SUSPEND
    held = pull(slave, queue_offset=FIRST + 4, sys_flag=flags, suspend_timeout_millis=1_000)
    assert held is None

    slave.advance(1_500)

    codes = [answer.code for _, _, answer in slave.answers]
    assert codes == [ResponseCode.PULL_NOT_FOUND]


@pytest.mark.parametrize(("offset", "suggested"), [(0, 1), (FIRST + 3, 0)])
def test_a_slow_reader_stays_and_a_quick_one_goes_back_to_the_master(
    tmp_path: Path, offset: int, suggested: int
) -> None:
    fill(tmp_path)
    config = slave_config(slave_read=True, store=replace(SMALL_STORE, in_memory_bytes=300))
    with World(tmp_path, config) as slave:
        answer = pull(slave, queue_offset=offset, max_msg_nums=1)

        assert header_of(answer, PullAnswer).suggest_which_broker_id == suggested


def test_a_slave_calls_its_readers_slow_earlier(tmp_path: Path) -> None:
    with World(tmp_path, slave_config()) as slave:
        assert slave.state.config.store.in_memory_percent == 30
