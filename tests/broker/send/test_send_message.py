"""A send is stored as a 5.x broker stores it, and answered with where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.broker_stats import (
    BROKER_PUT_NUMS,
    MINUTE,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
)
from flintmq.model.group import RETRY_PREFIX
from flintmq.model.queue import QueueRef
from flintmq.model.sys_flag import MULTI_TAGS, TransactionType
from flintmq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.send import SendAnswer, SendMessage
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.files.store_config import Flush
from support.broker.sends import ask, configured, last_record, stored_properties
from support.broker.world import SMALL_STORE, START_MS, World, header_of


def test_the_record_holds_what_was_sent(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(
            world,
            "T",
            b"body",
            queue_id=2,
            sys_flag=1 | 768,
            flag=7,
            born_timestamp=123,
            reconsume_times=2,
            properties="TAGS\x01a\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02",
        )

        header = header_of(answer, SendAnswer)
        record = last_record(world, "T", 2)
        assert record.body == b"body"
        assert (record.queue_id, record.flag, record.sys_flag) == (2, 7, 769)
        assert (record.born_ms, record.store_ms, record.reconsume_times) == (123, START_MS, 2)
        assert str(record.born_host) == "127.0.0.1:40000"
        assert str(record.store_host) == "127.0.0.1:10911"
        assert parse_properties(record.properties) == {
            "TAGS": "a",
            "KEYS": "k1 k2",
            "UNIQ_KEY": "ID",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }
        assert header.msg_id == f"7F00000100002A9F{record.log_offset:016X}"
        assert (header.queue_id, header.queue_offset) == (2, 0)
        assert header.transaction_id == "ID"
        for key in ("ID", "k1", "k2"):
            found = world.state.log.lookup.by_key("T", key, 32, 0, START_MS + 1)
            assert len(found.views) == 1


def test_a_unique_id_is_made_for_a_message_without_one(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        first = header_of(ask(world, "T"), SendAnswer).transaction_id
        second = header_of(ask(world, "T"), SendAnswer).transaction_id

        assert first is not None
        assert second is not None
        assert len(first) == 32
        assert first != second
        assert stored_properties(world, "T")["UNIQ_KEY"] == second


def test_a_pop_receipt_is_not_stored(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, "T", properties="POP_CK\x01x\x02a\x011\x02")

        stored = stored_properties(world, "T")
        assert "POP_CK" not in stored
        assert stored["a"] == "1"


def test_marks_of_the_sender_are_written_over_by_ours(tmp_path: Path) -> None:
    config = configured(region='R"1', trace_on=False, cluster="C")
    with World(tmp_path, config) as world:
        answer = ask(world, "T", properties="MSG_REGION\x01x\x02TRACE_ON\x01x\x02CLUSTER\x01x\x02")

        stored = stored_properties(world, "T")
        assert (stored["MSG_REGION"], stored["TRACE_ON"], stored["CLUSTER"]) == (
            'R"1',
            "false",
            "C",
        )
        header = header_of(answer, SendAnswer)
        assert (header.region, header.trace_on) == ('R"1', "false")


def test_a_topic_of_several_tags_marks_its_messages(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        topic = TopicConfig(topic_name="T", topic_filter_type="MULTI_TAG")
        world.state.topics.create_or_replace(topic, START_MS)

        ask(world, "T")

        assert last_record(world, "T").sys_flag == MULTI_TAGS


@pytest.fixture(scope="module")
def world_of_many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("store")) as world:
        yield world


LETTERS = st.characters(exclude_characters="\x02", codec="utf-8")
PIECES = st.one_of(
    st.text(LETTERS, max_size=6),
    st.sampled_from(
        ["a", "b", "UNIQ_KEY", "CLUSTER", "TRACE_ON", "POP_CK", "TAGS", "KEYS"]
    ).flatmap(lambda name: st.text(LETTERS, max_size=4).map(lambda value: f"{name}\x01{value}")),
)


@given(pieces=st.lists(PIECES, max_size=8), ending=st.sampled_from(["", "\x02"]))
@settings(max_examples=150, deadline=None)
@example(pieces=["UNIQ_KEY\x01u", "a\x011", "a\x012"], ending="\x02")
@example(pieces=["UNIQ_KEY\x01u", "a\x01"], ending="")
@example(pieces=["UNIQ_KEY\x01u", "a\x01x\x01y"], ending="")
def test_properties_are_stored_as_they_are_read(
    world_of_many: World, pieces: list[str], ending: str
) -> None:
    text = "\x02".join(pieces) + ending
    sent = parse_properties(text)

    answer = ask(world_of_many, "T", properties=text)

    stored = stored_properties(world_of_many, "T")
    unique_id = header_of(answer, SendAnswer).transaction_id
    sent.pop("POP_CK", None)
    assert unique_id == sent.get("UNIQ_KEY", unique_id)
    assert stored == sent | {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "UNIQ_KEY": unique_id,
    }
    octets = last_record(world_of_many, "T").properties
    assert octets.count(b"\x02") == len(stored)


def test_pieces_that_are_no_properties_vanish_and_the_last_of_equal_names_wins(
    tmp_path: Path,
) -> None:
    with World(tmp_path) as world:
        ask(world, "T", properties="a\x011\x02\x01x\x02b\x01\x02nothing\x02a\x012")

        stored = stored_properties(world, "T")
        assert stored["a"] == "2"
        assert not {"", "b", "nothing"} & stored.keys()


# The medium


@pytest.mark.parametrize(("wait", "waits"), [("", True), ("true", True), ("TRUE", True),
                                             ("false", False), ("no", False)])  # fmt: skip
def test_a_sender_may_say_that_it_does_not_wait_for_the_medium(
    wait: str, waits: bool, tmp_path: Path
) -> None:
    store = replace(SMALL_STORE, flush=Flush.SYNC)
    with World(tmp_path, BrokerConfig(store=store)) as world:
        header = SendMessage(
            topic="T",
            default_topic="TBW102",
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=f"WAIT\x01{wait}\x02",
        )
        opaque = world.submit(RequestCode.SEND_MESSAGE, header, b"x")

        world.engine.end_turn(world.now_ms)

        assert (world.answer_to(opaque) is None) == waits
        world.settle()
        assert world.answer_to(opaque) is not None


# Delay


@pytest.mark.parametrize(("asked", "level"), [("1", 1), ("+3", 3), ("19", 18), ("2147483647", 18)])
def test_a_delayed_message_waits_in_the_schedule_topic(
    asked: str, level: int, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        answer = ask(world, "T", queue_id=3, properties=f"DELAY\x01{asked}\x02TAGS\x01a\x02")

        header = header_of(answer, SendAnswer)
        record = last_record(world, SCHEDULE_TOPIC, level - 1)
        stored = parse_properties(record.properties)
        assert (stored["REAL_TOPIC"], stored["REAL_QID"]) == ("T", "3")
        assert stored["DELAY"] == str(level)
        assert (header.queue_id, header.queue_offset) == (3, 0)
        assert header.msg_id.endswith(f"{record.log_offset:016X}")


@pytest.mark.parametrize("asked", ["0", "-1", "-2147483648"])
def test_a_level_of_none_is_kept_and_means_nothing(asked: str, tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, "T", properties=f"DELAY\x01{asked}\x02")

        assert stored_properties(world, "T")["DELAY"] == asked


# Retry topics


@pytest.mark.parametrize(
    ("times", "own_max", "version", "is_dead"),
    [
        (15, None, 479, False),
        (16, None, 479, True),
        (1, 2, 479, False),
        (2, 2, 479, True),
        (2, 2, 121, True),
        (2, 2, 120, False),
        (16, 99, 479, False),
        (0, 0, 479, True),
    ],
)
def test_a_retry_message_is_a_dead_letter_at_the_maximum(
    times: int, own_max: int | None, version: int, is_dead: bool, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        answer = ask(
            world,
            "%RETRY%g",
            queue_id=0,
            reconsume_times=times,
            max_reconsume_times=own_max,
            version=version,
            properties="DELAY\x013\x02",
        )

        assert answer.code == ResponseCode.SUCCESS
        assert (world.state.log.max_offset("%DLQ%g", 0) == 1) == is_dead
        assert (world.state.log.max_offset(SCHEDULE_TOPIC, 2) == 1) == (not is_dead)


def test_the_dead_letter_topic_has_one_queue_and_both_permissions(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(
            world, "%RETRY%g", queue_id=2, reconsume_times=16, properties="UNIQ_KEY\x01u\x02"
        )

        made = world.state.topics.find("%DLQ%g")
        assert made is not None
        assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (1, 1, 6)
        assert last_record(world, "%DLQ%g").reconsume_times == 16
        assert stored_properties(world, "%DLQ%g")["DELAY"] == "-1"
        assert header_of(answer, SendAnswer).queue_id == 2


def test_a_retry_message_of_an_ordered_group_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.locks.lock("g", "client", [QueueRef("T", "broker-a", 0)], START_MS)

        ask(world, "%RETRY%g")
        world.now_ms += world.state.config.lock_ms + 1
        ask(world, "%RETRY%g")

        assert world.state.log.max_offset("%DLQ%g", 0) == 1
        assert world.state.log.max_offset("%RETRY%g", 0) == 1


def test_the_maximum_of_the_group_counts(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.groups.create_or_replace(
            GroupConfig(group_name="g", retry_max_times=1), START_MS
        )

        ask(world, f"{RETRY_PREFIX}g", reconsume_times=1)

        assert world.state.log.max_offset("%DLQ%g", 0) == 1


# Transactions


def test_a_half_message_is_hidden_and_its_id_answered(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world, "T", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01ID\x02")

        assert answer.code == ResponseCode.SUCCESS
        assert header_of(answer, SendAnswer).transaction_id == "ID"
        assert world.state.log.max_offset("T", 0) == 0
        assert stored_properties(world, HALF_TOPIC)["REAL_TOPIC"] == "T"


def test_an_old_retry_that_kept_its_mark_opens_no_transaction(tmp_path: Path) -> None:
    with World(tmp_path, configured(reject_transactions=True)) as world:
        answer = ask(
            world, "%RETRY%g", reconsume_times=1, properties="TRAN_MSG\x01true\x02DELAY\x013\x02"
        )

        assert answer.code == ResponseCode.SUCCESS
        assert world.state.log.max_offset(SCHEDULE_TOPIC, 2) == 1


def test_the_flag_alone_makes_no_half_message(tmp_path: Path) -> None:
    with World(tmp_path, configured(reject_transactions=True)) as world:
        answer = ask(world, "T", sys_flag=int(TransactionType.PREPARED))

        assert answer.code == ResponseCode.SUCCESS
        assert world.state.log.max_offset("T", 0) == 0


# Counting


def test_sends_are_counted_by_topic_and_broker(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, "T")
        ask(world, "T")

        stats, now_ms = world.state.stats, world.now_ms
        size_bytes = int(world.state.log.end_offset)
        by_topic = stats.growth(TOPIC_PUT_NUMS, "T", MINUTE, now_ms)
        in_bytes = stats.growth(TOPIC_PUT_SIZE, "T", MINUTE, now_ms)
        by_broker = stats.growth(BROKER_PUT_NUMS, "DefaultCluster", MINUTE, now_ms)
        assert by_topic is not None
        assert in_bytes is not None
        assert by_broker is not None
        assert (by_topic.sum, in_bytes.sum, by_broker.sum) == (2, size_bytes, 2)
