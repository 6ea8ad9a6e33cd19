"""A timer message is taken back by the handle of its send, as with RocketMQ 5.3."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.requests.outcome import Answer
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.pop import RecallAnswer, RecallMessage
from flintmq.protocol.headers.send import SendAnswer
from flintmq.protocol.records.properties import format_properties
from support.broker.pulling import add_topic, bodies_of, pull
from support.broker.world import SMALL_STORE, World, header_of

CONFIG = BrokerConfig(store=SMALL_STORE, recalls=True)
TOPIC, UNIQUE_ID = "T", "0A0B0C0D000078BFC0A8000100000001"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path, CONFIG) as made:
        add_topic(made, TOPIC, 1)
        yield made


def delivered(world: World) -> list[bytes]:
    answer = pull(world, topic=TOPIC)
    return bodies_of(answer)


def send_timed(world: World, body: bytes = b"later", key: str = UNIQUE_ID) -> str:
    """The handle of a message that is due in a while."""
    wanted = {"TIMER_DELIVER_MS": str(world.now_ms + 5_400), "UNIQ_KEY": key}
    answer = world.send(TOPIC, body, properties=format_properties(wanted))
    handle = header_of(answer, SendAnswer).recall_handle
    assert handle is not None
    return handle


def recall(world: World, handle: str, topic: str = TOPIC) -> Answer:
    header = RecallMessage(producer_group="shop", topic=topic, recall_handle=handle)
    answer = world.ask(RequestCode.RECALL_MESSAGE, header)
    assert answer is not None
    return answer


def encoded(*fields: object) -> str:
    return urlsafe_b64encode(" ".join(map(str, fields)).encode()).decode()


def test_a_handle_is_that_of_rocketmq(world: World) -> None:
    due_ms = world.now_ms + 5_400
    handle = send_timed(world)

    out_ms = (due_ms - 1) // 1_000 * 1_000
    text = f"v1 T {world.state.config.broker_name} {out_ms + 1} {UNIQUE_ID}"
    assert urlsafe_b64decode(handle).decode() == text


def test_only_messages_that_wait_for_a_time_have_one(world: World) -> None:
    kinds: list[dict[str, str]] = [{}, {"DELAY": "1"}, {"TIMER_DELIVER_MS": "1"}]
    for properties in kinds:
        answer = world.send(TOPIC, b"now", properties=format_properties(properties))
        assert header_of(answer, SendAnswer).recall_handle is None


def test_a_message_that_is_recalled_is_never_delivered(world: World) -> None:
    handle = send_timed(world)
    send_timed(world, b"other", key=UNIQUE_ID[:-1] + "2")

    answer = recall(world, handle)
    assert (answer.code, header_of(answer, RecallAnswer).msg_id) == (0, UNIQUE_ID)
    world.advance(10_000)

    assert delivered(world) == [b"other"]


def test_a_recall_survives_a_restart(tmp_path: Path) -> None:
    with World(tmp_path, CONFIG) as world:
        add_topic(world, TOPIC, 1)
        assert recall(world, send_timed(world)).code == 0
        now_ms = world.now_ms
    with World(tmp_path, CONFIG, start_ms=now_ms) as world:
        world.advance(10_000)
        assert delivered(world) == []


def test_what_was_delivered_cannot_be_recalled(world: World) -> None:
    handle = send_timed(world)
    world.advance(10_000)

    answer = recall(world, handle)

    assert delivered(world) == [b"later"]
    told = answer.code, answer.remark
    assert told == (ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")


@pytest.mark.parametrize(
    ("handle", "remark"),
    [
        ("", "recall handle is invalid"),
        ("%%%", "recall handle is invalid"),
        (encoded("v2", "T", "broker-a", 1, "id"), "recall handle is invalid"),
        (encoded("v1", "T", "broker-a", 1), "recall handle is invalid"),
        (encoded("v1", "T", "broker-a", 1, "i\x01d"), "recall handle is invalid"),
        (encoded("v1", "U", "broker-a", 1, "id"), "recall failed, topic not match"),
        (encoded("v1", "T", "other", 1, "id"), "recall failed, broker service not available"),
        (encoded("v1", "T", "broker-a", "x", "id"), "recall failed, timestamp invalid"),
        (encoded("v1", "T", "broker-a", 10**17, "id"), "recall failed, timestamp invalid"),
    ],
)
def test_other_handles_are_refused(world: World, handle: str, remark: str) -> None:
    answer = recall(world, handle)

    assert (answer.code, answer.remark) == (ResponseCode.ILLEGAL_OPERATION, remark)


def test_nothing_is_recalled_where_that_is_off_or_the_topic_unknown(tmp_path: Path) -> None:
    with World(tmp_path, replace(CONFIG, recalls=False)) as world:
        add_topic(world, TOPIC, 1)
        answer = recall(world, send_timed(world))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "recall failed, operation is forbidden"
        world.advance(10_000)
        assert delivered(world) == [b"later"]
    with World(tmp_path, CONFIG) as world:
        answer = recall(world, "x", topic="nowhere")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
