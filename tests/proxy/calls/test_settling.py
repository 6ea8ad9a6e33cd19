"""Acknowledging, hiding for longer and giving up what was received."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.proxy.wire.grpc_codes import Code
from support.proxy.grpc_client import GrpcClient, consumer_settings, new


def test_each_handle_has_a_status_of_its_own(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name)
    [got] = client.receive_all(name, members, 1)
    request = new("AckMessage")
    request.topic.name, request.group.name = name, members
    request.entries.add(message_id="1", receipt_handle=got.system_properties.receipt_handle)
    request.entries.add(message_id="2", receipt_handle="no handle")
    request.entries.add(message_id="3", receipt_handle="0 1 1 0 0 broker-a 0 0 0")

    answer = client.call("AckMessage", request)

    assert answer.status.code == Code.MULTIPLE_RESULTS
    assert [(each.message_id, each.status.code) for each in answer.entries] == [
        ("1", Code.OK),
        ("2", Code.INVALID_RECEIPT_HANDLE),
        ("3", Code.INVALID_RECEIPT_HANDLE),
    ]
    assert answer.entries[2].status.message.endswith("receipt handle is expired")


def test_nothing_to_acknowledge_is_an_error(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    status = client.ack(topic(), group(), []).status

    assert (status.code, status.message) == (
        Code.INTERNAL_SERVER_ERROR,
        "ack message result is empty",
    )


def test_acknowledging_twice_is_fine(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name)
    found = client.receive_all(name, members, 1)

    assert client.ack(name, members, found).status.code == Code.OK
    assert client.ack(name, members, found).status.code == Code.OK


def test_a_message_that_is_hidden_for_longer_has_a_new_handle(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    """The second of a batch: RocketMQ's own local mode gives it a handle that settles nothing."""
    name, members = topic(), group()
    for number in range(2):
        client.send(name, b"%d" % number)
    _, second = client.receive_all(name, members, 2, invisible_s=10)

    changed = client.hide(name, members, second.system_properties.receipt_handle, 100)

    assert changed.status.code == Code.OK
    assert changed.receipt_handle != second.system_properties.receipt_handle
    broker.advance(50)
    found = client.receive_all(name, members, 1, invisible_s=10)
    assert [each.body for each in found] == [b"0"], "the first one comes back, the second not"
    client.ack(name, members, found)
    second.system_properties.receipt_handle = changed.receipt_handle
    assert client.ack(name, members, [second]).status.code == Code.OK
    broker.advance(200)
    client.nothing_comes(name, members)


def test_a_message_can_be_shown_again_at_once(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name)
    [got] = client.receive_all(name, members, 1, invisible_s=3_600)

    assert (
        client.hide(name, members, got.system_properties.receipt_handle, 0).status.code == Code.OK
    )

    broker.advance(1)
    [again] = client.receive_all(name, members, 1)
    assert again.system_properties.delivery_attempt == 2


@pytest.mark.parametrize("seconds", [-1, 50_000])
def test_times_of_hiding_have_bounds(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str], seconds: int
) -> None:
    status = client.hide(topic(), group(), "0 1 1 0 0 broker-a 0 0 0", seconds).status

    assert status.code == Code.ILLEGAL_INVISIBLE_TIME


def test_a_handle_whose_time_is_over_is_refused(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name)
    [got] = client.receive_all(name, members, 1, invisible_s=10)
    broker.advance(11)

    answer = client.hide(name, members, got.system_properties.receipt_handle, 10)

    assert answer.status.code == Code.INVALID_RECEIPT_HANDLE


def test_only_handles_of_a_proxy_can_be_buried(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    request = new("ForwardMessageToDeadLetterQueue")
    request.topic.name, request.group.name = topic(), group()
    request.receipt_handle = "0 1 1 0 0 broker-a 0 0"

    status = client.call("ForwardMessageToDeadLetterQueue", request).status

    assert status.code == Code.INVALID_RECEIPT_HANDLE
    assert "commit log offset is empty" in status.message


def test_what_a_push_consumer_works_on_is_renewed_and_then_acknowledged(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name)
    [got] = client.receive_all(name, members, 1, auto_renew=True)
    for _ in range(5):  # just before it ends, it is renewed
        ends_ms = _renewed_to(broker)
        broker.advance((ends_ms - broker.call(lambda servers: servers.clock())) / 1000 - 8)
        broker.wait_for(partial(_is_renewed, broker, ends_ms), 30)
    client.nothing_comes(name, members)

    assert client.ack(name, members, [got]).status.code == Code.OK, "by the handle it was given"

    broker.advance(4_000)
    client.nothing_comes(name, members)


def test_what_a_client_worked_on_comes_back_when_it_leaves(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    stream = client.telemetry()
    stream.tell(consumer_settings(members, name))
    stream.hear()
    client.send(name)
    client.receive_all(name, members, 1, auto_renew=True)

    status = client.call("NotifyClientTermination", new("NotifyClientTermination")).status

    assert status.code == Code.OK
    broker.advance(2)
    [again] = client.receive_all(name, members, 1)
    assert again.system_properties.delivery_attempt == 2


def _is_renewed(broker: EmbeddedBroker, before_ms: int) -> bool:
    return _renewed_to(broker) > before_ms


def _renewed_to(broker: EmbeddedBroker) -> int:
    """When the last of the receipts that are kept ends."""

    def last(servers: object) -> int:
        kept = servers.grpc.proxy._renewing._kept._kept  # type: ignore[attr-defined]
        return max((each.handle.expires_ms for each in kept.values()), default=0)

    return broker.call(last)
