"""Whatever the code: without the rights for it nothing happens, and an answer comes.

Every known code is asked by nobody, with a wrong signature, by an account whose rights are on other
names, and by accounts that have the rights; in both dialects and in both forms of a header.  All
that a broker holds is compared before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq.access.needs import TABLE
from flintmq.access.rights import Reserved
from flintmq.access.rules import Dialect
from flintmq.broker.admin.account_admin import PROCESSORS as ACCOUNTS
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.processor_table import processors
from flintmq.nameserver.processors import PROCESSORS as NAME_SERVER
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from support.broker.guarded import (
    fill,
    guard,
    join_over,
    picture,
    real_body,
    real_fields,
    signed,
)
from support.broker.wire import Wire, command_of
from support.broker.world import SMALL_STORE, World

CODES = list(RequestCode)
IN_BINARY = [code for code in CODES if code < 2**15]
UNKNOWN = (0, 99_999, 2**31 - 1)
"""Codes of no request."""

READING = ("GET_", "QUERY_", "VIEW_", "SEARCH_", "CHECK_", "AUTH_GET_", "AUTH_LIST_")
NOTHING_TO_DO = {
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,  # it reads too
    RequestCode.POLLING_INFO,  # and so does this
    RequestCode.CLEAN_UNUSED_TOPIC,  # RocketMQ cleans nothing either
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,  # nothing is expired in a broker this young
    RequestCode.DELETE_EXPIRED_COMMITLOG,
}
OTHER_DIALECT = {
    Dialect.PLAIN: {code for code in CODES if code.name.startswith("AUTH_")},
    Dialect.AUTH: {code for code in ACCOUNTS if not code.name.startswith("AUTH_")},
}
"""Requests about accounts of the other dialect, which are not served."""

REFUSALS = ("User:", "username cannot be null", "check signature failed")

DIALECTS = pytest.mark.parametrize("dialect", list(Dialect), ids=["ACL 1.0", "ACL 2.0"])
NOBODIES = pytest.mark.parametrize(
    ("who", "secret"),
    [(None, None), ("root-user", "guessed pw"), ("nobody12", "nobodypw")],
    ids=["no account", "wrong signature", "unknown account"],
)


@contextmanager
def a_world(directory: Path) -> Iterator[World]:
    with World(directory, BrokerConfig(store=SMALL_STORE, recalls=True)) as world:
        fill(world)
        yield world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as world:
        yield world


def entered(world: World, dialect: Dialect) -> Wire:
    """A session whose client is a member of a group already."""
    wire = guard(world, dialect)
    join_over(wire)
    return wire


def requests_of(code: RequestCode) -> Iterator[Command]:
    """The request, and what is left of it when names are empty or missing."""
    fields, body = real_fields(code), real_body(code)
    yield command_of(code, fields, body)
    yield command_of(code, fields, b"")
    yield command_of(code, {}, body)
    for name, text in fields.items():
        if not text.isdigit():
            yield command_of(code, {**fields, name: ""}, body)
            yield command_of(code, {key: each for key, each in fields.items() if key != name}, body)


def is_refused(dialect: Dialect, answer: Command) -> bool:
    remark = answer.remark or ""
    if dialect is Dialect.PLAIN:
        return answer.code == ResponseCode.SYSTEM_ERROR and "AclException" in remark
    return answer.code == ResponseCode.NO_PERMISSION and remark.startswith(REFUSALS)


SECRET = (b'"T"', b'"g"', b"hello", b"c@1", b"pw")
"""What the broker holds, and an answer without rights must not say."""


def says_nothing(answer: Command) -> bool:
    """Whether an answer to a request that names nothing gives nothing away."""
    is_empty = not any(word in answer.body for word in SECRET)
    return answer.code != ResponseCode.SUCCESS or (is_empty and len(answer.body) < 100)


@DIALECTS
@NOBODIES
def test_who_is_nobody_gets_a_refusal_for_every_code(
    world: World, dialect: Dialect, who: str | None, secret: str | None
) -> None:
    wire = entered(world, dialect)
    before = picture(world)

    for code in CODES:
        for command in requests_of(code):
            (answer,) = wire.give(signed(command, who, secret))
            assert answer.code != ResponseCode.SUCCESS, (code, answer)
        assert is_refused(dialect, _ask(wire, code, who, secret)), code
        assert picture(world) == before, code
    for code in IN_BINARY:
        command = command_of(code, real_fields(code), real_body(code))
        (answer,) = wire.give(signed(command, who, secret), HeaderForm.BINARY)
        assert is_refused(dialect, answer), (code, answer)
    assert picture(world) == before


def _ask(wire: Wire, code: RequestCode, who: str | None, secret: str | None = None) -> Command:
    command = command_of(code, real_fields(code), real_body(code))
    (answer,) = wire.give(signed(command, who, secret))
    return answer


@DIALECTS
@NOBODIES
def test_a_oneway_request_of_nobody_does_nothing(
    world: World, dialect: Dialect, who: str | None, secret: str | None
) -> None:
    wire = entered(world, dialect)
    before = picture(world)

    for code in CODES:
        command = command_of(code, real_fields(code), real_body(code), oneway=True)
        assert wire.submit(signed(command, who, secret)) == []
    assert picture(world) == before


NEEDS_NOTHING = {code for code in CODES if TABLE.get(code) is Reserved.NOTHING}
NOT_IN_BROKER = [code for code in CODES if code not in processors()]
NOT_SERVED = {code for code in CODES if code not in TABLE or code not in REQUEST_HEADERS}


@DIALECTS
def test_an_account_with_other_rights_changes_nothing(world: World, dialect: Dialect) -> None:
    """Names that are empty or missing, and bodies without any, ask for nothing and get nothing."""
    wire = entered(world, dialect)
    before = picture(world)

    for code in CODES:
        for command in requests_of(code):
            (answer,) = wire.give(signed(command, "elsewhere"))
            assert says_nothing(answer), (code, command, answer)
            assert picture(world) == before, (code, command)
        command = command_of(code, real_fields(code), real_body(code), oneway=True)
        assert wire.submit(signed(command, "elsewhere")) == []
        assert picture(world) == before, code
        if code not in NEEDS_NOTHING | NOT_SERVED:
            assert is_refused(dialect, _ask(wire, code, "elsewhere")), code


@DIALECTS
def test_accounts_with_the_rights_are_served(tmp_path: Path, dialect: Dialect) -> None:
    """Each in a broker of its own; what happens then is what did not happen above."""
    changing = set()
    for code in map(RequestCode, processors()):
        with a_world(tmp_path / code.name) as world:
            wire = entered(world, dialect)
            before = picture(world)
            is_reserved = code not in TABLE or TABLE[code] is Reserved.SUPER
            command = command_of(code, real_fields(code), real_body(code))
            wire.submit(signed(command, "root-user" if is_reserved else "granted"))
            if picture(world) != before:
                changing.add(code)
            (answer,) = wire.wait()
            assert not is_refused(dialect, answer), (code, answer)

    reading = {code for code in CODES if code.name.startswith(READING)}
    must_change = {*map(RequestCode, processors())} - reading - NOTHING_TO_DO
    assert must_change - OTHER_DIALECT[dialect] - changing == set(), "the pictures miss something"
    for code in NOT_IN_BROKER:
        with a_world(tmp_path / code.name) as world:
            answer = _ask(entered(world, dialect), code, "root-user")
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, (code, answer)


@DIALECTS
@pytest.mark.parametrize("code", UNKNOWN)
def test_a_code_that_nobody_knows_is_answered_and_does_nothing(
    world: World, dialect: Dialect, code: int
) -> None:
    wire = entered(world, dialect)
    before = picture(world)
    command = command_of(code, {"topic": "T", "group": "g"}, b"hello")

    for who, secret in ((None, None), ("root-user", "guessed pw"), ("nobody12", "nobodypw")):
        (answer,) = wire.give(signed(command, who, secret))
        assert is_refused(dialect, answer), (who, answer)
    for who in ("elsewhere", "root-user"):
        (answer,) = wire.give(signed(command, who))
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, (who, answer)
    assert picture(world) == before


def test_every_code_that_a_server_serves_is_asked_here() -> None:
    served = {*processors(), *map(int, NAME_SERVER)}

    assert served - {int(code) for code in CODES} == set()
    assert served - {int(code) for code in TABLE} == set(), "refused to all but super users"
