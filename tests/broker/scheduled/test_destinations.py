"""No request makes a message deliver itself, write a topic of the broker's own, or make a queue.

What waited goes where a send could have gone, also from directories that hold worse.
"""

from __future__ import annotations

import logging
import zlib
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.admin.runtime_info import runtime_table
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.scheduled.append import append
from flintmq.model.host import Host
from flintmq.model.message_id import offset_id, parse_offset_id
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import (
    CHECK_MAX_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TIMER_TOPIC,
)
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.headers.send import SendAnswer
from flintmq.protocol.headers.transaction import ResumeCheck
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record import Record, Version, encode_record
from flintmq.store.message_log import Appended
from support.broker.queued import bodies, message, properties_of, put, records
from support.broker.transactions import GROUP, TOPIC, end, join, put_half
from support.broker.world import SMALL_STORE, START_MS, World, header_of

NOT_TO_BE_WRITTEN = (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    CHECK_MAX_TOPIC,
    OFFSET_MOVED_TOPIC,
    SELF_TEST_TOPIC,
)
HUGE = 999_999_999


def written(world: World, topic: str) -> int:
    """Records in all queues of a topic."""
    return sum(span.stop - span.start for span in world.state.log.queues() if span.topic == topic)


def forged(topic: str, queue_id: int = 0, **more: object) -> dict[str, Any]:
    """Properties of a message that wants to be taken for one that waits for ``topic``."""
    wanted = {
        "PGROUP": GROUP,
        "REAL_TOPIC": topic,
        "REAL_QID": queue_id,
        "TIMER_OUT_MS": START_MS - 1_000,
        **more,
    }
    return {name: str(value) for name, value in wanted.items()}


