"""Pulls recorded from real clients get the answers that real brokers gave them.

Each recorded pull runs against a broker that was brought into the state it must have met:
as many messages as the answer counts, and what makes a check fail.  Code, remark and header
must then be the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flintmq.broker.requests.peer import Peer
from flintmq.protocol.bodies.client import SQL92
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.headers.pull import PullAnswer, PullFlag, PullMessage
from flintmq.protocol.wire import decode_command
from support.broker.pulling import add_topic, beat, bodies_of, broker_config, store, subscription
from support.broker.world import World, header_of

FRAMES = Path(__file__).parents[2] / "golden" / "frames.jsonl"
SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)
FOUND, UNSUPPORTED = 0, 3


class Recorded(NamedTuple):
    client: str
    broker: str
    request: Command
    answer: Command | None


def recorded() -> list[Recorded]:
    """Every pull that was answered, except those that a 4.9 broker does not know."""
    pairs: dict[object, dict[str, Any]] = {}
    for line in FRAMES.read_text().splitlines():
        row = json.loads(line)
        if row["code"] in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            pairs.setdefault(row["pair"], {})[row["role"]] = row
    found = []
    for rows in pairs.values():
        asked = rows["request"]
        answer = command(rows["answer"]["frame_hex"]) if "answer" in rows else None
        if answer is None or answer.code != UNSUPPORTED:
            request = command(asked["frame_hex"])
            found.append(Recorded(asked["client"], asked["broker"], request, answer))
    return found


def command(frame_hex: str) -> Command:
    (frame,) = FrameReader().feed(bytes.fromhex(frame_hex))
    return decode_command(frame)


ALL = recorded()


@pytest.fixture(autouse=True)
def no_wait_for_the_medium(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about crashes, and many stores are opened."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("os.fdatasync", lambda _: None)


@pytest.mark.parametrize(
    "exchange",
    [each for each in ALL if each.answer is not None and each.answer.code in (0, 19, 20, 21)],
    ids=lambda each: f"{each.client}-{each.broker}-{each.answer.code}",
)
def test_an_answer_is_the_recorded_one(exchange: Recorded, tmp_path: Path) -> None:
    request, recorded = exchange.request.header(PullMessage), exchange.answer
    assert recorded is not None
    header = recorded.header(PullAnswer)
    with World(tmp_path, broker_config()) as world:
        add_topic(world, request.topic, request.queue_id + 1)
        match: dict[str, Any] = {
            "TAGS": (request.subscription or "*").split("||")[0].strip(),
            "a": "7",
        }
        if request.sys_flag & SUBSCRIPTION == 0:
            wish = "none" if recorded.code == 20 else "*"
            said = subscription(wish, request.sub_version, topic=request.topic)
            beat(world, said, group=request.consumer_group)
        store(
            world,
            *[b"body"] * header.max_offset,
            topic=request.topic,
            queue_id=request.queue_id,
            **match if recorded.code == FOUND else {},
        )

        answer = world.ask(RequestCode(exchange.request.code), request)
        if answer is None:  # it was held, and answered in time
            world.advance(request.suspend_timeout_millis)
            (answer,) = [each for _, _, each in world.answers if each.code == recorded.code][-1:]

        assert (answer.code, answer.remark) == (recorded.code, recorded.remark)
        told = header_of(answer, PullAnswer)
        assert (told.topic_sys_flag, told.group_sys_flag) == (0, 0)
        assert told.next_begin_offset == header.next_begin_offset
        assert (told.min_offset, told.max_offset) == (header.min_offset, header.max_offset)
        assert told.suggest_which_broker_id == header.suggest_which_broker_id
        assert bool(bodies_of(answer)) == (recorded.code == FOUND)
        if exchange.broker == "5.3.3":
            assert told == header


@pytest.mark.parametrize(
    "exchange",
    [each for each in ALL if each.answer is not None and each.answer.code not in (0, 19, 20, 21)],
    ids=lambda each: f"{each.client}-{each.broker}-{each.answer.code}",
)
def test_a_refusal_is_the_recorded_one(exchange: Recorded, tmp_path: Path) -> None:
    request, recorded = exchange.request.header(PullMessage), exchange.answer
    assert recorded is not None
    assert recorded.remark is not None
    code = recorded.code
    config = broker_config(auto_create_group=code != 26, property_filter=code != 1)
    with World(tmp_path, config) as world:
        peer = world.peer
        if code != 17:
            add_topic(world, request.topic, 2)
        if code == 16:
            group = GroupConfig(group_name=request.consumer_group, consume_enable=False)
            world.state.groups.create_or_replace(group, world.now_ms)
        if code == 29:
            peer = Peer(recorded.remark.rpartition("/")[2].removesuffix("]"))
        texts = {25: "*", 27: "a >", 1: "a > 1"}
        if code in texts:
            said = subscription(
                texts[code],
                request.sub_version - (code == 25),
                topic=request.topic,
                expression_type="TAG" if code == 25 else SQL92,
            )
            beat(world, said, group=request.consumer_group)

        answer = world.ask(RequestCode(exchange.request.code), request, peer=peer)

        assert answer is not None
        assert (answer.code, answer.remark) == (code, recorded.remark.partition("\nSee ")[0])


@pytest.mark.parametrize(
    "exchange",
    [each for each in ALL if each.answer is None],
    ids=lambda each: f"{each.client}-{each.broker}",
)
def test_what_was_held_is_held(exchange: Recorded, tmp_path: Path) -> None:
    request = exchange.request.header(PullMessage)
    with World(tmp_path, broker_config()) as world:
        add_topic(world, request.topic, request.queue_id + 1)
        said = subscription("*", request.sub_version, topic=request.topic)
        beat(world, said, group=request.consumer_group)
        store(
            world,
            *[b"body"] * request.queue_offset,
            topic=request.topic,
            queue_id=request.queue_id,
        )

        assert world.ask(RequestCode(exchange.request.code), request) is None
        assert world.state.held.next_due_ms() == world.now_ms + request.suspend_timeout_millis


def test_there_is_enough_to_compare_with() -> None:
    codes = {each.answer.code for each in ALL if each.answer is not None}

    assert codes >= {0, 1, 16, 17, 19, 20, 21, 23, 24, 25, 26, 27, 29}
    assert any(each.answer is None for each in ALL)
