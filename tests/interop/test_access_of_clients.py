"""Clients of five kinds meet our access control, and it refuses what RocketMQ refuses.

Java of both generations, Go, Node and C++ send, consume and administer with right, wrong and no
accounts, at our broker with each kind of access control and at the real ones: the same table, code
for code.  A proxy reads the answers, because most clients only log what they are refused.  What a
client cannot do is in `CANNOT`, where RocketMQ lets everybody in, in `HOLES`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from flintmq import Message, Producer
from flintmq.protocol.codes import RequestCode as Code
from support.interop import account_programs, cppclient
from support.interop.access_answers import (
    EMPTY_NAME,
    NO_ACCOUNT,
    NO_NAME,
    NO_SIGNATURE,
    OK,
    denied,
    not_admin,
)
from support.interop.account_programs import Account, Program, Running
from support.interop.door import Reply
from support.interop.filled import SEND_MS, patiently
from support.interop.guarded_brokers import (
    BOSS,
    NOBODY,
    PACKER,
    PLAIN,
    RIGHT,
    STRANGER,
    WRONG,
    Guarded,
)
from support.interop.javaclient import NEW, OLD
from support.interop.skipping import skip_without

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

JAVA_OLD, JAVA_NEW, GO, NODE, CPP = f"java {OLD}", f"java {NEW}", "go", "node", "c++"
CLIENTS = (JAVA_OLD, JAVA_NEW, GO, NODE, CPP)

CANNOT = {
    (NODE, "BATCH"): "ali-ons sends no batches",
    (NODE, "PULL"): "ali-ons has no pull consumer",
    (NODE, "ORDERLY"): "ali-ons does not consume in order",
    (NODE, "TOPIC"): "ali-ons makes no topics",
    (CPP, "BATCH"): "the C++ client sends a batch as one message, by SEND_MESSAGE (10)",
    (CPP, "TOPIC"): "the C++ client has no admin requests",
}
CODES = {
    "SEND": (Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2),
    "BATCH": (Code.SEND_BATCH_MESSAGE,),
    "PULL": (Code.PULL_MESSAGE,),
    "PUSH": (Code.HEART_BEAT,),
    "ORDERLY": (Code.LOCK_BATCH_MQ,),
    "BACK": (Code.CONSUMER_SEND_MSG_BACK,),
    "TOPIC": (Code.UPDATE_AND_CREATE_TOPIC,),
}
"""The request that decides."""


class Row(NamedTuple):
    """Somebody who does something, and the answer by the dialect of the accounts."""

    words: str
    who: Account
    expected: dict[str, str]

    @property
    def verb(self) -> str:
        return self.words.split()[0]


TABLE = [
    Row("SEND orders", RIGHT, OK),
    Row("SEND orders", BOSS, OK),
    Row("SEND wages", RIGHT, denied("topic", "wages")),
    Row("SEND orders", WRONG, NO_SIGNATURE),
    Row("SEND orders", STRANGER, NO_ACCOUNT),
    Row("SEND orders", NOBODY, NO_NAME),
    Row("BATCH orders", RIGHT, OK),
    Row("BATCH wages", RIGHT, denied("topic", "wages")),
    Row("BATCH orders", WRONG, NO_SIGNATURE),
    # A group of its own: a real broker keeps a member for two minutes that left at once.
    Row("PULL counting orders", RIGHT, OK),
    Row("PULL payroll orders", RIGHT, denied("group", "payroll")),
    Row("PULL counting wages", RIGHT, denied("topic", "wages")),
    Row("PULL counting orders", WRONG, NO_SIGNATURE),
    Row("PUSH billing orders", RIGHT, OK),
    Row("PUSH payroll orders", RIGHT, denied("group", "payroll")),
    Row("PUSH billing wages", RIGHT, denied("topic", "wages")),
    Row("PUSH billing orders", WRONG, NO_SIGNATURE),
    Row("PUSH billing orders", STRANGER, NO_ACCOUNT),
    Row("PUSH billing orders", NOBODY, NO_NAME),
    Row("TOPIC made-by-boss", BOSS, OK),
    Row("TOPIC mine", RIGHT, not_admin(Code.UPDATE_AND_CREATE_TOPIC, "mine")),
    Row("TOPIC mine", WRONG, NO_SIGNATURE),
]
HOLES = {
    (PLAIN, "BATCH wages"): "4.9 asks no rights for SEND_BATCH_MESSAGE (320)",
    (PLAIN, "ORDERLY packing parcels"): "4.9 asks no rights for LOCK_BATCH_MQ (41)",
}
"""What a real broker lets through and ours refuses."""

SHOWS = {
    **dict.fromkeys(((name, verb) for name in (JAVA_OLD, JAVA_NEW) for verb in CODES), "FAILED {}"),
    (GO, "SEND"): "FAILED CODE: {code}, DESC: {remark}",
    (GO, "BATCH"): "FAILED CODE: {code}, DESC: {remark}",
    (GO, "PULL"): "FAILED unknown Response Code: {code}, remark: {remark}",
}
"""How a client shows a refusal of which it shows code and remark."""


class Client(NamedTuple):
    name: str
    program: Program


@pytest.fixture(scope="module", params=CLIENTS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    name: str = request.param
    home = tmp_path_factory.mktemp("client")
    if name == GO:
        skip_without("go")
        yield Client(name, account_programs.go(home))
    elif name == NODE:
        skip_without("node", "npm")
        yield Client(name, account_programs.node(home))
    elif name == CPP:
        if reason := cppclient.missing_platform():
            pytest.skip(reason)
        yield Client(name, account_programs.cpp(home))
    else:
        skip_without("java", "mvn")
        with account_programs.java(name.split()[1], home) as program:
            yield Client(name, program)


_bodies = (f"message {number}".replace(" ", "-") for number in itertools.count())


def send(at: Guarded, topic: str) -> str:
    """Send a message that no other has the body of."""
    body = next(_bodies)
    with Producer("school", namesrv=at.namesrv, **BOSS.keys) as producer:
        producer.send(Message(topic, body.encode()), timeout_ms=SEND_MS)
    return body


@contextmanager
def asking(at: Guarded, client: Client, words: str, who: Account) -> Iterator[Running]:
    at.door.next_client()
    with client.program([at.namesrv, at.door.address, *who, *words.split()]) as running:
        yield running


def first_reply(at: Guarded, *codes: Code, refused: bool = False) -> Reply:
    """The first answer to one of these requests, or the first refusal."""

    def found() -> list[Reply]:
        replies = at.door.replies(*codes)
        return [reply for reply in replies if reply.code != 0] if refused else replies

    patiently(lambda: bool(found()))
    return found()[0]


def outcome(at: Guarded, client: Client, row: Row, *, is_allowed: bool) -> tuple[str, str]:
    """The answer that was given, and what the client said of it."""
    body = send(at, row.words.split()[-1]) if row.verb == "PUSH" else ""
    words = f"{row.words} {body}".strip()
    with asking(at, client, words, row.who) as running:
        said = running.line()
        reply = first_reply(at, *CODES[row.verb], refused=not is_allowed)
        if row.verb == "PUSH":
            said = running.line() if is_allowed else " ".join(running.lines_so_far())
    return str(reply), said


def expected_of(at: Guarded, client: Client, row: Row) -> str:
    if at.whose == "real" and (at.acl, row.words) in HOLES:
        return OK[at.acl]
    if client.name == CPP and row.expected is NO_NAME:
        return EMPTY_NAME[at.acl]
    return row.expected[at.acl]


def test_every_client_gets_the_same_answers_everywhere(guarded: Guarded, client: Client) -> None:
    wrong = []
    for row in TABLE:
        if (client.name, row.verb) in CANNOT:
            continue
        expected = expected_of(guarded, client, row)
        is_allowed = expected == OK[guarded.acl]
        reply, said = outcome(guarded, client, row, is_allowed=is_allowed)
        if not reply.startswith(expected) or not is_told(client, row, reply, said):
            others = sorted({(each.request, str(each)) for each in guarded.door.replies()})
            wrong.append((row.words, row.who, reply, expected, said, others))
    assert wrong == []
    with guarded.admin() as admin:
        assert "mine" not in {topic.name for topic in admin.topics()}


def is_told(client: Client, row: Row, reply: str, said: str) -> bool:
    """Whether the client says of an answer what it usually does."""
    code, _, remark = reply.partition(" ")
    if row.verb == "PUSH":  # nothing comes where the consumer is refused
        return ("HEARD" in said) == (code == "0")
    if code == "0":
        return said in ("OK", "STARTED")
    shown = SHOWS.get((client.name, row.verb))
    return shown is None or said.startswith(shown.format(reply, code=code, remark=remark)[:200])


@contextmanager
def without_rights(at: Guarded) -> Iterator[None]:
    """Take the packer's group away, and give it back."""

    def change(is_allowed: bool) -> None:
        with at.admin() as admin:
            if at.acl == PLAIN:
                permission = "packing=SUB" if is_allowed else "packing=DENY"
                admin.change_account(PACKER.name, PACKER.secret, group_perms=(permission,))
            else:
                admin.change_policy(PACKER.name, "Group:packing", ["Sub"], is_allowed=is_allowed)

    change(False)
    try:
        yield
    finally:
        change(True)


