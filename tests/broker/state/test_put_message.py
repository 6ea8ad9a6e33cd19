"""Everything goes into the log the same way: at once, after a delay level, or at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import TIMER_NAMES, NewMessage, append
from flintmq.broker.state.put_message import put_message, wanted_level
from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import TransactionType
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.codes import ResponseCode
from support.broker.sends import last_record, stored_properties
from support.broker.world import START_MS, World

BORN_HOST = Host.parse("10.0.0.2:40000")


def message(world: World, **properties: str) -> NewMessage:
    return NewMessage("T", 3, b"body", properties, 5, BORN_HOST, world.state.host)


def test_a_message_is_appended_as_it_is(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        new = NewMessage(
            "T", 3, b"body", {"TAGS": "a"}, 5, BORN_HOST, world.state.host, 1, 8, 2, 77
        )

        appended = append(world.state, new, START_MS)
        world.settle()

        record = last_record(world, "T", 3)
        assert (record.log_offset, record.queue_offset) == (
            appended.log_offset,
            appended.queue_offset,
        )
        assert (record.flag, record.sys_flag, record.reconsume_times) == (1, 8, 2)
        assert (record.born_ms, record.born_host, record.store_ms) == (5, BORN_HOST, START_MS)
        assert record.prepared_offset == LogOffset(77)


def test_the_tag_and_the_keys_lead_to_a_message(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        append(world.state, message(world, TAGS="a", KEYS="k1 k2", UNIQ_KEY="u"), START_MS)

        (grown,) = world.state.log.write()

        assert grown.tags_codes == [tags_code("a")]
        for key in ("k1", "k2", "u"):
            assert world.state.log.lookup.by_key("T", key, 9, 0, START_MS + 1).views


def test_appending_heeds_no_delay(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        append(world.state, message(world, DELAY="3"), START_MS)
        world.settle()

        assert stored_properties(world, "T", 3)["DELAY"] == "3"


def test_a_delay_level_makes_it_a_message_of_the_schedule_topic(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        new = message(world, DELAY="2", TAGS="a", **dict.fromkeys(TIMER_NAMES, "1000"))

        put_message(world.state, new, START_MS)
        (grown,) = world.state.log.write()

        assert (new.topic, new.queue_id) == (SCHEDULE_TOPIC, 1)
        assert grown.tags_codes == [START_MS + 5_000]
        assert stored_properties(world, SCHEDULE_TOPIC, 1) == {
            "DELAY": "2",
            "TAGS": "a",
            "REAL_TOPIC": "T",
            "REAL_QID": "3",
        }


@pytest.mark.parametrize(
    ("kind", "is_delayed"),
    [
        (TransactionType.NONE, True),
        (TransactionType.COMMIT, True),
        (TransactionType.PREPARED, False),
        (TransactionType.ROLLBACK, False),
    ],
)
def test_only_what_consumers_get_is_delayed(
    kind: TransactionType, is_delayed: bool, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        new = message(world, DELAY="2")
        new.sys_flag = int(kind)

        put_message(world.state, new, START_MS)

        assert (new.topic == SCHEDULE_TOPIC) == is_delayed


def test_a_time_of_delivery_makes_it_a_message_of_the_timer_topic(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        new = message(world, DELAY="0", TIMER_DELAY_MS="60000")

        put_message(world.state, new, START_MS)

        assert new.topic == "rmq_sys_wheel_timer"


def test_what_no_record_can_hold_is_illegal(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        new = message(world, a="x" * 32_768)

        with pytest.raises(Refusal) as refused:
            append(world.state, new, START_MS)

        assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
        assert not world.state.log.has_turn
        assert world.state.log.read("T", 3, QueueOffset(0), 1).views == []


@given(st.integers(-(2**31), 2**31 - 1))
def test_any_java_int_is_a_level(level: int) -> None:
    assert wanted_level({"DELAY": str(level)}) == level


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1.0", "--1", "-+1", "+-1", "1_0", "٣", "2147483648", "9" * 5_000]
)
def test_nothing_else_is_a_level(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        wanted_level({"DELAY": text})

    assert refused.value.code == ResponseCode.SYSTEM_ERROR


def test_no_level_is_none() -> None:
    assert wanted_level({}) == 0
    assert wanted_level({"DELAY": "+3"}) == 3
