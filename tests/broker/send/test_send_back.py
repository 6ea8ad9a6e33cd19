"""What a consumer gives back is stored once more: to be tried again later, or as a dead letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.tables.broker_stats import MINUTE, SNDBCK_PUT_NUMS
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.headers.send import SendAnswer
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record, Version, decode_record
from flintmq.store.files.store_config import Flush
from support.broker.sends import change, configured, last_record, stored_properties
from support.broker.world import SMALL_STORE, START_MS, World, header_of

GOLDEN = Path(__file__).parents[2] / "golden"


def sent(world: World, **more: Any) -> LogOffset:
    """Send a message; where it is in the log."""
    answer = world.send("T", b"body", properties="TAGS\x01a\x02UNIQ_KEY\x01ID\x02", **more)
    return LogOffset(int(header_of(answer, SendAnswer).msg_id[16:], 16))


def give_back(world: World, offset: int, version: int = 479, **fields: Any) -> Answer:
    given: dict[str, Any] = {"offset": offset, "group": "g", "delay_level": 0} | fields
    answer = world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, SendBackHeader(**given), version=version)
    assert answer is not None
    return answer


def place(world: World, topic: str, queue_id: int = 0) -> LogOffset:
    return last_record(world, topic, queue_id).log_offset


def test_a_message_is_tried_again_after_a_delay(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        origin = world.state.log.lookup.record_at(sent(world, reconsume_times=2, sys_flag=1))
        assert origin is not None

        answer = give_back(world, origin.log_offset)

        again = last_record(world, SCHEDULE_TOPIC, 4)
        assert (answer.code, answer.remark, answer.header) == (ResponseCode.SUCCESS, None, None)
        assert again.reconsume_times == 3
        for same in ("body", "flag", "sys_flag", "born_ms", "born_host"):
            assert getattr(again, same) == getattr(origin, same)
        assert parse_properties(again.properties) == {
            **parse_properties(origin.properties),
            "RETRY_TOPIC": "T",
            "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{origin.log_offset:016X}",
            "WAIT": "false",
            "DELAY": "5",
            "REAL_TOPIC": "%RETRY%g",
            "REAL_QID": "0",
        }


def test_the_life_of_a_message_that_always_fails(tmp_path: Path) -> None:
    quick = replace(SMALL_STORE, delay_levels_ms=(1_000,) * 18)
    with World(tmp_path, BrokerConfig(store=quick)) as world:
        offset = sent(world)
        levels = []

        for _ in range(16):
            give_back(world, offset)
            world.advance(2_000)
            offset = place(world, "%RETRY%g")
            levels.append(stored_properties(world, "%RETRY%g")["DELAY"])
        give_back(world, offset)

        letter = last_record(world, "%DLQ%g")
        assert levels == [str(level) for level in range(3, 19)]
        assert letter.reconsume_times == 17
        stored = parse_properties(letter.properties)
        assert (stored["DELAY"], stored["RETRY_TOPIC"]) == ("0", "T")
        assert stored["ORIGIN_MESSAGE_ID"] == "7F00000100002A9F0000000000000000"
        assert stored["UNIQ_KEY"] == "ID"


@pytest.mark.parametrize(("asked", "level"), [(1, 1), (18, 18), (99, 18)])
def test_a_consumer_may_name_the_delay(asked: int, level: int, tmp_path: Path) -> None:
    with World(tmp_path) as world:
        give_back(world, sent(world), delay_level=asked)

        assert stored_properties(world, SCHEDULE_TOPIC, level - 1)["DELAY"] == str(level)


@pytest.mark.parametrize(
    ("times", "level", "own_max", "version", "is_dead"),
    [
        (15, 0, None, 479, False),
        (16, 0, None, 479, True),
        (0, -1, None, 479, True),
        (1, 0, 1, 479, True),
        (1, 0, 1, 121, True),
        (1, 0, 1, 120, False),
        (16, 0, 17, 479, False),
        (0, 0, 0, 479, True),
    ],
)
def test_a_message_is_a_dead_letter_at_the_maximum_or_when_asked(
    times: int, level: int, own_max: int | None, version: int, is_dead: bool, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        offset = sent(world, reconsume_times=times)

        give_back(world, offset, version, delay_level=level, max_reconsume_times=own_max)

        assert ("%DLQ%g" in world.state.topics) == is_dead
        assert (world.state.log.max_offset("%DLQ%g", 0) == 1) == is_dead


def test_the_maximum_of_the_group_counts_without_one_of_the_consumer(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.groups.create_or_replace(
            GroupConfig(group_name="g", retry_max_times=0), START_MS
        )

        give_back(world, sent(world))

        assert last_record(world, "%DLQ%g").reconsume_times == 1


def test_who_stores_it_again_is_its_store_host_and_the_first_is_in_its_origin(
    tmp_path: Path,
) -> None:
    with World(tmp_path) as world:
        other = Host.parse("10.0.0.1:10911")
        origin = NewMessage("T", 0, b"body", {"ORIGIN_MESSAGE_ID": " "}, 5, other, other)
        append(world.state, origin, START_MS)
        world.settle()

        give_back(world, 0, delay_level=-1)

        letter = last_record(world, "%DLQ%g")
        assert (letter.born_host, letter.store_host) == (other, world.state.host)
        assert stored_properties(world, "%DLQ%g")["ORIGIN_MESSAGE_ID"] == (
            "0A00000100002A9F0000000000000000"
        )


def test_both_topics_are_made_when_they_are_needed(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.groups.create_or_replace(
            GroupConfig(group_name="g", retry_queue_nums=3), START_MS
        )

        give_back(world, sent(world), delay_level=-1, unit_mode=True)

        retry, dead = (world.state.topics.find(name) for name in ("%RETRY%g", "%DLQ%g"))
        assert retry is not None
        assert dead is not None
        assert (retry.read_queue_nums, retry.perm, retry.topic_sys_flag) == (3, 6, 2)
        assert (dead.read_queue_nums, dead.perm, dead.topic_sys_flag) == (1, 6, 0)


def test_retries_are_spread_over_the_queues_of_the_retry_topic(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.groups.create_or_replace(
            GroupConfig(group_name="g", retry_queue_nums=3), START_MS
        )
        offset = sent(world)

        for _ in range(30):
            give_back(world, offset, delay_level=1)

        read = world.state.log.read(SCHEDULE_TOPIC, 0, QueueOffset(0), 32)
        chosen = {parse_properties(record.properties)["REAL_QID"] for record in records(read.views)}
        assert chosen == {"0", "1", "2"}


def records(views: list[memoryview]) -> list[Record]:
    octets, found, at = b"".join(views), [], 0
    while at < len(octets):
        found.append(decode_record(octets, at))
        at += int.from_bytes(octets[at : at + 4], "big")
    return found


def test_a_group_without_retry_queues_lets_its_messages_go(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.groups.create_or_replace(
            GroupConfig(group_name="g", retry_queue_nums=0), START_MS
        )
        sent(world)
        end_offset = world.state.log.end_offset

        answer = give_back(world, 999)

        assert answer.code == ResponseCode.SUCCESS
        assert "%RETRY%g" not in world.state.topics
        assert world.state.log.end_offset == end_offset


def test_a_long_group_has_a_long_retry_topic(tmp_path: Path) -> None:
    group = "g" * 200
    with World(tmp_path) as world:
        give_back(world, sent(world), group=group, delay_level=1)
        world.advance(2_000)

        record = last_record(world, f"%RETRY%{group}")
        assert record.version is Version.V2


class Case(NamedTuple):
    name: str
    code: int
    remark: str
    offset: int = 0
    fields: dict[str, Any] | None = None
    arrange: Callable[[World], None] = lambda world: None


def no_groups(world: World) -> None:
    config = replace(world.state.config, auto_create_group=False)
    world.state.groups = type(world.state.groups)(config, None, START_MS)


def no_writing(world: World) -> None:
    world.state.topics.create_or_replace(TopicConfig(topic_name="%RETRY%g", perm=4), START_MS)


def stopping(world: World) -> None:
    world.state.is_stopping = True


CASES = [
    Case(
        "group unknown",
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "subscription group not exist, g",
        arrange=no_groups,
    ),
    Case(
        "group unknown comes before the broker's permission",
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        "subscription group not exist, no/name",
        fields={"group": "no/name"},
        arrange=lambda world: change(world, permission=4),
    ),
    Case(
        "broker not writable",
        ResponseCode.NO_PERMISSION,
        "the broker[127.0.0.1] sending message is forbidden",
        arrange=lambda world: change(world, permission=4),
    ),
    Case(
        "stopping",
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. The broker is about to stop.",
        arrange=stopping,
    ),
    Case(
        "retry topic not writable",
        ResponseCode.NO_PERMISSION,
        "the topic[%RETRY%g] sending message is forbidden",
        arrange=no_writing,
    ),
    *(
        Case(
            f"nothing at {offset}",
            ResponseCode.SYSTEM_ERROR,
            f"look message by offset failed, {offset}",
            offset=offset,
        )
        for offset in (1, 50, 999_999_999_999, -1, 2**63 - 1, -(2**63))
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_cannot_be_given_back_is_refused(case: Case, tmp_path: Path) -> None:
    with World(tmp_path) as world:
        assert sent(world) == 0
        case.arrange(world)

        answer = give_back(world, case.offset, **case.fields or {})

        assert (answer.code, answer.remark) == (case.code, case.remark)
        assert world.state.log.max_offset(SCHEDULE_TOPIC, 2) == 0


def test_properties_that_grow_too_large_are_refused(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.send("T", properties=f"UNIQ_KEY\x01I\x02a\x01{'x' * 32_640}\x02")

        answer = give_back(world, 0)

        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL")


def test_the_answer_waits_for_the_medium(tmp_path: Path) -> None:
    store = replace(SMALL_STORE, flush=Flush.SYNC)
    with World(tmp_path, BrokerConfig(store=store)) as world:
        offset = sent(world)
        header = SendBackHeader(offset=offset, group="g", delay_level=0)
        opaque = world.submit(RequestCode.CONSUMER_SEND_MSG_BACK, header)

        world.engine.end_turn(world.now_ms)

        assert world.answer_to(opaque) is None
        world.settle()
        assert world.answer_to(opaque) is not None


def test_what_came_back_is_counted_by_topic_and_group(tmp_path: Path) -> None:
    with World(tmp_path, configured()) as world:
        give_back(world, sent(world), delay_level=1)
        world.advance(2_000)

        give_back(world, place(world, "%RETRY%g"), delay_level=1)

        growth = world.state.stats.growth(SNDBCK_PUT_NUMS, "T@g", MINUTE, world.now_ms)
        assert growth is not None
        assert growth.sum == 2


def golden_letters() -> list[dict[str, str]]:
    rows = map(json.loads, (GOLDEN / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        row["expected"]["properties"]
        for row in rows
        if row["broker"] == "5.3.3" and row["kind"] == "dead-letter"
    ]


@pytest.mark.parametrize("wanted", golden_letters())
def test_a_dead_letter_has_the_properties_of_one_of_a_real_broker(
    wanted: dict[str, str], tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        give_back(world, sent(world), delay_level=1)
        world.advance(2_000)

        give_back(world, place(world, "%RETRY%g"), delay_level=-1)

        of_sender = {"KEYS", "a"}
        of_retry = {"REAL_TOPIC", "REAL_QID"}
        letter = stored_properties(world, "%DLQ%g")
        assert letter.keys() - of_retry == wanted.keys() - of_sender - of_retry
        assert (letter["DELAY"], letter["WAIT"]) == (wanted["DELAY"], wanted["WAIT"])