def text_of(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def resume(world: World, log_offset: int) -> Answer:
    header = ResumeCheck(msg_id=offset_id(world.state.host, LogOffset(log_offset)))
    answer = world.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
    assert answer is not None
    return answer


def attack(world: World, topic: str, queue_id: int = 0, **more: object) -> Answer | None:
    """Send a message that names another topic, have it made a half message, commit that."""
    answer = world.send("T", b"again", properties=text_of(forged(topic, queue_id, **more)))
    _, log_offset = parse_offset_id(header_of(answer, SendAnswer).msg_id)
    resume(world, log_offset)
    for half in records(world, HALF_TOPIC):
        return end(world, appended(half))
    return None


def appended(half: Record) -> Appended:
    return Appended(LogOffset(half.log_offset), QueueOffset(half.queue_offset), 0, 0)


def waiting(
    world: World, real_topic: str, real_queue: int = 0, *, topic: str = SCHEDULE_TOPIC, **more: Any
) -> Appended:
    """Put a record in wait as earlier brokers let a peer put it there."""
    properties = forged(real_topic, real_queue, **more)
    new = message(world, topic, b"again", **properties)
    stored = append(world.state, new, world.now_ms, delay_level=int(topic == SCHEDULE_TOPIC))
    world.settle()
    return stored


# Requests


@pytest.mark.parametrize("topic", NOT_TO_BE_WRITTEN)
def test_a_message_cannot_be_made_one_that_waits_for_a_topic_of_the_broker(
    topic: str, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        attack(world, topic)
        world.advance(10_000)
        reached = world.state.log.end_offset
        world.advance(10_000)

        assert world.state.log.end_offset == reached
        assert written(world, topic) == 0
    with World(tmp_path, start_ms=START_MS + 30_000) as world:
        world.advance(10_000)

        assert world.state.log.end_offset == reached
        assert written(world, topic) == 0


@pytest.mark.parametrize("wish", [{"DELAY": 1}, {"TIMER_DELAY_MS": 1_000}, {"TRAN_MSG": "true"}])
def test_what_a_sender_says_of_topic_and_queue_does_not_count(
    wish: dict[str, object], tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        properties = forged(SCHEDULE_TOPIC, HUGE) | {k: str(v) for k, v in wish.items()}
        del properties["TIMER_OUT_MS"]
        world.send(TOPIC, queue_id=2, properties=text_of(properties))
        if "TRAN_MSG" in wish:
            (half,) = records(world, HALF_TOPIC)
            end(world, appended(half))

        world.advance(2_000)

        assert bodies(world, TOPIC, 2) == [b"hello"]
        assert {span.queue_id for span in world.state.log.queues()} <= {0, 2}


def test_only_a_half_message_or_one_that_was_given_up_is_asked_about_again(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        plain = put(world, TOPIC, **forged(TOPIC, 2))
        delayed = put(world, TOPIC, queue_id=2, DELAY=5, PGROUP=GROUP)
        half = put_half(world)

        codes = [resume(world, each.log_offset).code for each in (plain, delayed, half)]

        assert codes == [1, 1, 0]
        assert len(bodies(world, HALF_TOPIC)) == 2


@pytest.mark.parametrize("topic", [HALF_TOPIC, CHECK_MAX_TOPIC])
def test_a_record_inside_a_body_is_no_half_message(topic: str, tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.send("T", b"first")
        (first,) = records(world, "T")
        at = world.state.log.end_offset + 88  # where the body of the next record begins
        host = Host.parse("127.0.0.1:1")
        crc, now_ms = zlib.crc32(b"inner") & 0x7FFFFFFF, world.now_ms
        inner = Record(
            Version.V1, crc, 0, 0, QueueOffset(0), LogOffset(at), 0, now_ms, host, now_ms, host, 0,
            LogOffset(0), b"inner", topic,
            encode_properties(forged(TOPIC, 1)),
        )  # fmt: skip
        world.send("T", encode_record(inner))
        seen = world.state.log.lookup.record_at(LogOffset(at))
        assert seen is not None
        assert seen.topic == topic  # the bytes do stand there

        resumed = resume(world, at)
        ended = end(world, Appended(LogOffset(at), QueueOffset(0), 0, 0))

        assert resumed.code == 1
        assert ended is not None
        assert ended.code == 1
        assert written(world, HALF_TOPIC) == written(world, TOPIC) == 0
        assert first.body == b"first"


# Commits


@pytest.mark.parametrize("topic", NOT_TO_BE_WRITTEN)
def test_a_half_message_for_a_topic_of_the_broker_is_not_committed(
    topic: str, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        waiting(world, topic, topic=HALF_TOPIC)
        before = written(world, topic)
        (half,) = records(world, HALF_TOPIC)

        answer = end(world, appended(half))

        assert answer is not None
        assert (answer.code, answer.remark) == (
            16,
            f"Sending message to topic[{topic}] is forbidden.",
        )
        assert written(world, topic) == before


def test_a_half_message_that_cannot_be_committed_is_given_up_in_the_end(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        join(world)
        waiting(world, SCHEDULE_TOPIC, topic=HALF_TOPIC)

        world.advance(20 * 31_000)
        reached = world.state.log.end_offset
        world.advance(20 * 31_000)

        assert len(bodies(world, CHECK_MAX_TOPIC)) == 1
        assert world.state.log.end_offset == reached


def test_a_commit_makes_no_queue(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.send(TOPIC)
        waiting(world, TOPIC, HUGE, topic=HALF_TOPIC)
        (half,) = records(world, HALF_TOPIC)

        answer = end(world, appended(half))

        assert answer is not None
        assert answer.code == 0
        assert bodies(world, TOPIC, HUGE % 4) == [b"again"]
        assert max(span.queue_id for span in world.state.log.queues()) < 4


def test_a_commit_for_a_topic_nobody_may_make_is_refused_and_can_be_done_later(
    tmp_path: Path,
) -> None:
    config = BrokerConfig(store=SMALL_STORE, auto_create_topic=False)
    with World(tmp_path, config) as world:
        half = put_half(world)
        refused = end(world, half)
        nothing = written(world, TOPIC)
        world.state.topics.ensure(TOPIC, 4, world.now_ms)

        answer = end(world, half)

        assert refused is not None
        assert (refused.code, nothing) == (17, 0)
        assert answer is not None
        assert answer.code == 0
        assert bodies(world, TOPIC, 2) == [b"hello"]


# Deliveries


@pytest.mark.parametrize("topic", NOT_TO_BE_WRITTEN)
@pytest.mark.parametrize("wait", [SCHEDULE_TOPIC, TIMER_TOPIC])
def test_a_loop_in_a_directory_ends_and_is_logged_once(
    wait: str, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as world:
        for _ in range(50):
            waiting(world, topic, topic=wait)
        wish: dict[str, Any] = {"DELAY": 1} if wait == SCHEDULE_TOPIC else {"TIMER_DELAY_MS": 1_000}
        put(world, TOPIC, b"behind", **wish)
        before = written(world, topic)
    with World(tmp_path) as world, caplog.at_level(logging.WARNING):
        world.advance(10_000)
        state = world.state

        assert written(world, topic) == before
        assert bodies(world, TOPIC) == [b"behind"]
        told = runtime_table(state, world.now_ms)
        assert (told["delayedNotDelivered"], told["timersNotDelivered"]) == (
            ("50", "0") if wait == SCHEDULE_TOPIC else ("0", "50")
        )
        assert caplog.text.count("is not delivered to") == 1
        assert topic in caplog.text
        world.tables.delay_offsets.save(state.delays.table())
        reached = state.log.end_offset
        world.advance(10_000)
        assert state.log.end_offset == reached


@pytest.mark.parametrize("wish", [{"DELAY": 1}, {"TIMER_DELAY_MS": 1_000}])
def test_a_message_whose_queue_went_goes_to_another_queue_of_its_topic(
    wish: dict[str, int], tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        world.state.topics.ensure("T", 8, world.now_ms)
        world.send("T", queue_id=7, properties=text_of({k: str(v) for k, v in wish.items()}))
        smaller = TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3, perm=6)
        world.state.topics.create_or_replace(smaller, world.now_ms)

        world.advance(2_000)

        assert bodies(world, "T", 7 % 3) == [b"hello"]
        assert bodies(world, "T", 7) == []
        (record,) = records(world, "T", 1)
        assert properties_of(record)["REAL_QID"] == "7"


def test_a_queue_that_is_only_read_still_takes_what_was_sent_to_it(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.topics.ensure("T", 8, world.now_ms)
        world.send("T", queue_id=7, properties="DELAY\x011\x02")
        halfway = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=3, perm=6)
        world.state.topics.create_or_replace(halfway, world.now_ms)

        world.advance(2_000)

        assert bodies(world, "T", 7) == [b"hello"]


@pytest.mark.parametrize("may_make", [True, False])
def test_a_message_of_a_deleted_topic_makes_it_again_where_a_send_would(
    may_make: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = BrokerConfig(store=SMALL_STORE, auto_create_topic=may_make)
    with World(tmp_path, config) as world:
        world.state.topics.ensure("T", 4, world.now_ms)
        world.send("T", queue_id=1, properties="DELAY\x011\x02")
        world.state.topics.remove("T", world.now_ms)

        world.advance(2_000)

        assert bodies(world, "T", 1) == [b"hello"] * may_make
        assert ("T" in world.state.topics) == may_make
        assert ("topic[T] not exist" in caplog.text) != may_make


def test_a_topic_without_queues_takes_nothing(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.state.topics.ensure("T", 1, world.now_ms)
        world.send("T", properties="DELAY\x011\x02")
        none = TopicConfig(topic_name="T", read_queue_nums=0, write_queue_nums=0, perm=6)
        world.state.topics.create_or_replace(none, world.now_ms)

        world.advance(2_000)

        assert written(world, "T") == 0
        assert world.state.delays.unreadable_count == 1


def test_a_group_with_a_long_name_gets_its_retries(tmp_path: Path) -> None:
    group = "g" * 150
    with World(tmp_path) as world:
        world.send("T")
        (record,) = records(world, "T")

        answer = send_back(world, record, group, delay_level=1)
        world.advance(2_000)

        assert answer.code == 0
        assert bodies(world, f"%RETRY%{group}") == [b"hello"]


def test_the_retry_of_a_group_whose_retry_topic_is_gone_arrives(tmp_path: Path) -> None:
    config = BrokerConfig(store=SMALL_STORE, auto_create_topic=False)
    with World(tmp_path, config) as world:
        world.state.topics.ensure("T", 1, world.now_ms)
        world.send("T")
        (record,) = records(world, "T")
        send_back(world, record, "g", delay_level=1)
        world.state.topics.remove("%RETRY%g", world.now_ms)

        world.advance(2_000)

        assert bodies(world, "%RETRY%g") == [b"hello"]


def test_the_log_shows_invented_destinations_without_their_control_characters_and_not_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with World(tmp_path) as world:
        for number in range(300):
            waiting(world, f"\x1b[31m\nforged {number}")

        world.advance(2_000)

        lines = [each.getMessage() for each in caplog.records if "not delivered" in each.message]
        assert len(lines) == 100
        assert not any("\n" in line or "\x1b" in line for line in lines)
        assert world.state.delays.unreadable_count == 300


# Messages sent back


def send_back(world: World, record: Record, group: str, *, delay_level: int) -> Answer:
    header = SendBackHeader(
        offset=record.log_offset,
        group=group,
        delay_level=delay_level,
        origin_msg_id="",
        origin_topic=record.topic,
    )
    answer = world.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    assert answer is not None
    return answer


def test_a_message_sent_back_goes_to_a_queue_its_retry_topic_has(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.send("T")
        (record,) = records(world, "T")
        world.state.groups.create_or_replace(
            GroupConfig(group_name="g", retry_queue_nums=1_000), world.now_ms
        )
        world.state.topics.ensure("%RETRY%g", 2, world.now_ms)

        for _ in range(20):
            send_back(world, record, "g", delay_level=1)
        world.advance(2_000)

        queues = {each.queue_id for each in world.state.log.queues() if each.topic == "%RETRY%g"}
        assert queues == {0, 1}
        assert written(world, "%RETRY%g") == 20


# Half messages that want more time


def test_a_half_message_from_the_future_is_not_stored_again_for_ever(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        wish = {"CHECK_IMMUNITY_TIME_IN_SECONDS": 10**9}
        new = message(world, TOPIC, b"later", PGROUP=GROUP, UNIQ_KEY="id", **wish)
        new.born_ms = START_MS + 10**15
        world.state.halves.append(world.state, new, world.now_ms)
        world.settle()

        world.advance(40 * 30_000)
        reached = world.state.log.end_offset
        world.advance(40 * 30_000)

        assert world.state.log.end_offset == reached
        assert bodies(world, CHECK_MAX_TOPIC) == [b"later"]
