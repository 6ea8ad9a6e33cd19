"""Calls are served for who signed them, by what they may do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.embedded_users import EmbeddedUser
from flintmq.proxy.caller_rights import NEEDS, is_signature
from flintmq.proxy.grpc_handlers import UNARY
from flintmq.proxy.wire.grpc_codes import Code
from support.proxy.grpc_client import (
    GrpcClient,
    consumer_settings,
    message,
    new,
    producer_settings,
    signed,
)

ALICE, BOB = ("alice", "alice-secret"), ("bob", "bob-secret")


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    users = [
        EmbeddedUser(*ALICE, allow={"Topic:orders": "Pub"}),
        EmbeddedUser(*BOB, allow={"Topic:orders": "Sub", "Group:billing": "Sub"}),
    ]
    with EmbeddedBroker(grpc=True, accounts=users) as broker:
        with broker.admin() as admin:
            admin.create_topic("orders", queues=1)
            admin.create_topic("secrets", queues=1)
            admin.create_group("billing")
        yield broker


def route(topic: str = "orders") -> Any:
    request = new("QueryRoute")
    request.topic.name = topic
    return request


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ([], "username cannot be null."),
        (signed("nobody", "x"), "User:nobody is not found."),
        (signed("alice", "wrong"), "check signature failed."),
        (signed(*ALICE)[1:], "datetime is null."),
        (
            [("authorization", "Basic x"), *signed(*ALICE)[:1]],
            "authentication header is incorrect.",
        ),
    ],
)
def test_a_call_needs_a_good_signature(
    guarded: EmbeddedBroker, metadata: list[tuple[str, str]], text: str
) -> None:
    with GrpcClient(guarded.grpc) as client:
        client.metadata += metadata
        status = client.call("QueryRoute", route()).status
        stream = client.telemetry()
        assert stream.hear().status.code == Code.UNAUTHORIZED

    assert (status.code, status.message) == (Code.UNAUTHORIZED, text)


def test_users_do_what_they_may(guarded: EmbeddedBroker) -> None:
    with (
        GrpcClient(guarded.grpc, "a", account=ALICE) as alice,
        GrpcClient(guarded.grpc, "b", account=BOB) as bob,
    ):
        assert alice.call("QueryRoute", route()).status.code == Code.OK
        assert alice.send("orders").status.code == Code.OK
        [got] = bob.receive_all("orders", "billing", 1)
        assert bob.ack("orders", "billing", [got]).status.code == Code.OK

        assert bob.send("orders").status.code == Code.UNAUTHORIZED
        assert alice.send("secrets").status.code == Code.UNAUTHORIZED
        assert alice.call("QueryRoute", route("secrets")).status.code == Code.UNAUTHORIZED
        status, found = alice.receive("orders", "billing")
        assert (status.code, found) == (Code.UNAUTHORIZED, [])
        assert "alice has no permission" in status.message
        assert bob.receive("orders", "other")[0].code == Code.UNAUTHORIZED
        assert alice.ack("orders", "billing", [got]).status.code == Code.UNAUTHORIZED
    [stored] = guarded.messages("orders")
    assert stored.body == b"body"


def test_one_message_that_is_not_allowed_stops_them_all(guarded: EmbeddedBroker) -> None:
    request = message("orders")
    request.messages.add(body=b"x").topic.name = "secrets"
    with GrpcClient(guarded.grpc, account=ALICE) as alice:
        assert alice.call("SendMessage", request).status.code == Code.UNAUTHORIZED
    assert guarded.messages("secrets") == []


def test_settings_need_rights_too(guarded: EmbeddedBroker) -> None:
    with GrpcClient(guarded.grpc, "s-a", account=ALICE) as alice:
        for settings in (producer_settings("secrets"), consumer_settings("billing", "orders")):
            stream = alice.telemetry()
            stream.tell(settings)
            assert stream.hear().status.code == Code.UNAUTHORIZED
        stream = alice.telemetry()
        stream.tell(producer_settings("orders"))
        assert stream.hear().status.code == Code.OK
        stream.close()


def test_a_client_id_belongs_to_who_had_it_first(guarded: EmbeddedBroker) -> None:
    with (
        GrpcClient(guarded.grpc, "mine", account=ALICE) as alice,
        GrpcClient(guarded.grpc, "mine", account=BOB) as bob,
    ):
        stream = alice.telemetry()
        stream.tell(producer_settings("orders"))
        assert stream.hear().status.code == Code.OK

        for call in ("Heartbeat", "NotifyClientTermination"):
            assert bob.call(call, new(call)).status.code == Code.UNAUTHORIZED
        other = bob.telemetry()
        other.tell(consumer_settings("billing", "orders"))
        assert other.hear().status.code == Code.UNAUTHORIZED

        assert alice.call("Heartbeat", new("Heartbeat")).status.code == Code.OK
        stream.close()


def test_every_call_has_its_needs() -> None:
    assert set(NEEDS) == {*UNARY, "ReceiveMessage", "Telemetry"}


def test_signatures_are_hmac_sha1_in_either_case() -> None:
    """As the official clients make them."""
    metadata = dict(signed("a", "secret", "20240102T030405Z"))
    made = metadata["authorization"].rpartition("=")[2]

    assert is_signature("secret", "20240102T030405Z", made)
    assert is_signature("secret", "20240102T030405Z", made.lower())
    assert not is_signature("secret", "20240102T030406Z", made)
