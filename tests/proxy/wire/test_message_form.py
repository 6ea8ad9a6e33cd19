"""Stored messages as gRPC clients get them, whoever sent them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.host import Host
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.proxy.wire.grpc_codes import BodyEncoding, MessageType
from flintmq.proxy.wire.message_form import form_of
from support.proxy.grpc_client import GrpcClient


def test_a_packed_body_is_delivered_plain(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    """Older producers pack with zlib, which gRPC clients do not look for."""
    name = topic()
    with broker.producer("old") as producer:
        producer.send(Message(name, b"packed " * 2_000, tags="a"))

    [got] = client.receive_all(name, group(), 1)

    assert got.body == b"packed " * 2_000
    assert got.system_properties.body_encoding == BodyEncoding.IDENTITY


def stored(**properties: str) -> ReceivedMessage:
    host = Host.parse("10.0.0.1:10911")
    return ReceivedMessage(
        topic="t",
        broker="b",
        queue_id=3,
        queue_offset=QueueOffset(7),
        log_offset=LogOffset(99),
        body=b"x",
        properties=properties,
        flag=0,
        sys_flag=0,
        born_ms=1_000,
        born_host=host,
        store_ms=2_000,
        store_host=host,
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        stored_bytes=100,
    )


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "g"}, MessageType.FIFO),
        ({"DELAY": "3", "__SHARDINGKEY": "g"}, MessageType.DELAY),
        ({"TIMER_DELIVER_MS": "5000"}, MessageType.DELAY),
        ({"TRAN_MSG": "true", "DELAY": "3"}, MessageType.TRANSACTION),
        ({"TRAN_MSG": "false"}, MessageType.NORMAL),
    ],
)
def test_the_type_is_told_by_the_properties(properties: dict[str, str], kind: MessageType) -> None:
    assert form_of(stored(**properties), "t", now_ms=0).system_properties.message_type == kind


def test_times_hosts_and_origins_are_told() -> None:
    formed = form_of(
        stored(
            TIMER_DELAY_SEC="5",
            DLQ_ORIGIN_TOPIC="orders",
            DLQ_ORIGIN_MESSAGE_ID="id",
            __BORNHOST="10.0.0.2:5",
        ),
        "t",
        now_ms=10_000,
        handle="h",
        attempt=3,
    ).system_properties

    assert formed.born_host == "10.0.0.2:5"
    assert formed.store_host == "10.0.0.1:10911"
    assert formed.store_timestamp.ToMilliseconds() == 2_000
    assert formed.delivery_timestamp.ToMilliseconds() == 15_000
    assert (formed.dead_letter_queue.topic, formed.dead_letter_queue.message_id) == (
        "orders",
        "id",
    )
    assert (formed.receipt_handle, formed.delivery_attempt, formed.queue_offset) == ("h", 3, 7)
    assert len(formed.message_id) == 32, "without an id of its own, where it is stored"


@pytest.mark.parametrize("number", ["", "-1", "x", "9" * 40])
def test_times_nobody_can_read_are_left_out(number: str) -> None:
    formed = form_of(stored(TIMER_DELIVER_MS=number, TIMER_DELAY_SEC=number), "t", now_ms=0)

    assert not formed.system_properties.HasField("delivery_timestamp")
