"""Topics with ``queue.type=BatchCQ``: made, sent to and read as a real 5.3.3 does it.

Judge: ``golden-batch-5.3.3``, what a real broker was sent and asked, and what it answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.fields import Header, read_header, write_header
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.common_headers import NoFields, OfTopic
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record, decode_record
from support.broker.admin import done, new_topic, refused
from support.broker.world import SMALL_STORE, World
from support.store.real_records import real_records
from support.store.real_stores import manifest, unpack_store

GOLDEN = "golden-batch-5.3.3"
CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC
BATCH = encode_batch(
    [BatchEntry(b"one", b"TAGS\x01a\x02", 1), BatchEntry(b"two", b"KEYS\x01k\x02")]
)
PULL_FIELDS = {
    "consumerGroup": "probe",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
}
PLACE = slice(-16, None)


def send(
    world: World, body: bytes, properties: str, queue_id: int = 0, *, topic: str = "B", **more: Any
) -> Answer:
    fields: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": properties,
        "is_batch": True,
    }
    header = SendMessageV2(**fields | more)
    is_batch = header.is_batch
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    answer = world.ask(code, header, body)
    assert answer is not None
    return answer


def said(answer: Answer) -> dict[str, str]:
    """The fields of an answer, as they go over the wire."""
    if answer.header is None:
        return {}
    raw = write_header(answer.header) if isinstance(answer.header, Header) else answer.header
    found: dict[str, str] = json.loads(bytes(raw))
    return found


def records_of(world: World, topic: str = "B", queue_id: int = 0) -> list[Record]:
    result = world.state.log.read(topic, queue_id, QueueOffset(0), 32)
    return list(split(b"".join(result.views)))


def split(octets: bytes) -> Iterator[Record]:
    while octets:
        yield decode_record(octets)
        octets = octets[int.from_bytes(octets[:4]) :]


@pytest.fixture
def world(tmp_path: Path) -> Any:
    with World(tmp_path) as made:
        done(made, CREATE, new_topic("B", attributes="+queue.type=BatchCQ"))
        yield made


# As a real broker


def test_what_is_sent_is_stored_and_answered_as_by_a_real_broker(tmp_path: Path) -> None:
    """Ids aside, which have the port, and the order of properties, which means nothing."""
    real = list(real_records(unpack_store(GOLDEN, tmp_path / "real")))
    with World(tmp_path / "ours") as world:
        done(world, CREATE, new_topic("batched", attributes="+queue.type=BatchCQ"))
        done(world, CREATE, new_topic("plain"))
        ours = []
        for one in manifest(GOLDEN)["sent"]:
            body, kind = bytes.fromhex(one["body"]), {"is_batch": one["is_batch"]}
            answer = send(
                world, body, one["properties"], one["queue_id"], topic=one["topic"], **kind
            )
            fields, expected = said(answer), one["answer"]["fields"]
            assert answer.code == one["answer"]["code"]
            assert fields.keys() == expected.keys()
            ids = [fields.pop("msgId"), expected["msgId"]]
            assert fields == {name: expected[name] for name in fields}
            places = [[int(each[PLACE], 16) for each in text.split(",")] for text in ids]
            assert len(places[0]) == len(places[1])
            found = [world.state.log.lookup.record_at(LogOffset(at)) for at in places[0]]
            ours += [record for record in found if record is not None]
    assert len(ours) == len(real)
    for mine, theirs in zip(ours, real, strict=True):
        for name in ("topic", "queue_id", "queue_offset", "body", "flag", "sys_flag", "born_ms"):
            assert getattr(mine, name) == getattr(theirs, name)
        assert parse_properties(mine.properties) == parse_properties(theirs.properties)


def ask_golden(world: World, question: dict[str, Any]) -> Answer:
    code = RequestCode(question["request"])
    fields = {**question["fields"], **(PULL_FIELDS if code is RequestCode.PULL_MESSAGE else {})}
    header = read_header(REQUEST_HEADERS[code], Raw(json.dumps(fields)))
    answer = world.ask(code, header, version=401)
    assert answer is not None
    return answer


def test_questions_are_answered_as_by_a_real_broker(tmp_path: Path) -> None:
    """Pulls with all kinds of filters, extents, units of the queue, messages by key and place."""
    asked: dict[int, int] = {}
    with World(unpack_store(GOLDEN, tmp_path)) as world:
        for question in manifest(GOLDEN)["questions"]:
            code = question["request"]
            is_empty = question["fields"].get("topic") == "batched-empty"
            if code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP or (is_empty and code in (32, 321)):
                continue  # see the tests of the store; and a real one fails on empty queues
            asked[code] = asked.get(code, 0) + 1
            answer = ask_golden(world, question)
            assert answer.code == question["code"], question
            if "records" in question:
                views = answer.body if isinstance(answer.body, list) else []
                found = [record.log_offset for record in split(b"".join(views))]
                assert found == question["records"], question
            elif question["body"] and code == RequestCode.QUERY_CONSUME_QUEUE:
                body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
                seen, expected = json.loads(body), json.loads(question["body"])
                for name in ("maxQueueIndex", "minQueueIndex", "queueData"):
                    assert seen[name] == expected[name], question
            names = ("offset", "nextBeginOffset", "minOffset", "maxOffset", "timestamp")
            expected = question["answer"] or {}
            fields = said(answer)
            for name in names:
                assert fields.get(name) == expected.get(name), (name, question)
    assert asked.keys() == {11, 12, 30, 31, 32, 33, 202, 321}


@pytest.mark.parametrize(("limit", "given"), [(32, 40), (1_024, 100)])
def test_a_large_pull_ends_with_the_batch_that_reaches_the_limit(
    limit: int, given: int, tmp_path: Path
) -> None:
    """Apache's BatchSendIT: ten batches of ten, pulled from offset 5 with room for a hundred."""
    limits = replace(SMALL_STORE.transfer, memory_count=limit)
    config = BrokerConfig(store=replace(SMALL_STORE, transfer=limits))
    ten = encode_batch([BatchEntry(b"%d" % number) for number in range(10)])
    with World(tmp_path, config) as world:
        done(world, CREATE, new_topic("B", attributes="+queue.type=BatchCQ"))
        for number in range(10):
            assert said(send(world, ten, f"UNIQ_KEY\x01U{number}\x02"))["queueOffset"] == str(
                10 * number
            )
        fields = {**PULL_FIELDS, "topic": "B", "queueId": "0", "subscription": "*"}
        fields |= {"queueOffset": "5", "maxMsgNums": "100", "expressionType": "TAG"}
        question = {"request": int(RequestCode.PULL_MESSAGE), "fields": fields}
        answer = ask_golden(world, question)

    assert answer.code == ResponseCode.SUCCESS
    told = said(answer)
    assert (told["minOffset"], told["maxOffset"]) == ("0", "100")
    assert told["nextBeginOffset"] == str(given)


