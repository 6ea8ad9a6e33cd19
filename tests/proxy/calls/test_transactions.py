"""Half messages over gRPC: committed, rolled back, and asked about when nobody ends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.proxy.tables import halves as halves_module
from flintmq.proxy.tables.halves import KEPT_MS, HalfPlace, Halves
from flintmq.proxy.wire.grpc_codes import Code, MessageType, Resolution
from support.proxy.grpc_client import GrpcClient, new, producer_settings


def half(client: GrpcClient, topic: str, body: bytes = b"half") -> str:
    answer = client.send(topic, body, message_type=MessageType.TRANSACTION)
    assert answer.status.code == Code.OK, answer
    transaction_id: str = answer.entries[0].transaction_id
    return transaction_id


def end(client: GrpcClient, topic: str, transaction_id: str, resolution: Resolution) -> Any:
    request = new("EndTransaction")
    request.topic.name, request.transaction_id = topic, transaction_id
    request.message_id, request.resolution = transaction_id, resolution
    return client.call("EndTransaction", request).status


def test_a_message_is_shown_when_its_transaction_is_committed(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("TRANSACTION")
    first, second = half(client, name, b"1"), half(client, name, b"2")
    assert broker.messages(name) == []

    assert end(client, name, first, Resolution.COMMIT).code == Code.OK
    assert end(client, name, second, Resolution.ROLLBACK).code == Code.OK

    assert [each.body for each in broker.messages(name)] == [b"1"]


def test_a_transaction_ends_once(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("TRANSACTION")
    transaction_id = half(client, name)
    end(client, name, transaction_id, Resolution.COMMIT)

    status = end(client, name, transaction_id, Resolution.COMMIT)

    assert status.code == Code.INTERNAL_SERVER_ERROR
    assert status.message.endswith("cannot found transaction data")
    assert len(broker.messages(name)) == 1


def test_an_end_without_a_resolution_leaves_it_open(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("TRANSACTION")
    transaction_id = half(client, name)

    open_ = Resolution.TRANSACTION_RESOLUTION_UNSPECIFIED
    assert end(client, name, transaction_id, open_).code == Code.OK
    assert broker.messages(name) == []
    assert end(client, name, transaction_id, Resolution.COMMIT).code == Code.OK
    assert len(broker.messages(name)) == 1


def test_a_transaction_needs_an_id(client: GrpcClient, topic: Callable[..., str]) -> None:
    status = end(client, topic("TRANSACTION"), " ", Resolution.COMMIT)

    assert status.code == Code.INVALID_TRANSACTION_ID


def test_a_client_is_asked_about_what_nobody_ended(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("TRANSACTION")
    stream = client.telemetry()
    stream.tell(producer_settings(name))
    stream.hear()
    transaction_id = half(client, name, b"forgotten")
    with broker.admin() as admin:
        broker.wait_for(lambda: admin.producers(name), 30)

    broker.advance(70)  # past the timeout of a transaction and the interval of checks
    command = stream.hear().recover_orphaned_transaction_command

    assert command.transaction_id == transaction_id
    assert command.message.body == b"forgotten"
    assert command.message.topic.name == name
    assert end(client, name, transaction_id, Resolution.COMMIT).code == Code.OK
    assert [each.body for each in broker.messages(name)] == [b"forgotten"]
    stream.close()


def test_places_are_forgotten_in_time_and_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0
    places = Halves(lambda: now_ms)
    place = HalfPlace("b", "127.0.0.1:1", 1, 2, "id", is_checked=False)
    places.add("t", "1", place)
    now_ms = KEPT_MS + 1
    places.sweep()
    assert places.take("t", "1") is None

    monkeypatch.setattr(halves_module, "HALVES_MAX", 2)
    for name in "abc":
        places.add("t", name, place)
    assert len(places) == 2
    assert places.take("t", "a") is None
    assert places.take("t", "c") == place
