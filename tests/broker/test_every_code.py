"""Whatever a peer sends under any code, it gets exactly one answer, and nothing breaks.

Requests go through a session as they come from the wire: fields that are missing, wrong or huge,
bodies that are not what the code says, before and after the broker has something to show.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flintmq.broker.admin.account_admin import PROCESSORS as ACCOUNTS
from flintmq.broker.processor_table import processors
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import HEADER_BYTES_ACCEPTED
from support.broker.admin import join, make_topic
from support.broker.wire import Wire, plain
from support.broker.world import World
from test_logs import hidden

SERVED = {code: served for code, served in processors().items() if code not in ACCOUNTS}
"""Accounts are shown and changed only where access control is on."""

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

    answers = wire.ask(code, fields, body)

    if answers or not (code == RequestCode.END_TRANSACTION and says_nothing(fields)):
        check(code, answers, caplog)


def says_nothing(fields: dict[str, str]) -> bool:
    """Whether an end of a transaction is neither commit nor rollback: RocketMQ answers nothing."""
    return re.fullmatch(r"[+-]?0+", fields.get("commitOrRollback", "")) is not None
