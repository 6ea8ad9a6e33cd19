"""A timer message arrives once, at the millisecond it asked for and never before."""

from __future__ import annotations

import logging
import struct
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled import timer_rules as rules
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.redelivery import RETRY_MS, TURN_RECORDS_MAX
from flintmq.broker.scheduled.timers import Timers
from flintmq.model.topic import TIMER_TOPIC
from support.broker.queued import bodies, crashed, damage, message, properties_of, put, records
from support.broker.world import SMALL_STORE, START_MS, World
from support.store.refusing_disk import RefusingDisk

TOPIC = "orders"
CONFIG = BrokerConfig(store=SMALL_STORE)
DAY_MS = 24 * 3_600_000


def save(world: World) -> None:
    table = world.state.timers.table()
    assert table is not None
    world.tables.timers.save(table)


def arrivals(world: World) -> list[tuple[bytes, int]]:
    """Bodies and when they arrived, from the start on."""
    return [(record.body, record.store_ms - START_MS) for record in records(world, TOPIC)]


# In time


@pytest.mark.parametrize(
    ("name", "value", "due_ms"),
    [
        ("TIMER_DELAY_SEC", 2, 2_000),
        ("TIMER_DELAY_MS", 1_234, 1_234),
        ("TIMER_DELIVER_MS", START_MS + 2_500, 2_500),
        ("TIMER_DELIVER_MS", START_MS + 1, 1),
    ],
)
def test_a_message_arrives_at_the_millisecond_it_asked_for(
    tmp_path: Path, name: str, value: int, due_ms: int
) -> None:
    with World(tmp_path) as world:
        wish: dict[str, Any] = {name: value}
        put(world, TOPIC, b"later", **wish)

        world.advance(10_000)

        assert arrivals(world) == [(b"later", due_ms)]


def test_the_first_of_several_wishes_counts_and_a_delay_level_before_all(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", TIMER_DELIVER_MS=1, TIMER_DELAY_MS=3_000, TIMER_DELAY_SEC=2)
        put(world, TOPIC, b"b", TIMER_DELIVER_MS=1, TIMER_DELAY_MS=3_000)
        put(world, TOPIC, b"c", DELAY=1, TIMER_DELAY_SEC=2)

        world.advance(10_000)

        assert arrivals(world) == [(b"c", 1_000), (b"a", 2_000), (b"b", 3_000)]


def test_it_waits_as_rocketmq_lets_it_wait_and_arrives_with_all_it_had(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"x", queue_id=2, TIMER_DELAY_MS=1_500, TAGS="a")
        (waiting,) = records(world, TIMER_TOPIC)
        world.advance(1_500)
        (arrived,) = records(world, TOPIC, 2)

        had = {
            "REAL_QID": "2",
            "REAL_TOPIC": TOPIC,
            "TAGS": "a",
            "TIMER_DELAY_MS": "1500",
            "TIMER_OUT_MS": str(START_MS + 1_000),
        }
        assert properties_of(waiting) == had
        assert properties_of(arrived) == had | {
            "TIMER_ENQUEUE_MS": str(START_MS),
            "TIMER_DEQUEUE_MS": str(START_MS + 1_500),
        }
        assert (arrived.flag, arrived.born_ms) == (7, START_MS)


@pytest.mark.parametrize(
    ("due_ms", "out_ms"), [(5_000, 4_000), (5_001, 5_000), (5_999, 5_000), (6_000, 5_000)]
)
def test_what_is_written_down_is_the_second_that_ends_after_the_time(
    due_ms: int, out_ms: int
) -> None:
    assert rules.out_ms(due_ms) == out_ms


def test_a_message_that_does_not_say_its_millisecond_waits_for_the_end_of_its_second() -> None:
    assert rules.due_ms({}, 5_000, 4_000) == 6_000
    assert rules.due_ms({"TIMER_DELIVER_MS": "5400"}, 5_000, 4_000) == 5_400
    assert rules.due_ms({"TIMER_DELIVER_MS": "9400"}, 5_000, 4_000) == 6_000
    assert rules.due_ms({"TIMER_DELAY_MS": "x"}, 5_000, 4_000) == 6_000


@pytest.mark.parametrize("value", [START_MS, START_MS - 1, -5])
def test_a_time_that_is_past_makes_it_a_plain_message(tmp_path: Path, value: int) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, TIMER_DELIVER_MS=value)

        (record,) = records(world, TOPIC)
        assert properties_of(record) == {"TIMER_DELIVER_MS": str(value)}


