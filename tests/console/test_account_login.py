"""People may sign in with accounts of the brokers, and see what these may read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq.console.guard.sessions import FAILURES_MAX
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.embedded_users import EmbeddedUser
from support.console.browsing import Visitor, visiting

SECRET = "the-secret-of-root"


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    users = [
        EmbeddedUser("root", SECRET, is_super=True),
        EmbeddedUser("alice", "the-secret-of-alice", allow={"Topic:orders": "Pub"}),
    ]
    with EmbeddedBroker(accounts=users) as servers:
        yield servers


@pytest.fixture
def visitor(guarded: EmbeddedBroker) -> Iterator[Visitor]:
    with visiting(guarded.namesrv, token=None, with_accounts=True) as made:
        yield made


def sign_in(visitor: Visitor, name: str, secret: str) -> int:
    form = {"username": name, "token": secret, "next": "/"}
    return visitor.client.post("/login", data=form).status_code


def test_an_account_opens_the_cluster_as_its_own(visitor: Visitor) -> None:
    status = sign_in(visitor, "root", SECRET)
    page = visitor.text("/")

    assert status == 303
    assert "broker-a" in page
    assert SECRET not in page
    assert "Samples are not taken: the console has no account of its own" in page


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("root", "wrong"),
        ("root", ""),
        ("", SECRET),
        ("nobody", SECRET),
        ("alice", "the-secret-of-alice"),  # who may not read how brokers are doing
    ],
)
def test_a_wrong_account_opens_nothing(visitor: Visitor, name: str, secret: str) -> None:
    assert sign_in(visitor, name, secret) == 403
    assert visitor.status("/") == 303


def test_a_token_does_not_count_where_accounts_do(visitor: Visitor) -> None:
    in_form = visitor.client.post("/login", data={"token": visitor.site.token})
    in_address = visitor.client.get("/login", params={"token": visitor.site.token})

    assert in_form.status_code == 403
    assert "set-cookie" not in in_address.headers


def test_wrong_accounts_are_counted(visitor: Visitor) -> None:
    wrong = [sign_in(visitor, "root", "wrong") for _ in range(FAILURES_MAX)]

    assert wrong == [403] * FAILURES_MAX
    assert sign_in(visitor, "root", SECRET) == 429


def test_brokers_that_ask_for_no_account_let_nobody_in_by_one(broker: EmbeddedBroker) -> None:
    with visiting(broker.namesrv, token=None, with_accounts=True) as visitor:
        answer = visitor.client.post("/login", data={"username": "root", "token": "any"})

    assert answer.status_code == 403
    assert "start the console with a token" in answer.text


def test_a_cluster_that_is_away_is_no_wrong_account() -> None:
    with visiting("127.0.0.1:1", token=None, with_accounts=True) as visitor:
        status = sign_in(visitor, "root", SECRET)

    assert status == 503


def test_who_signs_out_leaves_no_connection(visitor: Visitor) -> None:
    sign_in(visitor, "root", SECRET)
    (session,) = visitor.site.sessions._by_key.values()
    visitor.client.post("/logout", data={"csrf": visitor.csrf()})

    async def until_closed() -> bool:
        for task in list(visitor.site.closing):
            await task
        return session.cluster.admin._is_closed

    assert visitor.on_its_thread(until_closed())
