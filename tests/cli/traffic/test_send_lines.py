"""What `tail --json` printed can be sent again, byte for byte; bad lines are reported each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq import EmbeddedBroker, Message, ReceivedMessage
from flintmq.cli.messages.message_json import read_message
from flintmq.cli.shared.message_view import facts_of
from flintmq.cli.traffic.send_lines import FAILURES_MAX
from flintmq.errors import InvalidSetting
from support.cli.asking import Shell
from support.core.messages import received

BODIES = (b"text", "käse ☃".encode(), b"\x00\xff\xfe binary", b'{"json": true}\n', b"\x1b[31m")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def user(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.namesrv)


def essence(message: ReceivedMessage) -> tuple[object, ...]:
    own = {name: value for name, value in message.properties.items() if name in ("number", "ä")}
    return message.body, message.tags, message.keys, own, message.flag


def test_what_tail_printed_is_sent_again(broker: EmbeddedBroker, user: Shell) -> None:
    with broker.producer("shop") as producer:
        for number, body in enumerate(BODIES):
            producer.send(
                Message(
                    "first",
                    body,
                    tags="even" if number % 2 == 0 else None,
                    keys=[f"k-{number}", "shared"],
                    properties={"number": str(number), "ä": "ß=1"},
                    flag=number,
                )
            )
    printed = user.told("tail", "first", "--from", "start", "-e", "--json")

    done = user.run("send", "copies", "--json-lines", "-", input=printed)

    assert done.exit_code == 0, done
    first = sorted(map(essence, broker.messages("first")), key=repr)
    assert sorted(map(essence, broker.messages("copies")), key=repr) == first
    assert len(first) == len(BODIES)


def test_each_line_says_where_it_goes(broker: EmbeddedBroker, user: Shell, tmp_path: Path) -> None:
    lines = [
        {"topic": "routed", "body": "a", "queue": "broker-a/1"},
        {"topic": "routed", "body": "b", "delay_level": 17},  # an hour
        {"topic": "elsewhere", "body_base64": "AP8=", "keys": "x y"},
    ]
    user.told("topic", "create", "routed", "--queues", "2")
    file = tmp_path / "lines.jsonl"
    file.write_text("\n\n".join(map(json.dumps, lines)) + "\n")

    receipts = user.lines("send", "--json-lines", str(file))

    assert [each["line"] for each in receipts] == [1, 3, 5]  # empty lines count and are no error
    assert (receipts[0]["topic"], receipts[0]["queue_id"]) == ("routed", 1)
    assert [message.body for message in broker.messages("routed")] == [b"a"]
    (binary,) = broker.messages("elsewhere")
    assert (binary.body, binary.keys) == (b"\x00\xff", ("x", "y"))
    broker.advance(3_600)
    broker.wait_for(lambda: len(broker.messages("routed")) == 2)


def test_lines_that_fail_are_reported_and_the_others_are_sent(
    broker: EmbeddedBroker, user: Shell
) -> None:
    lines = ['{"body": "1"}', "no json", '{"boddy": "2"}', '{"body": "3"}', "[]"]

    done = user.run("send", "partly", "--json-lines", "-", input="\n".join(lines))
    for_programs = user.run("send", "partly", "--json-lines", "-", "--json", input="\n".join(lines))

    assert sorted(message.body for message in broker.messages("partly")) == [b"1", b"1", b"3", b"3"]
    assert done.exit_code == for_programs.exit_code == 1
    assert "2 messages are sent" in done.stdout
    for number, words in ((2, "no JSON"), (3, "boddy"), (5, "no JSON object")):
        assert any(f"line {number}" in each and words in each for each in done.stderr.splitlines())
    told = [json.loads(line) for line in for_programs.stdout.splitlines()]
    assert [each["line"] for each in told if "error" in each] == [2, 3, 5]


def test_a_file_of_nothing_but_errors_is_given_up(user: Shell) -> None:
    done = user.run("send", "never", "--json-lines", "-", input="x\n" * (3 * FAILURES_MAX))

    assert done.exit_code == 1
    assert f"{FAILURES_MAX} lines failed" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "--json-lines", "no/such/file"),
        ("send", "t", "body", "--json-lines", "-"),
        ("send", "--json-lines", "-", "--tag", "x"),
        ("send", "t"),
        ("send",),
    ],
)
def test_a_command_line_that_makes_no_sense_is_exit_code_2(
    user: Shell, arguments: tuple[str, ...]
) -> None:
    assert user.complaint(*arguments)[0] == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "no JSON"),
        (b'{"topic": "t"}', "no body"),
        (b'{"topic": "t", "body": ""}', "empty"),
        (b'{"body": "x"}', "no topic"),
        (b'{"topic": "t", "body": "x", "body_base64": "eA=="}', "body or body_base64"),
        (b'{"topic": "t", "body_base64": "%"}', "body_base64"),
        (b'{"topic": "t", "body": "x", "queue": "1"}', "BROKER/ID"),
        (b'{"topic": "t", "body": "x", "delay_level": 1, "delay_ms": 1}', "give one of"),
        (b'{"topic": "t", "body": "x", "keys": 3}', "keys"),
        (b"\xff\xfe", "no JSON"),
    ],
)
def test_a_line_that_cannot_be_sent_says_why(line: bytes, words: str) -> None:
    with pytest.raises(InvalidSetting, match=words):
        read_message(line)


@given(
    body=st.binary(min_size=1, max_size=200),
    keys=st.lists(st.text("abc-1", min_size=1, max_size=5), max_size=3),
    value=st.text("aä☃ =", max_size=9).filter(str.strip),
)
def test_every_body_survives_the_round_trip(body: bytes, keys: list[str], value: str) -> None:
    stored = received(0, body=body, own=value, KEYS=" ".join(keys), TRACE_ON="true")
    printed = facts_of(stored)

    read = read_message(json.dumps(printed).encode()).message

    assert (read.body, read.keys, dict(read.properties)) == (body, tuple(keys), {"own": value})