def test_a_held_pull_wakes_for_the_batch_it_waits_for(world: World) -> None:
    send(world, BATCH, "UNIQ_KEY\x01U1\x02TAGS\x01a\x02")
    fields = {**PULL_FIELDS, "topic": "B", "queueId": "0", "subscription": "b"}
    fields |= {"queueOffset": "2", "maxMsgNums": "32", "expressionType": "TAG"}
    fields |= {"sysFlag": "6", "suspendTimeoutMillis": "15000"}
    code = RequestCode.PULL_MESSAGE
    opaque = world.submit(code, read_header(REQUEST_HEADERS[code], Raw(json.dumps(fields))))
    world.settle()

    send(world, BATCH, "UNIQ_KEY\x01U2\x02TAGS\x01a\x02")
    before = world.answer_to(opaque)
    send(world, BATCH, "UNIQ_KEY\x01U3\x02TAGS\x01b\x02")

    after = world.answer_to(opaque)
    assert before is None
    assert after is not None
    assert said(after)["nextBeginOffset"] == "6"


# Making and deleting


def test_the_kind_of_a_topic_is_chosen_once(world: World) -> None:
    topic = world.state.topics.find("B")
    done(world, CREATE, new_topic("S"))

    assert topic is not None
    assert topic.attributes == {"queue.type": "BatchCQ"}
    remark = "attempt to update an unchangeable attribute. key: queue.type"
    assert refused(world, CREATE, new_topic("B", attributes="+queue.type=SimpleCQ"))[1] == remark
    assert refused(world, CREATE, new_topic("S", attributes="+queue.type=BatchCQ"))[1] == remark


def test_queues_without_a_topic_keep_their_kind(world: World) -> None:
    world.send("S")
    world.state.topics.remove("S", world.now_ms)

    code, remark = refused(world, CREATE, new_topic("S", attributes="+queue.type=BatchCQ"))

    assert (code, remark) == (
        ResponseCode.INVALID_PARAMETER,
        "topic S has plain queues with messages; delete it first",
    )


def test_a_deleted_topic_may_be_made_anew_with_the_other_kind(world: World) -> None:
    send(world, BATCH, "UNIQ_KEY\x01U1\x02")
    done(world, RequestCode.DELETE_TOPIC_IN_BROKER, OfTopic(topic="B"))
    done(world, CREATE, new_topic("B"))

    answer = send(world, BATCH, "UNIQ_KEY\x01U2\x02")

    assert "batchUniqId" not in said(answer)
    assert [record.body for record in records_of(world)] == [b"one", b"two"]


def test_queues_of_topics_that_are_no_more_are_cleaned(world: World) -> None:
    send(world, BATCH, "UNIQ_KEY\x01U1\x02")
    world.state.topics.remove("B", world.now_ms)

    done(world, RequestCode.CLEAN_UNUSED_TOPIC, NoFields())

    assert "B" not in world.state.log.batched
    assert list(world.state.log.queues()) == []


# Sending


