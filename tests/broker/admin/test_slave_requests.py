"""What slaves copy from a master of ours has the form that real masters give them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.scheduled.timers import Timers
from flintmq.broker.state.broker_state import BrokerState
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.pop import RequestModes
from flintmq.protocol.bodies.replica import TimerCheckPoint, TimerMetrics
from flintmq.protocol.codes import RequestCode
from flintmq.store.recovery.survey import TimerProgress
from support.broker.admin import done, make_topic
from support.broker.wire import Wire
from support.broker.world import World
from support.golden.slave_requests import VERSIONS, slave_requests

CHECK_POINT = RequestCode.GET_TIMER_CHECK_POINT
METRICS = RequestCode.GET_TIMER_METRICS


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        make_topic(world, "T")
        yield world


def test_the_recorded_answers_are_read_and_written_again() -> None:
    recorded = slave_requests("5.3.3")
    point = recorded[CHECK_POINT].answered.body
    metrics = recorded[METRICS].answered.body
    modes = recorded[RequestCode.GET_ALL_MESSAGE_REQUEST_MODE].answered.body

    assert TimerCheckPoint.from_body(point).to_body() == point
    assert TimerCheckPoint.from_body(point).data_version.counter == 0x34
    assert TimerMetrics.from_body(metrics).to_body() == metrics
    assert RequestModes.from_body(modes).to_body() == modes


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_request_of_a_slave_to_its_master_is_served(
    world: World, version: str
) -> None:
    wire = Wire(world)
    codes = slave_requests(version).keys() - {
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
    }

    for code in codes:
        (answer,) = wire.give(slave_requests(version)[code].asked)
        assert (answer.code, bool(answer.body)) == (0, True), code
    assert codes >= {21, 43, 45, 201}


def timer(world: World, delay_ms: int) -> None:
    world.send("T", properties=f"TIMER_DELAY_MS\x01{delay_ms}\x02")


def progress(world: World) -> TimerProgress:
    point = TimerCheckPoint.from_body(done(world, CHECK_POINT))
    assert point.last_timer_queue_offset == point.master_timer_queue_offset
    return TimerProgress(point.last_read_time_ms, point.master_timer_queue_offset)  # type: ignore[arg-type]  # a plain number of the wire


def delivered_after(state: BrokerState, told: TimerProgress, now_ms: int) -> int:
    """What a broker of this log would deliver that knows no more than the check point."""
    timers = Timers(None, told)
    timers.deliver(state, now_ms)
    return timers.waiting_count(state)


def test_the_check_point_neither_loses_nor_repeats_a_timer(world: World) -> None:
    timer(world, 2_000)
    timer(world, 60_000)
    world.advance(10_000)

    told = progress(world)

    assert told.queue_offset == 2
    assert told.read_ms <= world.now_ms
    assert delivered_after(world.state, told, world.now_ms) == 1  # the one in a minute


def test_with_nothing_left_to_deliver_the_check_point_is_at_the_clock(world: World) -> None:
    timer(world, 2_000)
    world.advance(10_000)

    told = progress(world)

    assert 0 <= world.now_ms - told.read_ms <= 1_000
    assert delivered_after(world.state, told, world.now_ms) == 0


def test_a_slave_of_ours_gets_the_exact_positions(world: World) -> None:
    timer(world, 60_000)
    world.advance(1_000)

    metrics = TimerMetrics.from_body(done(world, METRICS))

    assert metrics.flintmq_positions == world.state.timers.table()
    assert metrics.data_version == DataVersion(state_version=0, timestamp=world.now_ms)
