"""Accounts are shown and changed by RocketMQ's requests, with its codes and texts, and are saved
before they count.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flintmq.access.accounts import AUTH_FILE, PLAIN_FILE, AuthAccounts, PlainAccounts
from flintmq.errors import DiskFailed
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.account import (
    AclOf,
    AclsLike,
    AclVersionAnswer,
    DeleteAcl,
    PlainAccountHeader,
    PlainAccountOf,
    UserOf,
    UsersLike,
    WhiteAddresses,
)
from support.broker.admin import done, refused
from support.broker.world import World, header_of

CREATE_USER, LIST_USERS = RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_USER
CREATE_ACL, GET_ACL = RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_GET_ACL
CHANGE_ACCOUNT = RequestCode.UPDATE_AND_CREATE_ACL_CONFIG
POLICY = (
    b'{"policies":[{"entries":[{"actions":["Pub"],"decision":"Allow","resource":"Topic:orders"}],'
    b'"policyType":"Custom"}],"subject":"User:alice"}'
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        yield world


@pytest.fixture
def saved() -> dict[str, bytes]:
    return {}


@pytest.fixture
def auth(world: World, saved: dict[str, bytes]) -> World:
    world.state.accounts = AuthAccounts(saved.__setitem__)
    done(world, CREATE_USER, UserOf(username="alice"), b'{"password":"alicepw1"}')
    return world


@pytest.fixture
def plain(world: World, saved: dict[str, bytes]) -> World:
    world.state.accounts = PlainAccounts(saved.__setitem__)
    header = PlainAccountHeader(
        access_key="RocketMQ", secret_key="12345678", admin=False, topic_perms="a=PUB,b=SUB"
    )
    done(world, CHANGE_ACCOUNT, header)
    return world


@pytest.mark.parametrize("code", [CHANGE_ACCOUNT, CREATE_USER])
def test_without_access_control_accounts_are_not_served(world: World, code: RequestCode) -> None:
    header = UserOf(username="a") if code == CREATE_USER else PlainAccountHeader(access_key="a")

    assert refused(world, code, header) == (3, f" request type {int(code)} not supported")


# ACL 2.0


def test_a_user_is_created_saved_and_listed(auth: World, saved: dict[str, bytes]) -> None:
    listed = msgspec.json.decode(done(auth, LIST_USERS, UsersLike()))

    assert listed == [
        {
            "password": "alicepw1",
            "userStatus": "enable",
            "userType": "Normal",
            "username": "alice",
        }
    ]
    assert b'"alice"' in saved[AUTH_FILE]
    assert done(auth, LIST_USERS, UsersLike(filter_text="bob")) == b""


def test_a_user_that_is_there_is_not_created_again(auth: World) -> None:
    again = refused(auth, CREATE_USER, UserOf(username="alice"), b"{}")

    assert again == (ResponseCode.NO_PERMISSION, "The user is existed")


def test_a_policy_is_created_shown_listed_and_deleted(auth: World) -> None:
    done(auth, CREATE_ACL, AclOf(subject="User:alice"), POLICY)

    assert msgspec.json.decode(done(auth, GET_ACL, AclOf(subject="User:alice"))) == (
        msgspec.json.decode(POLICY)
    )
    listed = done(auth, RequestCode.AUTH_LIST_ACL, AclsLike(resource_filter="orders"))
    assert len(msgspec.json.decode(listed)) == 1
    assert done(auth, RequestCode.AUTH_LIST_ACL, AclsLike(resource_filter="other")) == b""

    done(auth, RequestCode.AUTH_DELETE_ACL, DeleteAcl(subject="User:alice"))

    assert done(auth, GET_ACL, AclOf(subject="User:alice")) == b""


def test_a_user_is_changed_and_deleted(auth: World) -> None:
    update, show = RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_GET_USER
    done(auth, update, UserOf(username="alice"), b'{"userStatus":"disable"}')
    assert b'"disable"' in done(auth, show, UserOf(username="alice"))

    done(auth, RequestCode.AUTH_DELETE_USER, UserOf(username="alice"))

    assert done(auth, show, UserOf(username="alice")) == b""


def test_a_change_that_cannot_be_saved_does_not_count(auth: World) -> None:
    accounts = auth.state.accounts
    assert accounts is not None

    def fail(_name: str, _content: bytes) -> None:
        raise DiskFailed("accounts.json", "replace", "no space left")

    accounts._save = fail

    auth.ask(CREATE_USER, UserOf(username="bob"), b'{"password":"bobpw123"}')

    assert list(accounts.rules.users) == ["alice"]


# ACL 1.0


def test_an_account_is_changed_field_by_field(plain: World, saved: dict[str, bytes]) -> None:
    done(plain, CHANGE_ACCOUNT, PlainAccountHeader(access_key="RocketMQ", secret_key="87654321"))

    shown = msgspec.json.decode(done(plain, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, None))
    assert shown["plainAccessConfigs"] == [
        {
            "accessKey": "RocketMQ",
            "admin": False,
            "defaultGroupPerm": "DENY",
            "defaultTopicPerm": "DENY",
            "secretKey": "87654321",
            "topicPerms": ["a=PUB", "b=SUB"],
        }
    ]
    assert b"87654321" in saved[PLAIN_FILE]


def test_every_change_counts_in_the_version(plain: World) -> None:
    ask = RequestCode.GET_BROKER_CLUSTER_ACL_INFO
    before = header_of(plain.ask(ask), AclVersionAnswer)
    done(
        plain,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        WhiteAddresses(global_white_addrs="10.10.103.*,192.168.0.1"),
    )
    after = header_of(plain.ask(ask), AclVersionAnswer)

    assert '"counter":1' in before.version
    assert '"counter":2' in after.version


@pytest.mark.parametrize(
    ("header", "code", "text"),
    [
        (PlainAccountHeader(access_key="RocketMQ"), 209, "7 characters"),
        (
            PlainAccountHeader(access_key="RocketMQ", secret_key="12345678", topic_perms="t1"),
            209,
            "The expected resource format is 'Res=Perm'",
        ),
        (PlainAccountOf(access_key="nobody12"), 210, "The accesskey[nobody12]"),
        (WhiteAddresses(global_white_addrs="1.2.3.4.5"), 211, "globalWhiteAddresses[1.2.3.4.5]"),
    ],
)
def test_a_wrong_change_is_refused_with_its_code_and_changes_nothing(
    plain: World,
    header: PlainAccountHeader | PlainAccountOf | WhiteAddresses,
    code: int,
    text: str,
) -> None:
    requests = {
        PlainAccountHeader: CHANGE_ACCOUNT,
        PlainAccountOf: RequestCode.DELETE_ACL_CONFIG,
        WhiteAddresses: RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    }
    before = plain.state.accounts.rules if plain.state.accounts else None

    given, remark = refused(plain, requests[type(header)], header)

    assert given == code
    assert text in (remark or "")
    assert plain.state.accounts is not None
    assert plain.state.accounts.rules == before


def test_a_deleted_account_is_gone(plain: World) -> None:
    done(plain, RequestCode.DELETE_ACL_CONFIG, PlainAccountOf(access_key="RocketMQ"))

    assert plain.state.accounts is not None
    assert plain.state.accounts.rules.users == {}
