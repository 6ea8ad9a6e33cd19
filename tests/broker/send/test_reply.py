"""A reply goes to the client that asked; the answer says whether it arrived, and where it lies."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.errors import DiskFailed
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.send import (
    PushReply,
    SendAnswer,
    SendMessage,
    SendMessageV2,
    SendRefusal,
)
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.files.store_config import Flush
from support.broker.heartbeats import heartbeat
from support.broker.sends import change, configured, last_record
from support.broker.world import SMALL_STORE, World, header_of

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = (
    "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01c\x02TTL\x015000\x02"
)
TAKEN = Command(code=0, flag=1)


def register(world: World) -> Peer:
    """A producer that waits for replies."""
    peer = Peer("127.0.0.1:50000")
    beat = heartbeat("asker", producers=("p",))
    world.state.clients.heartbeat(beat, peer, "JAVA", 479, world.now_ms)
    return peer


def submit(world: World, **fields: Any) -> int:
    given: dict[str, Any] = {
        "producer_group": "answerers",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 123,
        "flag": 5,
        "properties": PROPERTIES,
    }
    body = fields.pop("body", b"answer")
    header = SendMessageV2(**given | fields)
    return world.submit(RequestCode.SEND_REPLY_MESSAGE_V2, header, body)


def ask(world: World, **fields: Any) -> Answer:
    opaque = submit(world, **fields)
    world.settle()
    answer = world.answer_to(opaque)
    assert answer is not None
    return answer


def test_the_client_that_asked_is_handed_the_reply(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        asker = register(world)

        submit(world)
        world.settle()

        (asked,) = world.asked
        push = asked.request.header(PushReply)
        assert (asked.peer, asked.timeout_ms) == (asker, 10_000)
        assert asked.request.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        assert asked.request.body == b"answer"
        assert parse_properties(push.properties or "") == {
            **parse_properties(PROPERTIES),
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "PUSH_REPLY_TIME": str(world.now_ms),
        }
        assert push == PushReply(
            producer_group="answerers",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=123,
            flag=5,
            properties=push.properties,
            reconsume_times=0,
            unit_mode=False,
            born_host="127.0.0.1:40000",
            store_host="127.0.0.1:10911",
            store_timestamp=world.now_ms,
        )


def test_a_reply_that_arrived_is_answered_with_its_record(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        register(world)
        opaque = submit(world)
        world.settle()
        assert world.answer_to(opaque) is None

        world.asked[0].then(TAKEN)
        world.settle()

        answer = world.answer_to(opaque)
        assert answer is not None
        record = last_record(world, TOPIC)
        assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
        assert header_of(answer, SendAnswer) == SendAnswer(
            msg_id=f"7F00000100002A9F{record.log_offset:016X}",
            queue_id=0,
            queue_offset=0,
            trace_on="true",
            region="DefaultRegion",
        )


def test_a_reply_is_stored_as_it_came_with_our_marks(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        ask(world, reconsume_times=1)

        record = last_record(world, TOPIC)
        assert (record.body, record.flag, record.reconsume_times) == (b"answer", 5, 1)
        assert parse_properties(record.properties) == {
            **parse_properties(PROPERTIES),
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }


def test_what_the_store_makes_of_a_reply_is_not_handed_over(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        register(world)

        submit(world, properties=f"{PROPERTIES}DELAY\x011\x02")

        push = world.asked[0].request.header(PushReply)
        assert parse_properties(push.properties or "").keys().isdisjoint({"REAL_TOPIC", "REAL_QID"})


@pytest.mark.parametrize("said", [None, Command(code=1, flag=1, remark="no")])
def test_a_client_that_does_not_take_it_makes_the_answer_an_error(
    said: Command | None, tmp_path: Path
) -> None:
    with World(tmp_path) as world:
        register(world)
        opaque = submit(world)
        world.settle()

        world.asked[0].then(said)
        world.settle()

        answer = world.answer_to(opaque)
        assert answer is not None
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "push reply message to askerfail."
        assert header_of(answer, SendRefusal).msg_id == "7F00000100002A9F0000000000000000"


def test_a_client_that_is_gone_makes_the_answer_an_error(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world)

        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "push reply message fail, channel of <asker> not found."
        assert header_of(answer, SendRefusal).queue_offset == 0


def test_a_reply_to_nobody_makes_the_answer_an_error(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        answer = ask(world, properties="MSG_TYPE\x01reply\x02")

        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "reply message properties[REPLY_TO_CLIENT] is null"


def test_replies_need_not_be_stored(tmp_path: Path) -> None:
    with World(tmp_path, configured(store_replies=False)) as world:
        register(world)
        opaque = submit(world)

        world.asked[0].then(TAKEN)
        answer = world.answer_to(opaque)

        assert answer is not None
        header = header_of(answer, SendAnswer)
        assert (header.msg_id, header.queue_id, header.queue_offset) == ("0", 0, 0)
        assert world.state.log.end_offset == 0


def test_a_reply_that_cannot_be_stored_is_handed_over_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DiskFailed("file", "write", "full", errno.ENOSPC)

    with World(tmp_path) as world:
        register(world)
        monkeypatch.setattr(world.state.log, "append", refuse)
        opaque = submit(world)

        world.asked[0].then(TAKEN)

        answer = world.answer_to(opaque)
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS
        assert header_of(answer, SendAnswer).msg_id == "0"


def test_a_record_whose_write_failed_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DiskFailed("file", "write", "full", errno.ENOSPC)

    with World(tmp_path) as world:
        register(world)
        opaque = submit(world)
        with monkeypatch.context() as patch:
            patch.setattr(world.state.log._log, "write", refuse)
            world.engine.end_turn(world.now_ms)

        world.asked[0].then(TAKEN)
        world.settle()

        answer = world.answer_to(opaque)
        assert answer is not None
        assert header_of(answer, SendAnswer).msg_id == "0"


def test_the_answer_waits_for_the_medium(tmp_path: Path) -> None:
    store = replace(SMALL_STORE, flush=Flush.SYNC)
    with World(tmp_path, BrokerConfig(store=store)) as world:
        opaque = submit(world)

        world.engine.end_turn(world.now_ms)

        assert world.answer_to(opaque) is None
        world.settle()
        assert world.answer_to(opaque) is not None


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"body": b""}, ResponseCode.SYSTEM_ERROR, "the message has no body"),
        ({"topic": ""}, ResponseCode.INVALID_PARAMETER, "The specified topic is blank."),
        (
            {"topic": "T", "default_topic": "nowhere"},
            ResponseCode.TOPIC_NOT_EXIST,
            "topic[T] not exist, apply first please!",
        ),
        ({"body": b"x" * 1_001}, ResponseCode.MESSAGE_ILLEGAL, None),
    ],
)
def test_a_reply_passes_the_checks_of_a_send(
    fields: dict[str, Any], code: int, remark: str | None, tmp_path: Path
) -> None:
    small = replace(SMALL_STORE, message_bytes_max=1_000)
    with World(tmp_path, BrokerConfig(store=small)) as world:
        register(world)

        answer = ask(world, **fields)

        assert answer.code == code
        assert remark is None or answer.remark == remark
        assert header_of(answer, SendRefusal).region == "DefaultRegion"
        assert not world.asked


def test_the_long_form_of_the_header_says_the_same(tmp_path: Path) -> None:
    with World(tmp_path) as world:
        change(world, trace_on=False)
        header = SendMessage(
            topic=TOPIC, queue_id=-1, sys_flag=0, born_timestamp=0, flag=0, properties=PROPERTIES
        )
        register(world)

        world.ask(RequestCode.SEND_REPLY_MESSAGE, header, b"x")

        push = world.asked[0].request.header(PushReply)
        assert (push.producer_group, push.default_topic, push.queue_id) == ("", "TBW102", -1)
        assert last_record(world, TOPIC).queue_id == 0
