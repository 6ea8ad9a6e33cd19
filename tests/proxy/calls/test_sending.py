"""Messages that gRPC clients send are stored as RocketMQ's proxy stores them."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.java_hash import java_hash
from flintmq.proxy.calls.sending import broker_of_handle, consistent_hash
from flintmq.proxy.wire.grpc_codes import BodyEncoding, Code
from support.proxy.grpc_client import GrpcClient, add_message, message, new


def test_a_message_is_stored_with_its_properties(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic()
    request = message(name, b"hello", tag="paid", keys=["o-1", "o-2"], trace_context="t")
    request.messages[0].user_properties["color"] = "blue"
    request.messages[0].system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    message_id = request.messages[0].system_properties.message_id

    answer = client.call("SendMessage", request)

    assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
    [entry] = answer.entries
    assert (entry.message_id, entry.transaction_id, entry.offset) == (message_id, message_id, 0)
    [stored] = broker.messages(name)
    assert (stored.body, stored.message_id, stored.born_ms) == (
        b"hello",
        message_id,
        1_700_000_000_123,
    )
    properties = dict(stored.properties)
    assert properties.pop("__BORNHOST").startswith("127.0.0.1:")
    assert (
        properties.items()
        >= {
            "TAGS": "paid",
            "KEYS": "o-1 o-2",
            "color": "blue",
            "PGROUP": name,
            "RECONSUME_TIME": "0",
            "BORN_TIMESTAMP": "1700000000123",
            "TRACE_CONTEXT": "t",
        }.items()
    )


def test_messages_without_a_group_take_turns(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic(queues=2)
    for _ in range(6):
        client.send(name)

    assert sorted(each.queue_id for each in broker.messages(name)) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("count", "places"),
    [(2, {"a": 0, "b": 0, "c": 0, "d": 1}), (4, {"a": 0, "b": 0, "d": 1, "c": 2})],
)
def test_a_message_group_goes_where_rocketmq_would_put_it(
    count: int, places: dict[str, int]
) -> None:
    """Queues that a running RocketMQ 5.3.3 chose."""
    assert {each: consistent_hash(java_hash(each), count) for each in places} == places


def test_messages_of_one_group_share_a_queue(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("FIFO", queues=4)
    for number in range(5):
        client.send(name, b"%d" % number, message_group="c")

    stored = broker.messages(name)
    assert [each.body for each in stored] == [b"0", b"1", b"2", b"3", b"4"]
    assert {each.queue_id for each in stored} == {2}
    assert {each.properties["__SHARDINGKEY"] for each in stored} == {"c"}


def test_a_delayed_message_is_delivered_at_its_time(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("DELAY")
    at_ms = broker.call(lambda servers: servers.clock()) + 60_000
    answer = client.send(name, delivery_timestamp=at_ms)

    assert answer.status.code == Code.OK
    assert broker.messages(name) == []
    broker.advance(62)
    broker.wait_for(lambda: broker.messages(name), 30)


def test_several_messages_are_stored_together(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic()
    request = new("SendMessage")
    for number in range(3):
        add_message(request, name, b"%d" % number, tag="t")

    answer = client.call("SendMessage", request)

    assert answer.status.code == Code.OK
    assert len(answer.entries) == 1
    assert [(each.body, each.tags) for each in broker.messages(name)] == [
        (b"0", "t"),
        (b"1", "t"),
        (b"2", "t"),
    ]


def test_a_packed_body_is_stored_plain(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic()
    packed = gzip.compress(b"x" * 10_000)

    assert client.send(name, packed, body_encoding=BodyEncoding.GZIP).status.code == Code.OK
    assert broker.messages(name)[0].body == b"x" * 10_000

    status = client.send(name, b"no gzip", body_encoding=BodyEncoding.GZIP).status
    assert status.code == Code.MESSAGE_CORRUPTED
    bomb = gzip.compress(bytes(5 * 1024 * 1024))
    status = client.send(name, bomb, body_encoding=BodyEncoding.GZIP).status
    assert status.code == Code.MESSAGE_BODY_TOO_LARGE


def test_a_body_of_four_mebibytes_less_its_record_is_stored(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic()
    body = bytes(4 * 1024 * 1024 - 4096)

    assert client.send(name, body).status.code == Code.OK
    assert len(broker.messages(name)[0].body) == len(body)


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ({"tag": " "}, Code.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\x01"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"keys": [" "]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"keys": ["a\x02"]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"keys": ["k" * 20_000]}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
        ({"message_id": "a\x01b"}, Code.ILLEGAL_MESSAGE_ID),
        ({"message_group": " "}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "g" * 64}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"trace_context": "a\x02TAGS\x01b"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"born_host": "h\x02"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"orphaned_transaction_recovery_duration": 3_700_000}, Code.BAD_REQUEST),
        ({"delivery_timestamp": 9_000_000_000_000}, Code.ILLEGAL_DELIVERY_TIME),
        ({"message_group": "g"}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ({"message_type": 4}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
    ],
)
def test_what_no_message_has_is_refused(
    client: GrpcClient, topic: Callable[..., str], system: dict[str, Any], code: Code
) -> None:
    answer = client.send(topic(), **system)

    assert answer.status.code == code, answer
    assert not answer.entries


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("TAGS", "x", Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a\x01", "x", Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a", "x\x02TAGS\x01y", Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a", "x" * 17_000, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ],
)
def test_properties_that_are_not_for_users_are_refused(
    client: GrpcClient, topic: Callable[..., str], name: str, value: str, code: Code
) -> None:
    request = message(topic())
    request.messages[0].user_properties[name] = value

    assert client.call("SendMessage", request).status.code == code


def test_requests_that_are_no_message_are_refused(
    client: GrpcClient, topic: Callable[..., str]
) -> None:
    assert client.call("SendMessage", new("SendMessage")).status.code == Code.MESSAGE_CORRUPTED
    two = message(topic())
    add_message(two, topic())
    assert client.call("SendMessage", two).status.code == Code.MESSAGE_CORRUPTED
    assert client.send(topic(), b"").status.code == Code.MESSAGE_BODY_EMPTY
    large = bytes(4 * 1024 * 1024 + 1)
    assert client.send(topic(), large).status.code == Code.MESSAGE_BODY_TOO_LARGE
    many = message(topic())
    many.messages[0].user_properties.update({f"p{number}": "x" for number in range(129)})
    assert client.call("SendMessage", many).status.code == Code.MESSAGE_PROPERTIES_TOO_LARGE
    assert client.send("nowhere").status.code == Code.TOPIC_NOT_FOUND


def test_a_mixed_topic_takes_every_type(client: GrpcClient, topic: Callable[..., str]) -> None:
    name = topic("MIXED")

    for system in ({}, {"message_group": "g"}, {"delivery_timestamp": int(time.time() * 1000)}):
        assert client.send(name, **system).status.code == Code.OK


def test_a_send_waits_for_a_broker_that_is_restarted(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic()
    client.send(name)
    broker.stop_broker("broker-a")
    broker.start_broker("broker-a")

    assert client.send(name).status.code == Code.OK


def recall(client: GrpcClient, topic: str, handle: str) -> Any:
    request = new("RecallMessage")
    request.topic.name, request.recall_handle = topic, handle
    return client.call("RecallMessage", request)


def test_a_delayed_message_is_recalled_where_the_broker_allows_it(
    client: GrpcClient, topic: Callable[..., str]
) -> None:
    due_ms = int(time.time() * 1000) + 60_000
    with EmbeddedBroker(grpc=True, config=BrokerConfig(recalls=True)) as allowing:
        with allowing.admin() as admin:
            admin.create_topic("later", queues=1, attributes={"message.type": "DELAY"})
        with GrpcClient(allowing.grpc) as caller:
            sent = [
                caller.send("later", body, delivery_timestamp=due_ms).entries[0]
                for body in (b"recalled", b"kept")
            ]
            answer = recall(caller, "later", sent[0].recall_handle)
            assert (answer.status.code, answer.message_id) == (Code.OK, sent[0].message_id)
            allowing.advance(61)
            assert [each.body for each in allowing.messages("later")] == [b"kept"]
            late = recall(caller, "later", sent[1].recall_handle).status
            assert "timestamp invalid" in late.message

    name = topic("DELAY")
    entry = client.send(name, delivery_timestamp=due_ms).entries[0]
    refused = recall(client, name, entry.recall_handle).status
    assert refused.code == Code.INTERNAL_SERVER_ERROR
    assert "recall failed, operation is forbidden" in refused.message


def test_the_broker_of_a_recall_handle_is_found() -> None:
    """A handle that a running RocketMQ 5.3.3 gave."""
    handle = "djEgRFQgYnJva2VyLWEgMTc5NDk3NjUyNDAwMSAwMTAwMDAwMDAwMDAwMDAwMDAwMDAxQTFFQ0YwMUQ4NzA1"

    assert broker_of_handle(handle) == "broker-a"
    assert broker_of_handle("no handle!") == ""
    assert broker_of_handle("") == ""
