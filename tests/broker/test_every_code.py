"""Whatever a peer sends under any code, it gets exactly one answer, and nothing breaks.

Requests go through a session as they come from the wire: fields that are missing, wrong or huge,
bodies that are not what the code says, before and after the broker has something to show.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintmq.broker.client_session import BrokerSession
from flintmq.broker.processor_table import processors
from flintmq.broker.requests.answers import encode_answer
from flintmq.broker.requests.peer import Peer
from flintmq.model.message_id import offset_id
from flintmq.net.channels.channel import Channel
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import ONEWAY_BIT, Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.frame import HEADER_BYTES_ACCEPTED, FrameReader
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.wire import decode_command, encode_command
from support.broker.admin import join, make_topic
from support.broker.surroundings import Surroundings
from support.broker.world import World
from test_logs import hidden

SERVED = processors()

BODIES = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\xff\x00\xfe",
    b"a=b\nstorePathRootDir=/\n",
    b'{"groupName":null,"topicConfigList":[{"topicName":"a"}],"clientID":"c"}',
    b"[" * 5_000,
    b'{"a":' * 5_000,
    b"x" * 300_000,
)

WORDS = (
    "",
    "0",
    "-1",
    "1",
    "2147483648",
    "9" * 30,
    "T",
    "g",
    "c@1",
    "true",
    "SINGLE_TAG",
    "TBW102",
    "%RETRY%g",
    "../../etc",
    "a\x00b",
    "😀é",
    "T@g",
    "+message.type=FIFO",
    "TOPIC_PUT_NUMS",
    "K\x01v\x02",
    "x" * 70_000,
)


class Wire(Surroundings):
    """A session on a world, with what it wrote decoded again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.peer = "127.0.0.1:60000"
        self.answers: list[Command] = []
        self._session = BrokerSession(self, cast(Channel, self))
        self._opaque = 1_000_000

    def write(self, chunks: list[bytes | memoryview]) -> None:
        (frame,) = FrameReader().feed(b"".join(chunks))
        self.answers.append(decode_command(frame))

    # What tests do.

    def ask(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, oneway: bool = False
    ) -> list[Command]:
        """Send a request, let everything come to an end, and give all answers to it."""
        self._opaque += 1
        command = Command(
            code=code,
            opaque=self._opaque,
            flag=ONEWAY_BIT if oneway else 0,
            version=479,
            fields=write_fields(fields),
            body=body,
        )
        self._session.frames(FrameReader().feed(encode_command(command)))
        self.world.settle()
        for _ in range(10):  # held pulls end, clients that are asked say nothing
            if self._answers(self._opaque):
                break
            while self.world.asked:
                self.world.asked.pop().then(None)
            self.world.advance(10_000)
        return self._answers(self._opaque)

    def _answers(self, opaque: int) -> list[Command]:
        for _, number, answer in self.world.answers:
            self.write(encode_answer(number, answer))
        self.world.answers.clear()
        return [answer for answer in self.answers if answer.opaque == opaque]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A broker that has something to show."""
    with World(tmp_path) as world:
        make_topic(world, "T")
        world.send("T", properties="KEYS\x01K\x02TAGS\x01A\x02")
        world.send("T", properties="DELAY\x011\x02")
        join(world, "g", "T")
        world.state.offsets.commit("g", "T", 0, 1, "test")
        yield world


@pytest.fixture
def wire(world: World) -> Wire:
    return Wire(world)


def field_names(code: int) -> list[str]:
    try:
        header = REQUEST_HEADERS[RequestCode(code)]
    except (KeyError, ValueError):
        return ["topic", "group"]
    return [field.encode_name for field in msgspec.structs.fields(header)]


def is_number(code: int, name: str) -> bool:
    header = REQUEST_HEADERS.get(RequestCode(code))
    if header is None:
        return False
    (field,) = (f for f in msgspec.structs.fields(header) if f.encode_name == name)
    return "int" in str(field.type)


def plain(code: int) -> dict[str, str]:
    """Fields that can all be read."""
    texts = {
        "topic": "T",
        "b": "T",
        "group": "g",
        "consumerGroup": "g",
        "clientId": "c@1",
        "msgId": offset_id(Peer("127.0.0.1:10911").host, 0),
    }
    return {
        name: "1" if is_number(code, name) else texts.get(name, "true")
        for name in field_names(code)
    }


def check(code: int, answers: list[Command], caplog: pytest.LogCaptureFixture) -> None:
    """One answer, code 3 exactly for what is not served, and no error that was not foreseen."""
    assert len(answers) == 1, (code, answers)
    (answer,) = answers
    assert answer.is_answer
    not_served = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert not_served == (code not in SERVED), answer
    if not_served:
        assert answer.remark == f" request type {code} not supported"
    broken = [r.getMessage() for r in caplog.records if r.exc_info is not None]
    assert broken == [], (code, broken)


@pytest.mark.parametrize("code", list(RequestCode), ids=lambda code: str(code.name))
def test_every_code_is_answered_once_whatever_it_carries(
    wire: Wire, code: RequestCode, caplog: pytest.LogCaptureFixture
) -> None:
    right = plain(code)
    requests: list[tuple[dict[str, str], bytes]] = [({}, b""), (right, b"")]
    requests += [({**right, name: ""}, b"") for name in right]
    requests += [({k: v for k, v in right.items() if k != name}, b"") for name in right]
    requests += [({**right, name: "abc"}, b"") for name in right]
    requests += [({**right, name: "9" * 100_000}, b"") for name in right]
    requests += [({**right, name: "-9223372036854775808"}, b"") for name in right]
    most = HEADER_BYTES_ACCEPTED // (1 + len(right)) - 100  # all fields as long as a header may be
    requests += [(dict.fromkeys(right, "x" * most), b"")]
    requests += [(right, body) for body in BODIES]
    for fields, body in requests:
        check(code, wire.ask(code, fields, body), caplog)


HIDDEN = "x\n2026-01-01 INFO forged\r\x1b[2J\x00\x9b31m\u202e"


@pytest.mark.parametrize("code", list(RequestCode), ids=lambda code: str(code.name))
def test_nothing_a_peer_sends_is_hidden_in_the_log(
    wire: Wire, code: RequestCode, caplog: pytest.LogCaptureFixture
) -> None:
    """Every field in turn, all at once, and every text of a body, at the most talkative level."""
    caplog.set_level(logging.DEBUG, "flintmq")
    right = plain(code)
    text = json.dumps(HIDDEN)
    bodies = [
        HIDDEN.encode(),
        f"{HIDDEN}={HIDDEN}\n".encode(),
        BODIES[6].replace(b"null", text.encode()).replace(b'"a"', text.encode()),
        heartbeat_of(HIDDEN),
        f'{{"offsetTable":{{{text}:1}},"topic":{text},"mqSet":[{{"topic":{text}}}]}}'.encode(),
    ]
    requests = [({**right, name: HIDDEN}, b"") for name in right]
    requests += [({**right, name: right[name] + HIDDEN}, b"") for name in right]
    requests += [(dict.fromkeys(right, HIDDEN), b"")]
    requests += [(fields, body) for body in bodies for fields in (right, {})]
    for fields, body in requests:
        wire.ask(code, fields, body)

    lines = [logging.Formatter().format(record) for record in caplog.records]
    assert [line for line in lines if hidden(line)] == []


def heartbeat_of(name: str) -> bytes:
    """A client that is called so, in groups and with subscriptions that are called so too."""
    consumer = {
        "groupName": name,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [
            {"topic": name, "subString": name, "expressionType": "SQL92", "subVersion": 1}
        ],
    }
    return json.dumps(
        {
            "clientID": name,
            "producerDataSet": [{"groupName": name}],
            "consumerDataSet": [consumer, {**consumer, "groupName": "g"}],
        }
    ).encode()


def test_a_oneway_request_is_never_answered(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    for code in RequestCode:
        for fields in ({}, plain(code), dict.fromkeys(plain(code), "abc")):
            assert wire.ask(code, fields, b"{}", oneway=True) == [], code

    assert [r for r in caplog.records if r.exc_info is not None] == []


@pytest.mark.parametrize("code", [0, -1, 9, 999, 32_768, 2**31 - 1, -(2**31)])
def test_codes_nobody_knows_are_not_supported(
    wire: Wire, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    check(code, wire.ask(code, {}), caplog)


@st.composite
def requests(draw: Any) -> tuple[RequestCode, dict[str, str], bytes]:
    code = draw(st.sampled_from([code for code in RequestCode if code in SERVED]))
    fields = dict(plain(code))
    for name in draw(st.lists(st.sampled_from([*fields, "extra"]), max_size=4)):
        fields[name] = draw(st.sampled_from(WORDS))
    return code, fields, draw(st.sampled_from(BODIES))


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(asked=requests())
def test_one_request_after_another_is_answered_once(
    wire: Wire, caplog: pytest.LogCaptureFixture, asked: tuple[RequestCode, dict[str, str], bytes]
) -> None:
    code, fields, body = asked
    caplog.set_level(logging.WARNING)

    check(code, wire.ask(code, fields, body), caplog)
