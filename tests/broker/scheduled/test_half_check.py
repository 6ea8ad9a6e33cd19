"""Producers are asked about exactly those half messages that did not end in time."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.model.group import TRANSACTION_GROUP
from flintmq.model.message_id import offset_id
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import CHECK_MAX_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.transaction import CheckTransactionState
from flintmq.protocol.records.record import decode_record
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import Appended
from support.broker.queued import bodies, crashed, damage, properties_of, records
from support.broker.transactions import COMMIT, GROUP, ROLLBACK, TOPIC, end, join, put_half
from support.broker.world import SMALL_STORE, START_MS, Told, World
from support.store.real_stores import manifest, unpack_store
from support.store.refusing_disk import RefusingDisk

CHECK_MS = 30_000
HOUR_MS = 3_600_000


def positions(world: World) -> tuple[int | None, int | None]:
    """How far half and op messages were gone through."""
    query = world.state.offsets.query
    return query(TRANSACTION_GROUP, HALF_TOPIC, 0), query(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)


def asked_about(world: World) -> list[bytes]:
    """The bodies of the messages producers were asked about."""
    return [decode_record(told.request.body).body for told in world.told]


def end_asked(world: World, told: Told, how: int = COMMIT) -> None:
    """The producer answers a question."""
    header = told.request.header(CheckTransactionState)
    half = Appended(
        LogOffset(header.commit_log_offset), QueueOffset(header.tran_state_table_offset), 0, 0
    )
    answer = end(world, half, how, from_transaction_check=True)
    assert answer is not None
    assert answer.code == 0


def put_op(world: World, body: bytes, tag: str = "d") -> None:
    host = world.state.host
    op = NewMessage(OP_HALF_TOPIC, 0, body, {"TAGS": tag}, world.now_ms, host, host)
    append(world.state, op, world.now_ms)
    world.settle()


# Asking


def test_a_producer_is_asked_about_a_message_that_did_not_end(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        peer = join(world)
        put_half(world, b"x", KEYS="k")
        world.advance(CHECK_MS)

        (told,) = world.told
        again = records(world, HALF_TOPIC)[1]
        header = told.request.header(CheckTransactionState)
        record = decode_record(told.request.body)

        assert told.peer is peer
        assert told.request.code == RequestCode.CHECK_TRANSACTION_STATE
        assert told.request.is_oneway
        assert header == CheckTransactionState(
            broker_name="broker-a",
            topic=HALF_TOPIC,
            tran_state_table_offset=1,
            commit_log_offset=again.log_offset,
            msg_id="id-x",
            transaction_id="id-x",
            offset_msg_id=offset_id(world.state.host, again.log_offset),
        )
        assert (record.topic, record.queue_id, record.body) == (TOPIC, 2, b"x")
        assert (record.queue_offset, record.log_offset) == (1, again.log_offset)
        assert (record.sys_flag, record.born_ms) == (0, START_MS)
        assert properties_of(record)["TRANSACTION_CHECK_TIMES"] == "1"
        assert properties_of(again) == properties_of(record)
        assert positions(world) == (1, None)


def test_what_the_producer_answers_ends_the_message(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"x")
        put_half(world, b"y")
        world.advance(CHECK_MS)
        end_asked(world, world.told[0], COMMIT)
        end_asked(world, world.told[1], ROLLBACK)

        world.advance(10 * CHECK_MS)

        assert asked_about(world) == [b"x", b"y"]
        assert bodies(world, TOPIC, 2) == [b"x"]
        assert positions(world) == (4, 2)


def test_a_message_that_ended_is_not_asked_about(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        halves = [put_half(world, b"%d" % n) for n in range(6)]
        for n in (0, 1, 3, 5):
            end(world, halves[n], COMMIT if n % 2 else ROLLBACK)
        world.advance(CHECK_MS)

        assert asked_about(world) == [b"2", b"4"]
        assert positions(world) == (6, 4)


def test_a_young_message_ends_the_round(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        world.advance(1)
        put_half(world, b"old")
        world.advance(CHECK_MS - 6_000)
        put_half(world, b"young")

        world.advance(6_000 - 1)
        first = asked_about(world)
        world.advance(CHECK_MS)

        assert first == [b"old"]
        assert asked_about(world) == [b"old", b"young", b"old"]


def test_a_message_of_the_future_is_asked_about_at_once(tmp_path: Path) -> None:
    """Its producer's clock is ahead of ours, or ours was set back."""
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"x")
        world.now_ms -= HOUR_MS

        world.advance(CHECK_MS)

        assert asked_about(world) == [b"x"]