LOST = denied("group", "packing", PACKER)


def test_a_consumer_that_loses_its_rights_loses_its_locks(guarded: Guarded, client: Client) -> None:
    if reason := CANNOT.get((client.name, "ORDERLY")):
        pytest.skip(reason)
    words = "ORDERLY packing parcels"
    body = send(guarded, "parcels")
    with asking(guarded, client, f"{words} {body}", PACKER) as running:
        assert running.line() == "STARTED"
        assert running.line() == "HEARD 0"
        assert first_reply(guarded, Code.LOCK_BATCH_MQ).code == 0
        if guarded.whose == "real" and (guarded.acl, words) in HOLES:
            return
        with without_rights(guarded):
            reply = first_reply(guarded, Code.LOCK_BATCH_MQ, refused=True)
    assert str(reply).startswith(LOST[guarded.acl])


def test_a_message_is_sent_back_with_the_rights_of_the_group(
    guarded: Guarded, client: Client
) -> None:
    body = send(guarded, "parcels")
    with asking(guarded, client, f"BACK packing parcels {body}", PACKER) as running:
        assert [running.line(), running.line()] == ["STARTED", "HEARD 0"]
        running.say("GO")
        assert first_reply(guarded, Code.CONSUMER_SEND_MSG_BACK).code == 0
        assert running.line() == "HEARD 1"

    body = send(guarded, "parcels")
    with asking(guarded, client, f"BACK packing parcels {body}", PACKER) as running:
        assert [running.line(), running.line()] == ["STARTED", "HEARD 0"]
        with without_rights(guarded):
            running.say("GO")
            reply = first_reply(guarded, Code.CONSUMER_SEND_MSG_BACK, refused=True)
    assert str(reply).startswith(LOST[guarded.acl])
