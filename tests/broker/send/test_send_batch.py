"""A batch becomes one record per message, side by side, or nothing at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.send.send_batch import looked_at, looked_up
from flintmq.broker.tables.broker_stats import MINUTE, TOPIC_PUT_NUMS
from flintmq.kernel.python.batches import rest_of_all
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import INNER_BATCH, MULTI_TAGS, TransactionType
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2, SendRefusal
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record, decode_record
from flintmq.store.files.store_config import Flush
from support.broker.world import SMALL_STORE, START_MS, World, header_of

GOLDEN = Path(__file__).parents[2] / "golden"

TWO = encode_batch([BatchEntry(b"one", b"TAGS\x01a\x02", 3), BatchEntry(b"two", b"KEYS\x01k")])


def ask(world: World, body: bytes, topic: str = "T", code: int = 320, **fields: Any) -> Answer:
    given: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 123,
        "flag": 0,
        "properties": "WAIT\x01true\x02",
        "is_batch": True,
    }
    answer = world.ask(RequestCode(code), SendMessageV2(**given | fields), body)
    assert answer is not None
    return answer


def records_of(world: World, answer: Answer) -> list[Record]:
    """The records an answer names."""
    ids = header_of(answer, SendAnswer).msg_id.split(",")
    found = [world.state.log.lookup.record_at(LogOffset(int(each[16:], 16))) for each in ids]
    return [record for record in found if record is not None]


def test_every_message_becomes_a_record_of_its_own(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        world.send("T", queue_id=1)

        answer = ask(world, TWO, queue_id=1, sys_flag=1, reconsume_times=2)

        header = header_of(answer, SendAnswer)
        one, two = records_of(world, answer)
        assert (header.queue_id, header.queue_offset, header.transaction_id) == (1, 1, None)
        assert (one.body, one.flag, one.queue_offset) == (b"one", 3, 1)
        assert (two.body, two.flag, two.queue_offset) == (b"two", 0, 2)
        assert two.log_offset > one.log_offset
        for record in (one, two):
            assert (record.sys_flag, record.born_ms, record.reconsume_times) == (1, 123, 2)
            assert record.store_ms == START_MS


def test_properties_of_the_request_follow_those_of_each_message(tmp_path: Path) -> None:
    ours = b"WAIT\x01true\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"
    ours += b"CLUSTER\x01DefaultCluster\x02"
    with World(tmp_path) as world:
        one, two = records_of(world, ask(world, TWO))

        assert one.properties == b"TAGS\x01a\x02" + ours
        assert two.properties == b"KEYS\x01k\x02" + ours


def test_the_id_of_the_batch_stands_behind_that_of_the_message_and_wins(tmp_path: Path) -> None:
    body = encode_batch([BatchEntry(b"x", b"UNIQ_KEY\x01inner\x02")])
    with World(tmp_path) as world:
        answer = ask(world, body, properties="UNIQ_KEY\x01outer\x02")

        (record,) = records_of(world, answer)
        assert record.properties.count(b"UNIQ_KEY") == 2
        assert parse_properties(record.properties)["UNIQ_KEY"] == "outer"
        assert header_of(answer, SendAnswer).transaction_id == "outer"
        assert world.state.log.lookup.by_key("T", "outer", 32, 0, START_MS + 1).views


def test_messages_are_found_by_tag_and_key(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, TWO)

        read = world.state.log.read("T", 0, QueueOffset(0), 32)
        assert decode_record(b"".join(read.views)).body == b"one"
        (view,) = world.state.log.lookup.by_key("T", "k", 32, 0, START_MS + 1).views
        assert decode_record(view).body == b"two"


def test_the_flag_and_not_the_code_says_that_it_is_a_batch(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        by_flag = ask(world, TWO, code=310)
        plain = ask(world, TWO, code=320, is_batch=False)

        assert len(records_of(world, by_flag)) == 2
        (record,) = records_of(world, plain)
        assert record.body == TWO


def test_a_batch_is_counted_by_its_messages(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, TWO)

        growth = world.state.stats.growth(TOPIC_PUT_NUMS, "T", MINUTE, world.now_ms)
        assert growth is not None
        assert growth.sum == 2


def test_a_negative_queue_id_chooses_one_queue_for_all(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world, TWO, queue_id=-1)

        queue_ids = {record.queue_id for record in records_of(world, answer)}
        assert queue_ids == {header_of(answer, SendAnswer).queue_id}


def test_a_topic_of_several_tags_marks_its_messages(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        topic = TopicConfig(topic_name="T", topic_filter_type="MULTI_TAG")
        world.state.topics.create_or_replace(topic, START_MS)

        records = records_of(world, ask(world, TWO))

        assert [record.sys_flag for record in records] == [MULTI_TAGS, MULTI_TAGS]


@pytest.mark.parametrize(("wait", "waits"), [("true", True), ("false", False)])
def test_a_batch_may_say_that_it_does_not_wait(wait: str, waits: bool, tmp_path: Path) -> None:
    store = replace(SMALL_STORE, flush=Flush.SYNC)
    with World(tmp_path, BrokerConfig(store=store)) as world:
        header = SendMessageV2(
            topic="T",
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=f"WAIT\x01{wait}\x02",
            is_batch=True,
        )
        opaque = world.submit(RequestCode.SEND_BATCH_MESSAGE, header, TWO)

        world.engine.end_turn(world.now_ms)

        assert (world.answer_to(opaque) is None) == waits
        world.settle()


ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 1000B, msg properties length limit 32KB."
)
REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "retry topic": (
        {"topic": "%RETRY%g"},
        ResponseCode.MESSAGE_ILLEGAL,
        "batch request does not support retry group %RETRY%g",
    ),
    "delay": ({"properties": "DELAY\x011\x02"}, ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    "timer": ({"properties": "TIMER_DELAY_MS\x019\x02"}, ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    "transaction": (
        {"sys_flag": int(TransactionType.PREPARED)},
        ResponseCode.MESSAGE_ILLEGAL,
        ILLEGAL,
    ),
    "inner batch": ({"sys_flag": INNER_BATCH}, ResponseCode.MESSAGE_ILLEGAL, ILLEGAL),
    "large body": (
        {"body": encode_batch([BatchEntry(b"x" * 979)])},
        ResponseCode.MESSAGE_ILLEGAL,
        ILLEGAL,
    ),
    "large properties": (
        {"properties": f"a\x01{'x' * 32_700}\x02"},
        ResponseCode.MESSAGE_ILLEGAL,
        ILLEGAL,
    ),
    "properties too large with those of a message": (
        {
            "properties": f"a\x01{'x' * 32_500}\x02",
            "body": encode_batch([BatchEntry(b"", b"b\x01" + b"x" * 400)]),
        },
        ResponseCode.MESSAGE_ILLEGAL,
        ILLEGAL,
    ),
    "no batch": (
        {"body": b"abc"},
        ResponseCode.SYSTEM_ERROR,
        "MalformedBody: batch: 3 bytes at byte 0 are no message",
    ),
    "empty": ({"body": b""}, ResponseCode.SYSTEM_ERROR, "the message has no body"),
    "level that is no number": (
        {"properties": "DELAY\x01--1\x02"},
        ResponseCode.SYSTEM_ERROR,
        'NumberFormatException: For input string: "--1"',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_not_be_sent_together_is_refused(name: str, tmp_path: Path) -> None:
    fields, code, remark = REFUSED[name]
    small = replace(SMALL_STORE, message_bytes_max=1_000)
    with World(tmp_path, BrokerConfig(store=small)) as world:
        answer = ask(world, **{"body": TWO} | fields)

        assert (answer.code, answer.remark) == (code, remark)
        assert header_of(answer, SendRefusal).region == "DefaultRegion"
        assert world.state.log.end_offset == 0


def test_the_largest_batch_passes(tmp_path: Path) -> None:
    small = replace(SMALL_STORE, message_bytes_max=1_000)
    with World(tmp_path, BrokerConfig(store=small)) as world:
        answer = ask(world, encode_batch([BatchEntry(b"x" * 978)]))

        assert answer.code == ResponseCode.SUCCESS


def test_a_small_body_may_not_grow_into_more_than_a_file_holds(tmp_path: Path) -> None:
    body = encode_batch([BatchEntry(b"")] * 600)
    with World(tmp_path) as world:
        answer = ask(world, body, properties=f"a\x01{'x' * 32_000}\x02")

        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert (answer.remark or "").startswith("the message is illegal")
        assert not world.state.log.has_turn


@pytest.mark.parametrize(
    "row",
    [json.loads(line) for line in (GOLDEN / "batches.jsonl").read_text("utf-8").splitlines()],
    ids=lambda row: row["client"],
)
def test_batches_of_real_clients_are_split(row: dict[str, Any], tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world, bytes.fromhex(row["hex"]))

        assert len(records_of(world, answer)) == row["count"]


@pytest.mark.parametrize(
    "common", [{}, {"KEYS": "a b"}, {"UNIQ_KEY": "batch", "TAGS": "t"}], ids=str
)
@pytest.mark.parametrize(
    "texts",
    [
        [b"UNIQ_KEY\x01id1\x02ROW\x011\x02", b"UNIQ_KEY\x01id2\x02ROW\x012\x02"],
        [b"UNIQ_KEY\x01id1\x02", b"UNIQ_KEY\x01id2\x02"],
        [b"UNIQ_KEY\x01id1\x02ROW\x011\x02", b"UNIQ_KEY\x01id2\x02TAGS\x01x\x02"],
        [b"UNIQ_KEY\x01id1\x02KEYS\x01k l\x02", b"UNIQ_KEY\x01id2\x02KEYS\x01k l\x02"],
        [b"ROW\x011\x02UNIQ_KEY\x01id1\x02", b"ROW\x012\x02UNIQ_KEY\x01id2\x02"],
        [b"UNIQ_KEY\x01id1\x02UNIQ_KEY\x01id3\x02", b"UNIQ_KEY\x01id2\x02"],
        [b"UNIQ_KEY\x01\x02ROW\x011\x02", b"UNIQ_KEY\x01id2\x02ROW\x012\x02"],
        [b"UNIQ_KEY\x01\xc3\xa9\x02ROW\x011\x02", b"UNIQ_KEY\x01id2\x02ROW\x012\x02"],
        [b"UNIQ_KEY\x01a\x01b\x02ROW\x011\x02", b"UNIQ_KEY\x01id2\x02ROW\x012\x02"],
        [b"UNIQ_KEY\x01id1\x02ROW\x011\x02", b""],
        [b"UNIQ_KEY\x01id1\x02ROW", b"UNIQ_KEY\x02ROW\x011\x02"],
    ],
    ids=str,
)
def test_messages_are_looked_at_together_as_each_alone(
    texts: list[bytes], common: dict[str, str]
) -> None:
    rest = rest_of_all(texts) if "UNIQ_KEY" in common else None

    codes, keys = looked_at(texts, common, rest)

    assert list(zip(codes, keys, strict=True)) == [looked_up(text, common) for text in texts]