def test_producers_are_asked_in_turn_and_without_one_the_message_waits(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put_half(world, b"x")
        world.advance(CHECK_MS)
        nobody = list(world.told)
        peers = {join(world, "127.0.0.1:50001"), join(world, "127.0.0.1:50002")}

        world.advance(2 * CHECK_MS)

        assert nobody == []
        assert {told.peer for told in world.told} == peers
        assert properties_of(records(world, HALF_TOPIC)[-1])["TRANSACTION_CHECK_TIMES"] == "3"


def test_after_fifteen_checks_a_message_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"x", TAGS="a")

        with caplog.at_level(logging.ERROR):
            world.advance(20 * CHECK_MS)

        (given_up,) = records(world, CHECK_MAX_TOPIC)
        assert len(world.told) == 15
        assert given_up.body == b"x"
        assert properties_of(given_up)["TRANSACTION_CHECK_TIMES"] == "15"
        assert world.state.topics.find(CHECK_MAX_TOPIC) is not None
        assert "given up after 15 checks" in caplog.text
        assert positions(world)[0] == world.state.log.max_offset(HALF_TOPIC, 0)


def test_a_message_older_than_the_log_is_kept_is_given_up(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"x")
        world.now_ms += 72 * HOUR_MS + 1

        world.advance(CHECK_MS)

        assert world.told == []
        assert bodies(world, CHECK_MAX_TOPIC) == [b"x"]


# More time


