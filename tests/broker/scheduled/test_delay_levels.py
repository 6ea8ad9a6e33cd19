"""A delayed message arrives once, unchanged, in order and in time, whatever the disk does."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.redelivery import RETRY_MS, TURN_RECORDS_MAX
from flintmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from flintmq.protocol.bodies.offset import DelayOffsets
from flintmq.store.files.store_config import StoreConfig
from support.broker.queued import (
    BORN_HOST,
    bodies,
    crashed,
    damage,
    message,
    properties_of,
    put,
    records,
)
from support.broker.world import SMALL_STORE, START_MS, World
from support.store.real_stores import manifest, unpack_store
from support.store.refusing_disk import RefusingDisk

TOPIC = "orders"


def save(world: World) -> None:
    world.tables.delay_offsets.save(world.state.delays.table())


def config(store: StoreConfig = SMALL_STORE) -> BrokerConfig:
    return BrokerConfig(store=store)


# In time


def test_a_message_arrives_when_its_delay_is_over_and_not_before(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"later", DELAY=1)

        world.advance(999)
        early = bodies(world, TOPIC)
        world.advance(1)

        assert early == []
        assert [(r.body, r.store_ms) for r in records(world, TOPIC)] == [
            (b"later", START_MS + 1_000)
        ]


def test_it_arrives_as_it_was_sent_with_what_brought_it_here(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"x", queue_id=3, DELAY=2, TAGS="a", KEYS="k", UNIQ_KEY="id", WAIT="true")
        world.advance(5_000)

        (record,) = records(world, TOPIC, 3)

        assert (record.flag, record.sys_flag, record.born_ms) == (7, 0, START_MS)
        assert (record.born_host, record.store_host) == (BORN_HOST, world.state.host)
        assert properties_of(record) == {
            "DELAY": "2",
            "KEYS": "k",
            "REAL_QID": "3",
            "REAL_TOPIC": TOPIC,
            "TAGS": "a",
            "UNIQ_KEY": "id",
            "WAIT": "true",
        }
        found = world.state.log.lookup.by_key(TOPIC, "k", 10, 0, world.now_ms)
        assert len(found.views) == 1


def test_the_next_delivery_is_told_to_the_millisecond(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        delays, state = world.state.delays, world.state
        idle = delays.next_due_ms(state, world.now_ms)
        put(world, TOPIC, DELAY=3)
        put(world, TOPIC, DELAY=2)

        assert idle is None
        assert delays.next_due_ms(state, world.now_ms) == START_MS + 5_000
        world.advance(5_000)
        assert delays.next_due_ms(state, world.now_ms) == START_MS + 10_000
        world.advance(5_000)
        assert delays.next_due_ms(state, world.now_ms) is None


def test_a_thousand_sends_a_second_with_ten_thousand_waiting_arrive_in_order_and_in_time(
    tmp_path: Path,
) -> None:
    """Level 3 waits ten seconds.  Each body is the time of its send."""
    sends = 0
    with World(tmp_path) as world:
        engine = world.engine
        while world.now_ms < START_MS + 22_100:
            due_ms = engine.tick(world.now_ms)
            if world.now_ms < START_MS + 12_000 and world.now_ms % 10 == 0:
                for _ in range(10):
                    sends += 1
                    put(world, TOPIC, str(world.now_ms).encode(), end=False, DELAY=3)
                engine.end_turn(world.now_ms)
            next_send_ms = world.now_ms + 10 - world.now_ms % 10
            world.now_ms = max(min(due_ms, next_send_ms), world.now_ms + 1)

        found = records(world, TOPIC)

    late_ms = sorted(record.store_ms - int(record.body) - 10_000 for record in found)
    assert len(found) == sends == 12_000
    assert [int(record.body) for record in found] == sorted(int(record.body) for record in found)
    assert late_ms[0] >= 0
    assert late_ms[len(late_ms) * 99 // 100] <= 100


def test_one_turn_delivers_a_limited_number_and_every_level_gets_its_share(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        for n in range(1_500):
            put(world, TOPIC, b"%d" % n, end=False, DELAY=1)
            put(world, "other", b"%d" % n, end=False, DELAY=2)
        world.settle()

        world.now_ms += 10_000
        world.state.delays.deliver(world.state, world.now_ms)
        world.settle()
        first = len(bodies(world, TOPIC)), len(bodies(world, "other"))
        due_ms = world.state.delays.next_due_ms(world.state, world.now_ms)
        world.advance(10)

        assert sum(first) == TURN_RECORDS_MAX
        assert min(first) >= 400
        assert due_ms is not None
        assert due_ms <= world.now_ms
        assert bodies(world, TOPIC) == bodies(world, "other") == [b"%d" % n for n in range(1_500)]


# The clock


def test_a_message_stored_before_the_clock_went_back_is_due_at_once(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, DELAY=3)

        world.now_ms -= 3_600_000
        world.advance(0)

        assert bodies(world, TOPIC) == [b"hello"]


def test_a_clock_that_went_forth_makes_due_what_waited(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", DELAY=18)
        put(world, TOPIC, b"b", DELAY=1)

        world.now_ms += 7_200_000
        world.advance(0)

        assert sorted(bodies(world, TOPIC)) == [b"a", b"b"]


def test_a_clock_that_goes_back_during_a_retry_does_not_hold_it_up(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        put(world, TOPIC, DELAY=1)
        disk.changes_left = 0
        world.advance(1_000)
        disk.changes_left = None

        world.now_ms -= 3_600_000
        world.advance(1_000)

        assert bodies(world, TOPIC) == [b"hello"]


# The disk


def test_a_failed_write_is_tried_again_and_nothing_arrives_twice(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        for n in range(3):
            put(world, TOPIC, b"%d" % n, DELAY=1)
        disk.changes_left = 0
        world.now_ms += 1_000
        due_ms = world.engine.tick(world.now_ms)
        table = world.state.delays.table()
        disk.changes_left = None

        world.advance(RETRY_MS - 1)
        early = bodies(world, TOPIC)
        world.advance(1)

        assert due_ms == START_MS + 1_000 + RETRY_MS
        assert table.offset_table == {}
        assert early == []
        assert bodies(world, TOPIC) == [b"0", b"1", b"2"]
        assert world.state.delays.table().offset_table == {1: 3}
        assert world.state.delays.delivered_count == 3


def test_every_failed_write_is_followed_by_another_try(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        put(world, TOPIC, DELAY=1)
        disk.changes_left = 0
        world.now_ms += 1_000

        for _ in range(5):
            due_ms = world.engine.tick(world.now_ms)
            assert due_ms == world.now_ms + RETRY_MS
            world.now_ms = due_ms
        disk.changes_left = None


def test_a_disk_that_refuses_for_long_loses_nothing(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        for n in range(200):
            put(world, TOPIC, b"%d" % n, end=False, DELAY=1 + n % 2)
        world.settle()
        disk.changes_left = 0
        for _ in range(100):
            world.now_ms += 100
            world.engine.tick(world.now_ms)
        disk.changes_left = None

        world.advance(1_000)

        assert sorted(bodies(world, TOPIC), key=int) == [b"%d" % n for n in range(200)]


def test_a_record_that_cannot_be_read_is_skipped_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", DELAY=1)
        bad = put(world, TOPIC, b"b" * 50, DELAY=1)
        put(world, TOPIC, b"c", DELAY=1)
        damage(tmp_path, bad.log_offset, bad.size_bytes)

        with caplog.at_level(logging.ERROR):
            world.advance(1_000)

        assert bodies(world, TOPIC) == [b"a", b"c"]
        assert world.state.delays.unreadable_count == 1
        assert f"queue offset 1, log offset {bad.log_offset}" in caplog.text
        assert world.state.delays.table().offset_table == {1: 3}


def test_a_unit_that_leads_to_another_message_delivers_nothing_twice(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", DELAY=1)
        put(world, TOPIC, b"b", DELAY=1)
        world.state.log.flush()
        (file,) = (tmp_path / "consumequeue" / SCHEDULE_TOPIC / "0").iterdir()
        with file.open("r+b") as queue:
            unit = queue.read(20)
            queue.write(unit)

        world.advance(1_000)

        assert bodies(world, TOPIC) == [b"a"]
        assert world.state.delays.unreadable_count == 1


def test_a_message_too_large_for_today_holds_up_its_level_alone_and_is_kept(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"x" * 200_000, DELAY=1)
        put(world, TOPIC, b"behind", DELAY=1)
        put(world, TOPIC, b"other level", DELAY=2)
    smaller = config(replace(SMALL_STORE, message_bytes_max=1_000))
    with World(tmp_path, smaller) as world:
        world.advance(10_000)
        stuck = bodies(world, TOPIC)
    with World(tmp_path, start_ms=START_MS + 20_000) as world:
        world.advance(0)

        assert stuck == [b"other level"]
        assert bodies(world, TOPIC)[-2:] == [b"x" * 200_000, b"behind"]


def test_a_half_message_that_was_delayed_is_dropped(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, HALF_TOPIC, DELAY=1)
        put(world, TOPIC, DELAY=1)

        world.advance(1_000)

        assert bodies(world, HALF_TOPIC) == []
        assert bodies(world, TOPIC) == [b"hello"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REAL_TOPIC", ""),
        ("REAL_TOPIC", "a/b"),
        ("REAL_QID", ""),
        ("REAL_QID", "-1"),
        ("REAL_QID", "99999999999"),
    ],
)
def test_a_message_that_names_no_place_to_go_is_skipped(
    tmp_path: Path, name: str, value: str
) -> None:
    with World(tmp_path) as world:
        new = message(world, SCHEDULE_TOPIC, b"lost", DELAY=1, REAL_TOPIC=TOPIC, REAL_QID=0)
        new.properties[name] = value
        if not value:
            del new.properties[name]
        append(world.state, new, world.now_ms, delay_level=1)
        put(world, TOPIC, DELAY=1)

        world.advance(1_000)

        assert bodies(world, TOPIC) == [b"hello"]
        assert world.state.delays.unreadable_count == 1


# Restarts


def test_what_was_delivered_and_saved_is_not_delivered_again(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", DELAY=1)
        world.advance(1_000)
        put(world, TOPIC, b"b", DELAY=1)
        save(world)
    with World(tmp_path, start_ms=world.now_ms + 60_000) as world:
        world.advance(1_000)

        assert bodies(world, TOPIC) == [b"a", b"b"]


def test_a_crash_before_the_positions_were_saved_repeats_but_never_loses(tmp_path: Path) -> None:
    with World(tmp_path / "a") as world:
        put(world, TOPIC, b"a", DELAY=1)
        world.advance(1_000)
        save(world)
        put(world, TOPIC, b"b", DELAY=1)
        world.advance(1_000)
        copy = crashed(tmp_path / "a", tmp_path / "b")
    with World(copy, start_ms=world.now_ms) as world:
        world.advance(1_000)

        assert bodies(world, TOPIC) == [b"a", b"b", b"b"]


@pytest.mark.parametrize("position", [-5, 2, 99])
def test_a_position_outside_the_queue_is_corrected(tmp_path: Path, position: int) -> None:
    with World(tmp_path) as world:
        put(world, TOPIC, b"a", DELAY=1)
        put(world, TOPIC, b"b", DELAY=1)
        world.tables.delay_offsets.save(DelayOffsets(offset_table={1: position}))
    with World(tmp_path, start_ms=START_MS + 60_000) as world:
        world.advance(1)
        put(world, TOPIC, b"c", DELAY=1)
        world.advance(1_000)

        assert bodies(world, TOPIC)[-1] == b"c"
        assert len(bodies(world, TOPIC)) == (3 if position < 0 else 1)


def test_levels_we_do_not_have_stay_in_the_table(tmp_path: Path) -> None:
    saved = DelayOffsets(offset_table={1: 0, 30: 17})
    with World(tmp_path) as world:
        world.tables.delay_offsets.save(saved)
    with World(tmp_path) as world:
        world.advance(1)

        assert world.state.delays.table().offset_table == saved.offset_table


def test_the_delivery_time_of_extended_queues_is_found(tmp_path: Path) -> None:
    with World(tmp_path, config(replace(SMALL_STORE, extended_queues=True))) as world:
        put(world, TOPIC, DELAY=1)

        world.advance(999)
        early = bodies(world, TOPIC)
        world.advance(1)

        assert early == []
        assert bodies(world, TOPIC) == [b"hello"]


def test_a_lost_extension_is_replaced_by_what_the_record_says(tmp_path: Path) -> None:
    with World(tmp_path, config(replace(SMALL_STORE, extended_queues=True))) as world:
        put(world, TOPIC, DELAY=1)
        (file,) = (tmp_path / "consumequeue_ext" / SCHEDULE_TOPIC / "0").iterdir()
        with file.open("r+b") as extension:
            extension.write(b"\xff" * 20)

        world.advance(999)
        early = bodies(world, TOPIC)
        world.advance(1)

        assert early == []
        assert bodies(world, TOPIC) == [b"hello"]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_what_waits_in_a_directory_of_rocketmq_is_delivered_and_nothing_else(
    tmp_path: Path, release: str
) -> None:
    name = f"golden-{release}"
    directory = unpack_store(name, tmp_path)
    last_ms = max(m["storeTimestamp"] for m in manifest(name)["messages"])
    with World(directory, config(StoreConfig()), start_ms=last_ms) as world:
        world.advance(1)
        before = world.state.delays.delivered_count
        world.advance(2 * 3_600_000)

        assert before == 0
        assert world.state.delays.delivered_count == 3
        keys = [properties_of(record).get("KEYS") for record in records(world, "tasks", 0)]
        assert [key for key in keys if key and key.startswith("d18")] == ["d18-0", "d18-2"]
