"""Requests of pop consumption are RocketMQ's, and answers give each message its receipt."""

from __future__ import annotations

import pytest

from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pop.pop_request import (
    Pop,
    ack_request,
    batch_ack_request,
    hide_request,
    is_without_pop,
    pop_request,
    read_hidden,
    read_popped,
)
from flintmq.errors import BrokerRefused
from flintmq.model.queue import PopSource
from flintmq.protocol.bodies.pop import BatchAcks
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    InvisibleTimeAnswer,
    PopAnswer,
    PopMessage,
)
from flintmq.protocol.pop.receipts import ReceiptHandle
from flintmq.protocol.version import version_number
from support.core.peers import record

POP = Pop(PopSource("orders", "broker-a"), TopicSubscription("orders"), 32, 60_000, 15_000, 0)
HANDLE = ReceiptHandle(4, 1_000, 60_000, 3, "0", "broker-a", 1, 6)
RETRIED = ReceiptHandle(0, 2_000, 60_000, 3, "1", "broker-a", 0, 2)


def reply(code: int, header: Header | None = None, body: bytes = b"") -> Command:
    return answer(request(RequestCode.POP_MESSAGE), code, header, body)


def popped_reply(body: bytes, starts: str, offsets: str) -> Command:
    header = PopAnswer(
        pop_time=1_000,
        invisible_time=60_000,
        revive_qid=3,
        rest_num=0,
        start_offset_info=starts,
        msg_offset_info=offsets,
    )
    return reply(ResponseCode.SUCCESS, header, body)


def test_a_pop_is_that_of_the_java_client_without_our_clock() -> None:
    asked = pop_request(POP, "billing")

    assert asked.code == 200050
    assert asked.header(PopMessage) == PopMessage(
        consumer_group="billing",
        topic="orders",
        queue_id=-1,
        max_msg_nums=32,
        invisible_time=60_000,
        poll_time=15_000,
        born_time=0,
        init_mode=0,
        exp_type="TAG",
        exp="*",
        order=False,
        broker_name="broker-a",
    )


def test_each_message_of_an_answer_has_its_receipt() -> None:
    body = record(4) + record(6)

    found = read_popped(popped_reply(body, "0 0 4", "0 0 4,6"), POP, "a")

    assert [message.receipt for message in found.messages] == [
        "4 1000 60000 3 0 broker-a 0 4",
        "4 1000 60000 3 0 broker-a 0 6",
    ]
    assert {message.properties["1ST_POP_TIME"] for message in found.messages} == {"1000"}


def test_a_record_that_cannot_be_decoded_leaves_the_others_their_receipts() -> None:
    torn = bytearray(record(4))
    torn[8] ^= 1  # its checksum
    body = bytes(torn) + record(5)

    found = read_popped(popped_reply(body, "0 0 4", "0 0 4,5"), POP, "a")

    assert [message.receipt for message in found.messages] == ["4 1000 60000 3 0 broker-a 0 5"]
    ((bad, handle),) = found.bad
    assert bad.queue_offset == 4
    assert handle is not None
    assert handle.text == "4 1000 60000 3 0 broker-a 0 4"


@pytest.mark.parametrize("code", [209, 210, 19])
def test_nothing_is_no_error(code: int) -> None:
    found = read_popped(reply(code), POP, "a")

    assert (found.messages, found.is_full) == ([], code == 209)


def test_a_broker_without_pop_consumption_is_told_by_its_version() -> None:
    old = reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    old = Command(old.code, 0, old.flag, version_number("V4_9_7"), old.language, "no", old.fields)

    with pytest.raises(BrokerRefused, match=r"version V4_9_7, .* needs RocketMQ 5\.0") as refused:
        read_popped(old, POP, "a")

    assert is_without_pop(refused.value)


def test_other_refusals_are_raised_as_they_are() -> None:
    with pytest.raises(BrokerRefused) as refused:
        read_popped(reply(ResponseCode.NO_PERMISSION), POP, "a")

    assert not is_without_pop(refused.value)


def test_acknowledgements_name_the_topic_that_the_message_lies_in() -> None:
    plain = ack_request("billing", "orders", HANDLE).header(AckMessage)
    retried = ack_request("billing", "orders", RETRIED).header(AckMessage)

    assert (plain.topic, plain.queue_id, plain.offset) == ("orders", 1, 6)
    assert (retried.topic, retried.queue_id, retried.offset) == ("%RETRY%billing_orders", 0, 2)
    assert plain.extra_info == "4 1000 60000 3 0 broker-a 1 6"


def test_many_acknowledgements_are_one_entry_for_each_pop_of_a_queue() -> None:
    other = HANDLE._replace(queue_offset=4)

    asked = batch_ack_request(
        "billing", "broker-a", [("orders", HANDLE), ("orders", other), ("orders", RETRIED)]
    )

    body = BatchAcks.from_body(asked.body)
    assert (asked.code, body.broker_name) == (200151, "broker-a")
    assert [(a.topic, a.retry, a.queue_id, list(a.queue_offsets())) for a in body.acks] == [
        ("orders", "0", 1, [4, 6]),
        ("orders", "1", 0, [2]),
    ]
    assert [(a.start_offset, a.pop_time_ms, a.revive_queue_id) for a in body.acks] == [
        (4, 1_000, 3),
        (0, 2_000, 3),
    ]


def test_a_message_that_is_hidden_anew_has_a_handle_of_its_own() -> None:
    asked = hide_request("billing", "orders", HANDLE, 9_000).header(ChangeInvisibleTime)
    told = InvisibleTimeAnswer(pop_time=5_000, invisible_time=9_000, revive_qid=3)

    newer = read_hidden(reply(ResponseCode.SUCCESS, told), HANDLE, "a")

    assert (asked.invisible_time, asked.extra_info) == (9_000, HANDLE.text)
    assert newer.text == "6 5000 9000 3 0 broker-a 1 6"