def test_a_batch_stays_one_record_and_counts_its_messages(world: World) -> None:
    first = said(send(world, BATCH, "UNIQ_KEY\x01U1\x02TAGS\x01x\x02"))
    second = said(send(world, BATCH, "UNIQ_KEY\x01U2\x02"))

    assert (first["queueOffset"], first["batchUniqId"], first["transactionId"]) == ("0", "U1", "U1")
    assert second["queueOffset"] == "2"
    one, two = records_of(world)
    assert one.body == two.body == BATCH
    assert one.sys_flag == INNER_BATCH | NEED_UNWRAP
    properties = parse_properties(two.properties)
    assert (properties["INNER_NUM"], properties["INNER_BASE"]) == ("2", "2")
    assert world.state.log.max_offset("B", 0) == 4


def test_batches_of_one_turn_follow_each_other(world: World) -> None:
    for number in range(3):
        header = SendMessageV2(
            producer_group="p",
            topic="B",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties=f"UNIQ_KEY\x01U{number}\x02",
            is_batch=True,
        )
        world.submit(RequestCode.SEND_BATCH_MESSAGE, header, BATCH)
    world.settle()

    assert [record.queue_offset for record in records_of(world)] == [0, 2, 4]


@pytest.mark.parametrize(
    ("properties", "fields", "topic"),
    [
        ("UNIQ_KEY\x01U\x02DELAY\x013\x02", {}, "B"),
        ("UNIQ_KEY\x01U\x02", {"sys_flag": 4}, "B"),
        ("UNIQ_KEY\x01U\x02INNER_NUM\x012\x02", {"is_batch": False}, "B"),
        ("UNIQ_KEY\x01U\x02", {"is_batch": False, "sys_flag": INNER_BATCH}, "plain"),
        (
            "UNIQ_KEY\x01U\x02INNER_NUM\x012\x02DELAY\x013\x02",
            {"is_batch": False, "sys_flag": INNER_BATCH},
            "B",
        ),
    ],
    ids=["delay", "transaction", "number only", "plain topic", "delayed inner batch"],
)
def test_what_a_real_broker_calls_illegal_is_refused(
    properties: str, fields: dict[str, Any], topic: str, world: World
) -> None:
    answer = send(world, BATCH, properties, topic=topic, **fields)

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert not any(span.stop for span in world.state.log.queues())


def test_a_producer_may_make_the_inner_batch_itself(world: World) -> None:
    flags = INNER_BATCH | NEED_UNWRAP
    properties = "UNIQ_KEY\x01U\x02INNER_NUM\x012\x02"

    send(world, BATCH, properties, is_batch=False, sys_flag=flags)
    send(world, b"single", "UNIQ_KEY\x01V\x02", is_batch=False)

    batch, single = records_of(world)
    assert parse_properties(batch.properties)["INNER_BASE"] == "0"
    assert (single.body, single.queue_offset, single.sys_flag) == (b"single", 2, 0)


def test_a_malformed_batch_is_refused(world: World) -> None:
    answer = send(world, BATCH[:-1], "UNIQ_KEY\x01U\x02")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "MalformedBody" in (answer.remark or "")


def test_the_same_header_again_and_again_is_taken_alike(world: World) -> None:
    """The quick way is not for topics that keep batches."""
    for number in range(6):
        fields = said(send(world, BATCH, f"UNIQ_KEY\x01U{number}\x02WAIT\x01true\x02"))
        assert fields["queueOffset"] == str(2 * number)
        fields = said(send(world, b"x", f"UNIQ_KEY\x01V{number}\x02", 1, is_batch=False))
        assert fields["queueOffset"] == str(number)


def test_a_batch_that_is_given_back_is_refused_as_by_a_real_broker(world: World) -> None:
    """The Java client then sends the one message it has to its retry topic itself."""
    place = int(said(send(world, BATCH, "UNIQ_KEY\x01U\x02"))["msgId"][PLACE], 16)
    header = SendBackHeader(
        offset=place, group="g", delay_level=1, origin_msg_id="x", origin_topic="B"
    )

    code, remark = refused(world, RequestCode.CONSUMER_SEND_MSG_BACK, header)

    assert (code, remark) == (ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL")


@pytest.mark.parametrize("has_messages", [False, True])
def test_a_topic_whose_settings_a_crash_took_is_made_again_as_it_was(
    has_messages: bool, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        done(world, CREATE, new_topic("B", attributes="+queue.type=BatchCQ"))
        if has_messages:
            send(world, BATCH, "UNIQ_KEY\x01U1\x02")
    (tmp_path / "config" / "topics.json").unlink(missing_ok=True)
    (tmp_path / "config" / "topics.json.bak").unlink(missing_ok=True)

    with World(tmp_path) as world:
        topic = world.state.topics.find("B")

        assert topic is not None
        assert topic.attributes == {"queue.type": "BatchCQ"}
        fields = said(send(world, BATCH, "UNIQ_KEY\x01U2\x02"))
        assert fields["queueOffset"] == ("2" if has_messages else "0")
        assert fields["batchUniqId"] == "U2"


def test_a_restarted_broker_goes_on(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        done(world, CREATE, new_topic("B", attributes="+queue.type=BatchCQ"))
        send(world, BATCH, "UNIQ_KEY\x01U1\x02")
    with World(tmp_path) as world:
        assert said(send(world, BATCH, "UNIQ_KEY\x01U2\x02"))["queueOffset"] == "2"
        assert len(records_of(world)) == 2
