"""Clients come with settings, are known to brokers while they live, and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from flintmq.protocol.bodies.client_call import DirectResult
from flintmq.proxy.wire.grpc_codes import ClientType, Code
from support.proxy.grpc_client import (
    GrpcClient,
    consumer_settings,
    new,
    producer_settings,
)


def members_of(broker: EmbeddedBroker, group: str) -> int:
    with broker.admin() as admin:
        found = admin.members(group)
    return 0 if found is None else len(found.members)


def clients_of(broker: EmbeddedBroker) -> int:
    def count(servers: Servers) -> int:
        assert servers.grpc is not None
        return len(servers.grpc.proxy.clients)

    return broker.call(count)


def test_a_producer_is_told_what_to_go_by(client: GrpcClient, topic: Callable[..., str]) -> None:
    name = topic()
    stream = client.telemetry()
    stream.tell(producer_settings(name))

    answer = stream.hear()

    assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
    settings = answer.settings
    assert [each.name for each in settings.publishing.topics] == [name]
    assert settings.publishing.max_body_size == 4 * 1024 * 1024
    assert settings.publishing.validate_message_type
    assert settings.backoff_policy.max_attempts == 3
    backoff = settings.backoff_policy.exponential_backoff
    assert (backoff.initial.ToMilliseconds(), backoff.max.ToMilliseconds()) == (10, 1_000)
    assert (backoff.multiplier, settings.metric.on) == (2.0, False)
    stream.close()


@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_consumer_is_told_the_settings_of_its_group(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str], is_ordered: bool
) -> None:
    name, members = topic(), group(retry_max=4, is_ordered=is_ordered)
    stream = client.telemetry()
    stream.tell(consumer_settings(members, name))

    settings = stream.hear().settings

    assert settings.subscription.fifo is is_ordered
    assert settings.subscription.receive_batch_size == 32
    assert settings.subscription.long_polling_timeout.ToMilliseconds() == 20_000
    assert settings.backoff_policy.max_attempts == 5
    steps = [each.ToMilliseconds() for each in settings.backoff_policy.customized_backoff.next]
    assert (len(steps), steps[0], steps[-1]) == (18, 1_000, 7_200_000)
    stream.close()


def test_brokers_know_a_group_while_it_has_a_client(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    stream = client.telemetry()
    stream.tell(consumer_settings(members, name))
    stream.hear()
    broker.wait_for(lambda: members_of(broker, members) == 1, 30)
    with broker.admin() as admin:
        found = admin.members(members)
    assert found is not None
    assert (name, "*") in {(wish.topic, wish.expression) for wish in found.wishes}

    status = client.call("NotifyClientTermination", new("NotifyClientTermination")).status

    assert status.code == Code.OK
    broker.wait_for(lambda: members_of(broker, members) == 0, 30)
    with pytest.raises(StopIteration):
        stream.hear()  # the stream ends well


def test_a_heartbeat_needs_settings(client: GrpcClient, topic: Callable[..., str]) -> None:
    for call in ("Heartbeat", "NotifyClientTermination"):
        status = client.call(call, new(call)).status
        assert status.code == Code.UNRECOGNIZED_CLIENT_TYPE
    stream = client.telemetry()
    stream.tell(producer_settings(topic()))
    stream.hear()

    assert client.call("Heartbeat", new("Heartbeat")).status.code == Code.OK
    stream.close()


def test_a_silent_client_is_forgotten(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    members = group()
    stream = client.telemetry()
    stream.tell(consumer_settings(members, topic()))
    stream.hear()
    stream.close()
    broker.wait_for(lambda: members_of(broker, members) == 1, 30)

    broker.advance(125)

    broker.wait_for(lambda: clients_of(broker) == 0, 30)
    broker.wait_for(lambda: members_of(broker, members) == 0, 30)


def test_a_client_that_comes_back_takes_over_its_stream(
    client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic()
    first, second = client.telemetry(), client.telemetry()
    first.tell(producer_settings(name))
    first.hear()
    second.tell(producer_settings(name))

    assert second.hear().status.code == Code.OK
    with pytest.raises(StopIteration):
        first.hear()
    second.close()


def test_settings_that_say_nothing_end_the_stream(client: GrpcClient) -> None:
    stream = client.telemetry()
    command = new("Telemetry")
    command.settings.client_type = ClientType.PRODUCER
    stream.tell(command)

    with pytest.raises(grpc.RpcError) as ended:
        stream.hear()

    assert ended.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert ended.value.details() == "there is no publishing or subscription data in settings"


@pytest.mark.parametrize(
    ("group", "topic", "kind", "code", "text"),
    [
        ("a b", "t", 2, grpc.StatusCode.INVALID_ARGUMENT, "contains illegal characters"),
        ("g", "", 2, grpc.StatusCode.INVALID_ARGUMENT, "The specified topic is blank"),
        ("g", "t", 4, grpc.StatusCode.INTERNAL, "Client type is not consumer, type: PULL_CONSUMER"),
        ("g", "t", 99, grpc.StatusCode.INTERNAL, "Client type is not consumer"),
    ],
)
def test_settings_nobody_can_use_end_the_stream(
    client: GrpcClient, group: str, topic: str, kind: int, code: grpc.StatusCode, text: str
) -> None:
    stream = client.telemetry()
    stream.tell(consumer_settings(group, topic, kind=kind))

    with pytest.raises(grpc.RpcError) as ended:
        stream.hear()

    assert ended.value.code() is code
    assert text in ended.value.details()


def test_a_group_may_subscribe_to_a_topic_that_is_not_there_yet(
    client: GrpcClient, group: Callable[..., str]
) -> None:
    stream = client.telemetry()
    stream.tell(consumer_settings(group(), "later"))

    assert stream.hear().settings.backoff_policy.max_attempts == 17
    stream.close()


def test_a_call_without_a_client_id_is_refused(broker: EmbeddedBroker) -> None:
    with GrpcClient(broker.grpc, " ") as nobody:
        status = nobody.call("Heartbeat", new("Heartbeat")).status
        assert (status.code, status.message) == (
            Code.CLIENT_ID_REQUIRED,
            "client id cannot be empty",
        )
        stream = nobody.telemetry()
        assert stream.hear().status.code == Code.CLIENT_ID_REQUIRED
        with pytest.raises(StopIteration):
            stream.hear()


def test_a_message_can_be_given_to_a_client_for_a_test(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    """CONSUME_MESSAGE_DIRECTLY (309), as consoles do it."""
    name, members = topic(), group()
    client.send(name, b"try me")
    stream = client.telemetry()
    stream.tell(consumer_settings(members, name))
    stream.hear()
    broker.wait_for(lambda: members_of(broker, members) == 1, 30)
    [stored] = broker.messages(name)

    def verify(servers: Servers) -> asyncio.Future[DirectResult]:
        assert servers.grpc is not None
        return asyncio.ensure_future(servers.grpc.proxy._telemetry.verify(members, stored))

    result = broker.call(verify)
    command = stream.hear()
    assert command.verify_message_command.message.body == b"try me"
    answer = new("Telemetry")
    answer.status.code = Code.FAILED_TO_CONSUME_MESSAGE
    answer.verify_message_result.nonce = command.verify_message_command.nonce
    stream.tell(answer)

    broker.wait_for(result.done, 30)
    assert result.result().consume_result == "CR_LATER"
    stream.close()