def test_a_message_that_wants_more_time_gets_it_and_holds_up_nobody(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"patient", CHECK_IMMUNITY_TIME_IN_SECONDS=600)
        put_half(world, b"other")

        world.advance(CHECK_MS)
        first = asked_about(world)
        waiting = records(world, HALF_TOPIC)[2]
        end_asked(world, world.told[0])
        world.advance(570_000 - 1)
        second = asked_about(world)
        world.advance(CHECK_MS)

        assert first == second == [b"other"]
        assert properties_of(waiting)["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
        assert "TRANSACTION_CHECK_TIMES" not in properties_of(waiting)
        assert asked_about(world) == [b"other", b"patient"]


@pytest.mark.parametrize("rounds", [1, 3, 19, 25])
def test_a_message_that_waited_and_ended_where_it_was_first_is_not_asked_about(
    tmp_path: Path, rounds: int
) -> None:
    with World(tmp_path) as world:
        join(world)
        half = put_half(world, b"x", CHECK_IMMUNITY_TIME_IN_SECONDS=600)
        world.advance(min(rounds, 19) * CHECK_MS)
        answer = end(world, half)
        assert answer is not None
        assert answer.code == 0

        world.advance(30 * CHECK_MS)

        assert world.told == []
        assert bodies(world, TOPIC, 2) == [b"x"]
        assert positions(world)[1] == 1
        assert positions(world)[0] == world.state.log.max_offset(HALF_TOPIC, 0)


# Op messages


def test_op_messages_of_both_releases_are_understood(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        for n in range(6):
            put_half(world, b"%d" % n)
        put_op(world, b"0")
        put_op(world, b"1,2,2,")
        put_op(world, b"2,4")

        world.advance(CHECK_MS)

        assert asked_about(world) == [b"3", b"5"]
        assert positions(world) == (6, 3)


def test_op_messages_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"x")
        for body in (b"", b",", b"x", b"-1,", b"99999,", b"9" * 5_000, b"\xff"):
            put_op(world, body)
        put_op(world, b"0,", tag="other")

        world.advance(CHECK_MS)

        assert asked_about(world) == [b"x"]
        assert positions(world) == (1, 8)


def test_the_mark_of_a_message_still_ahead_is_found_in_the_next_round(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        world.advance(CHECK_MS - 1_000)
        put_half(world, b"young")
        ahead = put_half(world, b"ahead")
        end(world, ahead)
        world.advance(1_000)
        first = positions(world)

        world.advance(CHECK_MS)

        assert first == (None, None)
        assert asked_about(world) == [b"young"]
        assert positions(world) == (2, 1)


# Bounds, the disk and restarts


def test_a_long_round_works_in_parts(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        halves = [put_half(world, b"%d" % n) for n in range(900)]
        for half in halves[::2]:
            end(world, half)
        world.advance(0)
        world.now_ms += CHECK_MS + 1_000

        world.engine.tick(world.now_ms)
        first = len(world.told)
        due_ms = world.engine.next_due_ms(world.now_ms)
        world.advance(100)

        assert first < 450
        assert due_ms == START_MS + CHECK_MS + 1_000
        assert asked_about(world) == [b"%d" % n for n in range(1, 900, 2)]
        assert positions(world) == (900, 450)


def test_many_marks_are_read_in_parts_too(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        put_half(world, b"x")
        world.advance(0)
        for n in range(1_000):
            put_op(world, b"%d" % (n % 7 + 10))
        world.now_ms += CHECK_MS + 1_000

        world.engine.tick(world.now_ms)
        first = list(world.told)
        world.advance(100)

        assert first == []
        assert asked_about(world) == [b"x"]
        assert positions(world) == (1, 1_000)


def test_nobody_is_asked_and_nothing_moves_when_the_disk_refuses(tmp_path: Path) -> None:
    disk = RefusingDisk()
    with World(tmp_path, disk=disk) as world:
        join(world)
        put_half(world, b"x")
        disk.changes_left = 0
        world.advance(CHECK_MS + 10_000)
        before = list(world.told), positions(world)
        disk.changes_left = None
        world.advance(2_000)

        assert before == ([], (None, None))
        assert asked_about(world) == [b"x"]
        assert positions(world) == (1, None)


def test_a_half_message_that_cannot_be_read_is_skipped(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        bad = put_half(world, b"a" * 50)
        put_half(world, b"b")
        damage(tmp_path, bad.log_offset, bad.size_bytes)

        world.advance(CHECK_MS)

        assert asked_about(world) == [b"b"]
        assert positions(world) == (2, None)


def test_after_a_crash_whatever_did_not_end_is_asked_about_again(tmp_path: Path) -> None:
    with World(tmp_path / "a") as world:
        put_half(world, b"x")
        end(world, put_half(world, b"y"))
        world.advance(CHECK_MS)
        copy = crashed(tmp_path / "a", tmp_path / "b")  # without the offsets
    with World(copy, start_ms=world.now_ms) as world:
        join(world)
        world.advance(CHECK_MS)

        assert asked_about(world) == [b"x", b"x"]


def test_the_check_goes_on_where_it_stood(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        put_half(world, b"x")
        world.advance(CHECK_MS)
        world.tables.consumer_offsets.save(world.state.offsets.table(world.now_ms))
    with World(tmp_path, start_ms=world.now_ms) as world:
        join(world)
        world.advance(CHECK_MS)

        assert asked_about(world) == [b"x"]
        assert properties_of(decode_record(world.told[0].request.body))["PGROUP"] == GROUP


def test_a_clock_that_goes_back_does_not_stop_the_check(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        world.advance(CHECK_MS)
        world.now_ms -= HOUR_MS
        put_half(world, b"x")

        world.advance(CHECK_MS)

        assert asked_about(world) == [b"x"]


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3"])
def test_half_messages_of_rocketmq_are_asked_about_unless_they_ended(
    tmp_path: Path, release: str
) -> None:
    name = f"golden-{release}"
    directory = unpack_store(name, tmp_path)
    last_ms = max(m["storeTimestamp"] for m in manifest(name)["messages"])
    config = BrokerConfig(store=StoreConfig())
    with World(directory, config, start_ms=last_ms + HOUR_MS) as world:
        world.advance(2 * CHECK_MS)

        keys = [properties_of(record)["KEYS"] for record in records(world, HALF_TOPIC)]
        assert keys[7:] == ["tx5", "tx6", "tx5", "tx6"]
        assert positions(world) == (9, len(bodies(world, OP_HALF_TOPIC)))


def test_the_settings_of_a_small_store_are_what_these_tests_assume() -> None:
    config = BrokerConfig(store=SMALL_STORE)

    assert config.transaction_check_ms == CHECK_MS
    assert config.transaction_timeout_ms == 6_000
