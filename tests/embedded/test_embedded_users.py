"""A test says in one line who may do what, and its broker holds everybody to it."""

from __future__ import annotations

import pytest

from flintmq import EmbeddedBroker, EmbeddedUser, Message
from flintmq.errors import BrokerRefused, FlintError, InvalidSetting

USERS = [
    EmbeddedUser("alice", allow={"Topic:orders*": "Pub, Get"}, deny={"Topic:orders-audit": "All"}),
    EmbeddedUser("root", "rootpw12", is_super=True),
]


@pytest.fixture(scope="module")
def flintmq_settings() -> dict[str, object]:
    return {"accounts": USERS}


def test_users_are_served_by_what_they_may_do(flintmq_broker: EmbeddedBroker) -> None:
    with flintmq_broker.admin() as admin:
        admin.create_topic("orders")
        admin.create_topic("orders-audit")

    alice = flintmq_broker.account("alice")
    with flintmq_broker.producer("shop", retries=0, **alice) as producer:
        producer.send(Message("orders", b"o-1"))
        with pytest.raises(FlintError, match="has no permission to access Topic:orders-audit"):
            producer.send(Message("orders-audit", b"o-1"))

    assert [each.body for each in flintmq_broker.messages("orders")] == [b"o-1"]
    assert flintmq_broker.messages("orders-audit") == []


def test_who_gives_no_account_is_refused(flintmq_broker: EmbeddedBroker) -> None:
    with (
        flintmq_broker.producer("shop", retries=0) as producer,
        pytest.raises(FlintError, match="username cannot be null"),
    ):
        producer.send(Message("orders", b"o-1"))


def test_an_admin_is_a_super_user_unless_another_is_given(flintmq_broker: EmbeddedBroker) -> None:
    with flintmq_broker.admin() as admin:
        assert {user.name for user in admin.users()} == {"alice", "root"}
    with flintmq_broker.admin(**flintmq_broker.account("root")) as admin:
        assert {user.name for user in admin.users()} == {"alice", "root"}
    with (
        flintmq_broker.admin(**flintmq_broker.account("alice")) as admin,
        pytest.raises(BrokerRefused),
    ):
        admin.users()


def test_an_unknown_user_is_named_with_those_that_are_there(
    flintmq_broker: EmbeddedBroker,
) -> None:
    with pytest.raises(InvalidSetting, match="there are alice, root"):
        flintmq_broker.account("bob")


@pytest.mark.parametrize(
    ("allow", "said"),
    [({"orders": "Pub"}, "resource"), ({"Topic:orders": "Publish"}, "'Publish' is no action")],
)
def test_a_right_that_is_none_stops_the_start(allow: dict[str, str], said: str) -> None:
    broker = EmbeddedBroker(accounts=[EmbeddedUser("alice", allow=allow)])

    with pytest.raises(InvalidSetting, match=said):
        broker.start()


def test_a_password_is_not_shown() -> None:
    assert "rootpw12" not in repr(USERS)