def test_a_message_that_was_delivered_is_no_timer_message_any_more(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, TIMER_DELAY_MS=10, TIMER_OUT_MS=5)

        assert bodies(world, TOPIC) == [b"hello"]


def test_messages_of_one_millisecond_arrive_in_the_order_of_their_sends(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for n in range(2_500):
            put(world, TOPIC, b"%d" % n, end=False, TIMER_DELIVER_MS=START_MS + 5_000)
        world.settle()

        world.now_ms += 5_000
        world.engine.tick(world.now_ms)
        first = len(bodies(world, TOPIC))
        world.advance(10)

        assert first <= TURN_RECORDS_MAX
        assert bodies(world, TOPIC) == [b"%d" % n for n in range(2_500)]


def test_the_next_delivery_is_told_to_the_millisecond(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.advance(0)
        idle = world.state.timers.next_due_ms(world.state, world.now_ms)
        put(world, TOPIC, TIMER_DELAY_MS=700)
        put(world, TOPIC, TIMER_DELAY_MS=300)
        world.engine.tick(world.now_ms)

        assert idle is None
        assert world.state.timers.next_due_ms(world.state, world.now_ms) == START_MS + 300


# What is refused


def refusal_of(world: World, **properties: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        put(world, TOPIC, **properties)
    return caught.value


def test_a_time_too_far_off_or_none_is_illegal(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for properties in (
            {"TIMER_DELAY_MS": 3 * DAY_MS + 1},
            {"TIMER_DELAY_SEC": 2**62},
            {"TIMER_DELIVER_MS": "soon"},
            {"TIMER_DELIVER_MS": 2**63},
            {"TIMER_DELIVER_MS": START_MS, "TIMER_DEL_UNIQKEY": "t+id"},
        ):
            refusal = refusal_of(world, **properties)

            assert refusal.code == 13
            assert refusal.remark == (
                "timer message illegal, the delay time should not be bigger than the max delay "
                "259200000ms; or if set del msg, the delay time should be bigger than the "
                "current time"
            )
        put(world, TOPIC, TIMER_DELAY_MS=3 * DAY_MS)
        assert len(records(world, TIMER_TOPIC)) == 1


def test_timers_that_are_switched_off_are_refused(tmp_path: Path) -> None:
    with World(tmp_path, replace(CONFIG, timers=False)) as world:
        refusal = refusal_of(world, TIMER_DELAY_MS=5)

        assert (refusal.code, refusal.remark) == (
            1,
            "accurate timer message is not enabled, timerWheelEnable is false",
        )


def test_no_more_wait_than_are_allowed(tmp_path: Path) -> None:
    with World(tmp_path, replace(CONFIG, timers_max=3)) as world:
        put(world, TOPIC, TIMER_DELAY_MS=1_000)
        world.advance(0)
        put(world, TOPIC, TIMER_DELAY_MS=2_000)
        put(world, TOPIC, end=False, TIMER_DELAY_MS=2_000)
        refusal = refusal_of(world, TIMER_DELAY_MS=2_000)
        world.settle()
        world.advance(1_000)

        put(world, TOPIC, TIMER_DELAY_MS=1_000)

        assert refusal.code == 1
        assert refusal.remark.startswith("timer message is under flow control")
        assert world.state.timers.waiting_count(world.state) == 3


# The disk and the clock


def test_a_failed_write_is_tried_again_and_nothing_arrives_twice(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        for n in range(3):
            put(world, TOPIC, b"%d" % n, TIMER_DELAY_MS=500)
        world.advance(0)
        disk.changes_left = 0
        world.now_ms += 500
        due_ms = world.engine.tick(world.now_ms)
        disk.changes_left = None
        world.advance(RETRY_MS - 1)
        early = bodies(world, TOPIC)
        world.advance(1)

        assert due_ms == START_MS + 500 + RETRY_MS
        assert early == []
        assert bodies(world, TOPIC) == [b"0", b"1", b"2"]


def test_a_clock_that_goes_back_makes_nothing_early_and_loses_nothing(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", TIMER_DELIVER_MS=START_MS + 5_000)
        world.advance(6_000)
        world.now_ms = START_MS
        put(world, TOPIC, b"b", TIMER_DELIVER_MS=START_MS + 2_000)
        world.advance(1_999)
        early = bodies(world, TOPIC)
        save(world)
        copy = crashed(tmp_path, tmp_path.with_name("copy"))
        world.advance(1)

        assert early == [b"a"]
        assert bodies(world, TOPIC) == [b"a", b"b"]
    with World(copy, start_ms=START_MS + 2_000) as world:
        world.advance(10_000)

        assert bodies(world, TOPIC) == [b"a", b"b"]


def test_a_record_that_cannot_be_read_is_skipped_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", TIMER_DELAY_MS=1_000)
        unread = put(world, TOPIC, b"b" * 50, TIMER_DELAY_MS=1_000)
        damage(tmp_path, unread.log_offset, unread.size_bytes)
        world.advance(0)
        read = put(world, TOPIC, b"c" * 50, TIMER_DELAY_MS=1_000)
        world.advance(0)
        damage(tmp_path, read.log_offset, read.size_bytes)
        put(world, TOPIC, b"d", TIMER_DELAY_MS=1_000)

        with caplog.at_level(logging.ERROR):
            world.advance(1_000)

        assert bodies(world, TOPIC) == [b"a", b"d"]
        assert world.state.timers.unreadable_count == 2
        assert "queue offset 2" in caplog.text


def test_a_record_of_the_timer_topic_without_a_time_stops_nobody(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for properties in ({}, {"TIMER_OUT_MS": "x"}, {"TIMER_OUT_MS": -1}, {"TIMER_OUT_MS": 5}):
            stray = message(world, TIMER_TOPIC, b"stray", **properties)
            append(world.state, stray, world.now_ms)
        put(world, TOPIC, TIMER_DELAY_MS=1_000)

        world.advance(1_000)

        assert bodies(world, TOPIC) == [b"hello"]
        assert world.state.timers.unreadable_count == 4


# Cancelling


def test_a_message_is_cancelled_by_one_with_the_same_time(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        due_ms = START_MS + 5_400
        put(world, TOPIC, b"a", UNIQ_KEY="id-a", TIMER_DELIVER_MS=due_ms)
        put(world, TOPIC, b"b", UNIQ_KEY="id-b", TIMER_DELIVER_MS=due_ms)
        put(
            world,
            TOPIC,
            b"-",
            UNIQ_KEY="id-c",
            TIMER_DELIVER_MS=due_ms,
            TIMER_DEL_UNIQKEY=f"{TOPIC}+id-a",
        )

        world.advance(60_000)

        assert bodies(world, TOPIC) == [b"b"]
        assert world.state.timers.waiting_count(world.state) == 0


# Restarts


def test_a_restart_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for n in range(10):
            put(world, TOPIC, b"%d" % n, TIMER_DELAY_MS=10_000 - 1_000 * n)
        world.advance(4_500)
        save(world)
    with World(tmp_path, start_ms=world.now_ms) as world:
        world.advance(10_000)

        assert bodies(world, TOPIC) == [b"%d" % n for n in range(9, -1, -1)]


def test_a_crash_before_the_table_was_saved_repeats_but_never_loses(tmp_path: Path) -> None:
    with World(tmp_path / "a") as world:
        put(world, TOPIC, b"late", TIMER_DELAY_MS=9_000)
        put(world, TOPIC, b"soon", TIMER_DELAY_MS=1_000)
        world.advance(100)
        save(world)
        world.advance(1_000)
        copy = crashed(tmp_path / "a", tmp_path / "b")
    with World(copy, start_ms=world.now_ms) as world:
        world.advance(10_000)

        assert bodies(world, TOPIC) == [b"soon", b"soon", b"late"]


def test_nothing_is_saved_before_what_waits_is_read_again(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for n in range(1_500):
            put(world, TOPIC, b"%d" % n, end=False, TIMER_DELAY_MS=1_000)
        world.settle()
        world.advance(0)
        save(world)
    with World(tmp_path, start_ms=START_MS + 60_000) as world:
        world.state.timers.deliver(world.state, world.now_ms)
        world.settle()

        assert world.state.timers.table() is None
        assert bodies(world, TOPIC) == []
        world.advance(10)
        assert bodies(world, TOPIC) == [b"%d" % n for n in range(1_500)]


def test_the_table_stays_small_however_much_was_delivered(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, TIMER_DELAY_MS=DAY_MS)
        for _ in range(30):
            for n in range(100):
                put(world, TOPIC, end=False, TIMER_DELAY_MS=1 + n)
            world.settle()
            world.advance(500)

        table = world.state.timers.table()

        assert table is not None
        assert (table.low_offset, table.next_offset, table.late) == (0, 3_001, ())
        assert world.state.timers.delivered_count == 3_000


def test_what_a_timer_of_rocketmq_delivered_is_not_delivered_again(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"delivered", TIMER_DELAY_MS=2_500)
        put(world, TOPIC, b"at the edge", TIMER_DELAY_MS=3_500)
        put(world, TOPIC, b"waits", TIMER_DELAY_MS=9_000)
        put(world, TOPIC, b"not yet seen", TIMER_DELAY_MS=2_500)
    fields = struct.pack(">qqq", START_MS + 3_000, 0, 3)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "timercheck").write_bytes(fields.ljust(4_096, b"\0"))
    with World(tmp_path, start_ms=START_MS + 3_000) as world:
        world.advance(10_000)
        save(world)

        assert bodies(world, TOPIC) == [b"not yet seen", b"at the edge", b"waits"]
    with World(tmp_path, start_ms=world.now_ms) as world:
        world.advance(10_000)

        assert len(bodies(world, TOPIC)) == 3


Step = tuple[str, int]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 3_000)),
        st.tuples(st.just("pass"), st.integers(0, 2_000)),
        st.tuples(st.just("back"), st.integers(0, 1_500)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_whatever_happens_each_message_arrives_once_and_not_early(steps: list[Step]) -> None:
    due: dict[bytes, int] = {}
    with TemporaryDirectory() as name:
        directory = Path(name)
        world = World(directory, CONFIG)
        for kind, value in [*steps, ("pass", 10_000)]:
            if kind == "send":
                body = b"%d" % len(due)
                due[body] = world.now_ms + value
                put(world, TOPIC, body, TIMER_DELAY_MS=value)
            elif kind == "pass":
                world.advance(value)
            elif kind == "back":
                world.now_ms -= value
            else:
                world.advance(0)
                save(world)
                world.stop()
                world = World(directory, CONFIG, start_ms=world.now_ms)
        found = records(world, TOPIC)
        world.stop()

    assert sorted(record.body for record in found) == sorted(due)
    assert all(record.store_ms >= due[record.body] for record in found)


def test_a_message_without_a_wish_is_none_of_ours(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        assert not Timers().takes(message(world, TOPIC, b""))
        assert not Timers().takes(message(world, TIMER_TOPIC, b"", TIMER_DELAY_MS=1))
