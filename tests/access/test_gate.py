"""A session behind the gate gets what was checked, and nothing else, however a peer writes it.

The attacker has an account of its own with the right to publish in `mine`, and wants to write to
`T`.  It may sign whatever it likes, so a valid signature proves nothing but who it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from flintmq.access.accounts import AuthAccounts
from flintmq.access.rights import Context
from flintmq.access.rules import Dialect, User
from flintmq.errors import MalformedHeader
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.servers.access_gate import access_gate
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import Frame, FrameReader, HeaderForm, frame_prefix
from flintmq.protocol.header_binary import encode_binary_header
from flintmq.protocol.signature import sign
from flintmq.protocol.wire import decode_command, encode_command
from support.broker.guarded import fill, guard, picture, signed
from support.broker.wire import Wire, command_of
from support.broker.world import World

ACCOUNTS = b"""{"users": [{"username": "eve", "password": "evepw123"},
                          {"username": "bob", "password": "bobpw123"}],
"acls": [{"subject": "User:eve", "policies": [{"policyType": "Custom", "entries": [
  {"resource": "Topic:mine", "actions": ["Pub"], "decision": "Allow"}]}]},
 {"subject": "User:bob", "policies": [{"policyType": "Custom", "entries": [
  {"resource": "Topic:*", "actions": ["All"], "decision": "Allow"},
  {"resource": "Group:*", "actions": ["All"], "decision": "Allow"},
  {"resource": "Topic:secret", "actions": ["All"], "decision": "Deny"}]}]}]}"""


CHECK = RequestCode.CHECK_TRANSACTION_STATE


class Behind:
    """A session that keeps what it gets, and its channel."""

    peer = "127.0.0.1:50000"
    user: User | None = None

    def __init__(self, *, is_busy: bool = False) -> None:
        self.got: list[Frame] = []
        self.answers: list[Command] = []
        accounts = AuthAccounts(lambda *_: None)
        assert accounts.reload({"accounts.json": ACCOUNTS})
        channel = cast(Channel, self)
        self.gate = access_gate(accounts.protect(Context("c")))(cast(Session, self), channel)

    def frames(self, frames: list[Frame]) -> None:
        self.got += frames

    def write(self, chunks: tuple[bytes, ...]) -> None:
        self.answers += map(decode_command, FrameReader().feed(b"".join(chunks)))

    def give(self, header: bytes, body: bytes = b"hello", form: int = 0) -> None:
        data = frame_prefix(HeaderForm(form), header, len(body)) + body
        self.gate.frames(FrameReader().feed(data))

    @property
    def topics(self) -> list[str]:
        """Where the session behind the gate would store."""
        return [decode_command(frame).field_texts().get("b", "") for frame in self.got]


FIELDS = {
    "a": "p",
    "b": "mine",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000001",
    "h": "0",
    "i": "UNIQ_KEY\x01AB0000000000000000000000000001\x02WAIT\x01true\x02",
    "j": "0",
    "k": "false",
    "l": "0",
    "m": "false",
}


def signature(fields: dict[str, str], body: bytes = b"hello", who: str = "eve") -> str:
    command = command_of(310, fields, body)
    return sign(command, who, f"{who}pw123").field_texts()["Signature"]


def header(pairs: list[tuple[str, str]], **more: Any) -> bytes:
    """A JSON header with these fields in this order, also twice."""
    fields = ",".join(f"{json.dumps(name)}:{json.dumps(text)}" for name, text in pairs)
    rest = {"flag": 0, "language": "JAVA", "opaque": 7, "version": 401, **more}
    tail = "".join(f',"{name}":{json.dumps(value)}' for name, value in rest.items())
    return f'{{"code":310,"extFields":{{{fields}}}{tail}}}'.encode()


def signed_pairs(last: dict[str, str]) -> list[tuple[str, str]]:
    """Fields as they count, which is the last of each name, with a valid signature over them."""
    fields = {**last, "AccessKey": "eve"}
    return [*fields.items(), ("Signature", signature(last))]


def test_a_field_that_hides_behind_the_name_of_the_signature_changes_nothing() -> None:
    r"""``x\"Signature`` ends with the bytes that begin a signature: cut out, its neighbour's name
    would be another, and the topic before it would count.
    """
    behind = Behind()
    odd = {**FIELDS, 'x"Signature': "s"}
    pairs = [pair for pair in signed_pairs(odd) if pair[0] not in ("b", 'x"Signature')]
    evil = [("b", "T"), *pairs[:1], ('x"Signature', "s"), ("b", "mine"), *pairs[1:]]
    assert dict(evil)["b"] == "mine"

    for opaque in range(1, 6):
        behind.give(header(evil, opaque=opaque))

    assert behind.topics == ["mine"] * 5
    assert behind.answers == []


@pytest.mark.parametrize("first", ["T", "mine"])
def test_of_two_fields_the_same_one_is_checked_and_served(first: str) -> None:
    behind = Behind()
    last = "mine" if first == "T" else "T"
    fields = {**FIELDS, "b": last}

    for opaque in range(1, 6):
        behind.give(header([("b", first), *signed_pairs(fields)], opaque=opaque))

    assert behind.topics == (["mine"] * 5 if last == "mine" else [])


@pytest.mark.parametrize("order", ["good first", "good last"])
def test_two_signatures_let_nothing_pass_that_one_would_not(order: str) -> None:
    behind = Behind()
    for topic in ("mine", "T"):
        pairs = signed_pairs({**FIELDS, "b": topic})
        bad = ("Signature", "A" * 27 + "=")
        both = [*pairs, bad] if order == "good first" else [bad, *pairs]
        for opaque in range(1, 4):
            behind.give(header(both, opaque=opaque))

    assert set(behind.topics) <= {"mine"}
    assert len(behind.got) + len(behind.answers) == 6


def test_a_signature_outside_the_fields_is_none() -> None:
    behind = Behind()
    fields = {**FIELDS, "AccessKey": "eve"}

    for opaque in range(1, 4):
        behind.give(header(list(fields.items()), Signature=signature(FIELDS), opaque=opaque))

    assert behind.got == []
    assert {answer.code for answer in behind.answers} == {ResponseCode.NO_PERMISSION}


def test_bytes_that_look_like_a_signature_stay_in_a_binary_header() -> None:
    """Lengths stand before values there, so a cut would turn one field into others."""
    behind = Behind()
    fields = {**FIELDS, "z": ',"Signature":"' + "A" * 28 + '"'}
    command = sign(command_of(310, fields, b"hello"), "eve", "evepw123")

    for _ in range(3):
        behind.give(encode_binary_header(command), form=1)

    assert [decode_command(frame).field_texts() for frame in behind.got] == [
        command.field_texts()
    ] * 3


def test_a_known_header_is_known_for_its_own_topic_and_account_alone() -> None:
    behind = Behind()
    for opaque in range(1, 4):
        behind.give(header(signed_pairs(FIELDS), opaque=opaque))
    assert len(behind.got) == 3

    for change in ({"b": "T"}, {"AccessKey": "bob"}, {"AccessKey": ""}, {"g": "1700000000002"}):
        pairs = [(name, change.get(name, text)) for name, text in signed_pairs(FIELDS)]
        behind.give(header(pairs, opaque=9))
    behind.give(header(signed_pairs(FIELDS), opaque=9), b"other body")

    assert len(behind.got) == 3
    assert len(behind.answers) == 5


def test_frames_that_a_busy_session_gives_back_pass_again_as_they_are() -> None:
    """A session without time gets the rest later, through the gate: unsigned by then."""
    behind = Behind()
    for opaque in range(1, 6):
        behind.give(header(signed_pairs(FIELDS), opaque=opaque))
    given_back, behind.got = behind.got, []

    behind.gate.frames(given_back)

    assert behind.got == given_back
    assert behind.answers == []


def test_a_frame_with_too_many_fields_is_answered_and_hides_no_frame_before_it() -> None:
    behind = Behind()
    good = encode_command(sign(command_of(310, FIELDS, b"hello"), "eve", "evepw123"))
    many = encode_command(command_of(310, {f"f{n}": "1" for n in range(5_000)}, b"x"))

    behind.gate.frames(FrameReader().feed(good + many + good))

    assert behind.topics == ["mine", "mine"]
    assert [answer.code for answer in behind.answers] == [ResponseCode.SYSTEM_ERROR]


@pytest.mark.parametrize("code", [310, 320, 10, 34, 11])
@pytest.mark.parametrize("text", ['"\\u0000"', '"\\ud83d\\ude00"', "1e400", "[1]"])
def test_odd_texts_in_fields_are_answered(code: int, text: str) -> None:
    behind = Behind()
    head = f'{{"code":{code},"extFields":{{"AccessKey":"eve","b":{text},"Signature":{text}}},'

    behind.give(head.encode() + b'"opaque":3}')

    assert behind.got == []
    assert [answer.opaque for answer in behind.answers] == [3]


def test_what_is_no_command_ends_the_connection_after_what_came_before_it() -> None:
    behind = Behind()
    good = encode_command(sign(command_of(310, FIELDS, b"hello"), "eve", "evepw123"))
    broken = b'{"code":310,"extFields":{"b":"\\ud800"},"opaque":3}'
    bad = frame_prefix(HeaderForm.JSON, broken, 0)

    with pytest.raises(MalformedHeader):
        behind.gate.frames(FrameReader().feed(good + bad))

    assert behind.topics == ["mine"]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": " secret "}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "\tsecret"}),
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topicList": "a;secret"}),
    ],
)
def test_blanks_around_a_name_do_not_step_around_a_rule_that_denies(
    code: RequestCode, fields: dict[str, str]
) -> None:
    behind = Behind()
    command = sign(command_of(code, fields), "bob", "bobpw123")

    behind.gate.frames(FrameReader().feed(encode_command(command)))

    assert behind.got == []
    (answer,) = behind.answers
    assert "Topic:secret" in (answer.remark or "")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        fill(world)
        yield world


@pytest.mark.parametrize("dialect", list(Dialect), ids=["ACL 1.0", "ACL 2.0"])
def test_an_account_in_an_answer_is_none_in_a_request(world: World, dialect: Dialect) -> None:
    """A frame that says it is an answer passes unchecked, and is not served as a request."""
    wire: Wire = guard(world, dialect)
    before = picture(world)
    for flag in (1, 3):
        for code in RequestCode:
            assert wire.submit(Command(code=code, flag=flag, version=479, body=b"hello")) == []

    assert picture(world) == before


def test_a_transaction_check_goes_to_who_may_publish_in_the_topic(world: World) -> None:
    """Every account may join any producer group; a check has the body of the half message."""
    wire = guard(world, Dialect.AUTH)

    for who in ("elsewhere", "granted"):
        said = {"clientID": f"c@{who}", "producerDataSet": [{"groupName": "p"}]}
        beat = json.dumps(said).encode()
        (answer,) = wire.give(signed(command_of(RequestCode.HEART_BEAT, {}, beat), who))
        assert answer.code == ResponseCode.SUCCESS
        world.told.clear()
        world.advance(70_000)
        checks = [told for told in world.told if told.request.code == CHECK]
        assert bool(checks) == (who == "granted"), who


class Slow(Behind):
    """A session that serves one frame of each turn, and notes for whom."""

    frames_behind = 0

    def __init__(self) -> None:
        super().__init__()
        self.served: list[tuple[str, str]] = []
        self.backlog: list[Frame] = []

    def frames(self, frames: list[Frame]) -> None:
        topic = decode_command(frames[0]).field_texts()["b"]
        self.served.append((self.user.name if self.user else "", topic))
        self.later(frames[1:])

    def later(self, frames: list[Frame]) -> None:
        self.backlog += frames
        self.frames_behind = len(self.backlog)

    def run(self) -> None:
        while self.backlog:
            frames, self.backlog, self.frames_behind = self.backlog, [], 0
            self.gate.frames(frames)


def test_a_session_serves_each_request_for_who_signed_it_however_they_are_mixed() -> None:
    """Requests of two accounts in one read, and a session that has no time for all of them."""
    slow = Slow()
    mixed = [("eve", "mine"), ("bob", "a"), ("bob", "b"), ("eve", "mine"), ("bob", "c")]
    data = b""
    for number, (who, topic) in enumerate(mixed):
        command = command_of(RequestCode.SEND_MESSAGE_V2, {**FIELDS, "b": topic}, b"x")
        secret = {"eve": "evepw123", "bob": "bobpw123"}[who]
        data += encode_command(replace(sign(command, who, secret), opaque=number))

    slow.gate.frames(FrameReader().feed(data))
    slow.run()

    assert slow.served == mixed
