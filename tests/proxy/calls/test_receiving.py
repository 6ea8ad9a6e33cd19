"""Messages reach gRPC clients, hidden from others until they are settled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.protocol.pop.receipts import ReceiptHandle
from flintmq.proxy.calls.receiving import hold_time
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import BodyEncoding, Code, MessageType
from flintmq.proxy.wire.statuses import StatusRefusal
from support.proxy.grpc_client import GrpcClient, message, new, receive_request


def test_a_message_comes_with_all_it_was_sent_with(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name = topic()
    sent = message(name, b"hello", tag="paid", keys=["o-1", "o-2"], trace_context="t")
    sent.messages[0].user_properties["color"] = "blue"
    client.call("SendMessage", sent)

    [got] = client.receive_all(name, group(), 1)

    system = got.system_properties
    assert (got.topic.name, got.body, dict(got.user_properties)) == (
        name,
        b"hello",
        {"color": "blue", "TRACE_CONTEXT": "t"},
    )
    assert system.message_id == sent.messages[0].system_properties.message_id
    assert (system.tag, list(system.keys), system.trace_context) == ("paid", ["o-1", "o-2"], "t")
    assert (system.message_type, system.body_encoding) == (
        MessageType.NORMAL,
        BodyEncoding.IDENTITY,
    )
    assert system.body_digest.checksum == hashlib.md5(b"hello").hexdigest().upper()
    assert (system.delivery_attempt, system.queue_id, system.queue_offset) == (1, 0, 0)
    assert len(system.receipt_handle.split(" ")) == 9
    assert not system.HasField("message_group")


def test_what_is_popped_is_hidden_until_its_time_is_over(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name)
    [first] = client.receive_all(name, members, 1, invisible_s=30)

    client.nothing_comes(name, members)
    broker.advance(31)
    [again] = client.receive_all(name, members, 1)

    assert again.system_properties.message_id == first.system_properties.message_id
    assert again.system_properties.delivery_attempt == 2


def test_what_is_acknowledged_does_not_come_back(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    for _ in range(3):
        client.send(name)
    found = client.receive_all(name, members, 3, invisible_s=30)

    answer = client.ack(name, members, found)

    assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
    assert [each.status.code for each in answer.entries] == [Code.OK] * 3
    broker.advance(120)
    client.nothing_comes(name, members)


def test_only_the_tags_of_a_filter_come(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    """Aa and BB have one hash: the broker lets both pass."""
    name, members = topic(), group()
    for tag in ("Aa", "BB", "c"):
        client.send(name, tag=tag)

    found = client.receive_all(name, members, 2, tags="BB || c")

    assert sorted(each.system_properties.tag for each in found) == ["BB", "c"]


def test_sql_filters(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    for number in range(4):
        request = message(name, b"%d" % number)
        request.messages[0].user_properties["number"] = str(number)
        client.call("SendMessage", request)

    found = client.receive_all(name, members, 2, sql="number > 1")

    assert sorted(each.body for each in found) == [b"2", b"3"]


@pytest.mark.parametrize("filter_type", [1, 2])
def test_a_filter_nobody_can_read_is_refused(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str], filter_type: int
) -> None:
    request = receive_request(topic(), group())
    request.filter_expression.type = filter_type
    request.filter_expression.expression = "||" if filter_type == 1 else " "

    first, last = list(client.stream(request))

    assert first.status.code == Code.ILLEGAL_FILTER_EXPRESSION
    assert last.HasField("delivery_timestamp")


def test_sql_that_a_broker_cannot_parse_is_an_error(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    status, found = client.receive(topic(), group(), sql="number >")

    assert status.code == Code.INTERNAL_SERVER_ERROR
    assert "parse the consumer's subscription failed" in status.message
    assert found == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (9, "the invisibleTime is too small. min is 10000"),
        (50_000, "the invisibleTime is too large"),
    ],
)
def test_times_of_hiding_have_bounds(
    client: GrpcClient,
    topic: Callable[..., str],
    group: Callable[..., str],
    seconds: int,
    text: str,
) -> None:
    status, _ = client.receive(topic(), group(), invisible_s=seconds)

    assert status.code == Code.ILLEGAL_INVISIBLE_TIME
    assert status.message.startswith(text)


def test_a_topic_that_is_not_there_is_an_error(
    client: GrpcClient, group: Callable[..., str]
) -> None:
    assert client.receive("nowhere", group())[0].code == Code.TOPIC_NOT_FOUND
    assert client.receive("nowhere", "no group!")[0].code == Code.ILLEGAL_CONSUMER_GROUP
    assert client.receive("nowhere", "CID_RMQ_SYS_X")[0].code == Code.ILLEGAL_CONSUMER_GROUP


def test_a_receive_that_waits_gets_what_comes(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    waiting = client.stream(receive_request(name, members))
    client.send(name, b"late")

    answers = list(waiting)
    if answers[0].status.code == Code.MESSAGE_NOT_FOUND:  # five seconds passed before the send
        answers = list(client.stream(receive_request(name, members)))

    assert [each.message.body for each in answers[1:-1]] == [b"late"]


def test_what_comes_for_a_client_that_left_is_shown_to_others(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    left = client.stream(receive_request(name, members, invisible_s=3_600))
    left.cancel()
    client.send(name, b"mine")

    def comes() -> bool:
        broker.advance(2)  # past what is shown again after a second
        return bool(client.receive(name, members)[1])

    broker.wait_for(comes, 60)


def test_messages_of_a_group_come_in_order_one_batch_at_a_time(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic("FIFO"), group(is_ordered=True)
    for number in range(4):
        client.send(name, b"%d" % number, message_group="g")

    _, first = client.receive(name, members, count=2)
    assert [each.body for each in first] == [b"0", b"1"]
    assert first[0].system_properties.message_group == "g"
    assert first[0].system_properties.message_type == MessageType.FIFO
    assert ReceiptHandle.parse(first[0].system_properties.receipt_handle).is_ordered
    status, others = client.receive(name, members)
    assert others == [], "the queue is held back"
    assert (status.code, status.message) == (Code.MESSAGE_NOT_FOUND, "no new message")
    client.ack(name, members, first)
    assert [each.body for each in client.receive(name, members)[1]] == [b"2", b"3"]


def test_an_ordered_receive_that_is_repeated_gets_the_same_messages(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic("FIFO"), group(is_ordered=True)
    for number in range(2):
        client.send(name, b"%d" % number, message_group="g")

    _, first = client.receive(name, members, attempt_id="try-1")
    _, again = client.receive(name, members, attempt_id="try-1")

    assert [each.body for each in first] == [each.body for each in again] == [b"0", b"1"]


def test_an_ordered_message_that_failed_tells_how_often(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic("FIFO"), group(is_ordered=True)
    client.send(name, message_group="g")
    client.receive_all(name, members, 1, invisible_s=10)
    broker.advance(11)

    [again] = client.receive_all(name, members, 1)

    assert again.system_properties.delivery_attempt == 2


def test_a_message_that_was_delivered_often_enough_is_a_dead_letter(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group(retry_max=1)
    client.send(name, b"poison")
    attempts = []
    for _ in range(2):
        [got] = client.receive_all(name, members, 1, invisible_s=10)
        attempts.append(got.system_properties.delivery_attempt)
        broker.advance(11)

    def buried() -> bool:
        client.nothing_comes(name, members)
        return bool(broker.messages(f"%DLQ%{members}"))

    broker.wait_for(buried, 60)
    assert attempts == [1, 2]
    [letter] = broker.messages(f"%DLQ%{members}")
    assert letter.body == b"poison"
    broker.advance(120)
    client.nothing_comes(name, members)


def test_dead_letters_are_read_as_any_topic(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    name, members = topic(), group()
    client.send(name, b"poison")
    [got] = client.receive_all(name, members, 1)
    request = new("ForwardMessageToDeadLetterQueue")
    request.topic.name, request.group.name = name, members
    request.receipt_handle = got.system_properties.receipt_handle
    request.message_id = got.system_properties.message_id

    status = client.call("ForwardMessageToDeadLetterQueue", request).status

    assert (status.code, status.message) == (Code.OK, "0")
    [letter] = client.receive_all(f"%DLQ%{members}", group(), 1)
    assert letter.body == b"poison"


def _caller(deadline_ms: int | None, version: str = "5.2.0") -> Caller:
    return Caller("c", "127.0.0.1:1", deadline_ms, {"x-mq-client-version": version})


@pytest.mark.parametrize(
    ("polling_s", "deadline_ms", "hold_ms"),
    [
        (None, None, 20_000),
        (None, 18_000, 17_000),
        (1, None, 5_000),
        (30, None, 20_000),
        (15, 18_000, 15_000),
        (15, 8_000, 8_000),
    ],
)
def test_how_long_a_receive_waits(
    polling_s: int | None, deadline_ms: int | None, hold_ms: int
) -> None:
    request: Any = new("ReceiveMessage")
    if polling_s is not None:
        request.long_polling_timeout.FromSeconds(polling_s)

    assert hold_time(request, _caller(deadline_ms)) == hold_ms


@pytest.mark.parametrize(
    ("version", "code"), [("5.2.0", Code.ILLEGAL_POLLING_TIME), ("5.0.2", Code.BAD_REQUEST)]
)
def test_a_deadline_too_near_is_refused(version: str, code: Code) -> None:
    with pytest.raises(StatusRefusal) as refused:
        hold_time(new("ReceiveMessage"), _caller(4_000, version))

    assert refused.value.code is code
