"""Queues with their offsets are read as map and as list, as keys and as values."""

from __future__ import annotations

import pytest

from flintmq.errors import MalformedBody
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client_call import ConsumerStatusTable, ResetOffsets, RunningConsumer
from flintmq.protocol.bodies.common_bodies import ANY_QUEUE_ID
from flintmq.protocol.bodies.group import LockAnswer, LockRequest
from flintmq.protocol.bodies.offset import LocalOffsets
from flintmq.protocol.bodies.pop import POP_MODE, Assignments

ORDERS_0, ORDERS_1 = QueueRef("orders", "a", 0), QueueRef("orders", "a", 1)
KEY_0 = '{"brokerName":"a","queueId":0,"topic":"orders"}'


def test_a_reset_has_a_map_for_java_and_a_list_for_cpp() -> None:
    reset = ResetOffsets(offset_table={ORDERS_0: 5, ORDERS_1: 6})

    assert reset.to_body() == (
        b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"orders"}:5,'
        b'{"brokerName":"a","queueId":1,"topic":"orders"}:6}}'
    )
    assert reset.to_list_body() == (
        b'{"offsetTable":[{"brokerName":"a","offset":5,"queueId":0,"topic":"orders"},'
        b'{"brokerName":"a","offset":6,"queueId":1,"topic":"orders"}]}'
    )
    assert ResetOffsets.from_body(reset.to_body()) == reset
    assert ResetOffsets.from_body(reset.to_list_body()) == reset


def test_a_queue_may_also_be_a_key_in_quotes() -> None:
    """Fastjson reads this form too, and a peer without its dialect may send it."""
    text = '{"offsetTable":{"' + KEY_0.replace('"', '\\"') + '":5}}'

    assert LocalOffsets.from_body(text.encode()).offset_table == {ORDERS_0: 5}
    assert ResetOffsets.from_body(text.encode()).offset_table == {ORDERS_0: 5}


@pytest.mark.parametrize(
    "table",
    [
        '{"orders":5}',
        "{0:5}",
        '{{"brokerName":"a","topic":"orders"}:5}',
        '{{"brokerName":"a","queueId":-1,"topic":"orders"}:5}',
        '{{"brokerName":"a","queueId":0,"topic":""}:5}',
        '{{"brokerName":"a","queueId":0,"topic":"orders"}:"five"}',
        "{" + KEY_0 + ":9223372036854775808}",
        "5",
    ],
)
def test_a_table_without_proper_queues_is_refused(table: str) -> None:
    body = ('{"offsetTable":' + table + "}").encode()

    for cls in (ResetOffsets, LocalOffsets):
        with pytest.raises(MalformedBody):
            cls.from_body(body)


def test_a_listed_queue_that_is_none_is_refused() -> None:
    with pytest.raises(MalformedBody, match="queue_id"):
        ResetOffsets.from_body(
            b'{"offsetTable":[{"brokerName":"a","offset":5,"queueId":-1,"topic":"orders"}]}'
        )


def test_a_client_is_asked_for_one_table_and_a_broker_for_many() -> None:
    answer = ConsumerStatusTable.from_body(
        ('{"consumerTable":{"c1":{' + KEY_0 + ':5},"c2":{}},"messageQueueTable":{}}').encode()
    )

    assert answer.consumer_table == {"c1": {ORDERS_0: 5}, "c2": {}}
    assert ConsumerStatusTable(message_queue_table={ORDERS_0: 5}).to_body().decode() == (
        '{"messageQueueTable":{' + KEY_0 + ":5}}"
    )


def test_go_orders_the_fields_of_a_queue_its_own_way() -> None:
    request = LockRequest.from_body(
        b'{"consumerGroup":"g","clientId":"c",'
        b'"mqSet":[{"topic":"orders","brokerName":"a","queueId":1}]}'
    )

    assert request == LockRequest(client_id="c", consumer_group="g", mq_set=(ORDERS_1,))
    assert request.to_body() == (
        b'{"clientId":"c","consumerGroup":"g",'
        b'"mqSet":[{"brokerName":"a","queueId":1,"topic":"orders"}]}'
    )


def test_the_queues_of_a_lock_answer_have_javas_odd_name() -> None:
    assert LockAnswer(lock_ok_mq_set=(ORDERS_0,)).to_body().decode() == (
        '{"lockOKMQSet":[' + KEY_0 + "]}"
    )


def test_a_pop_assignment_may_mean_any_queue() -> None:
    key = '{"brokerName":"a","queueId":-1,"topic":"orders"}'

    answer = Assignments.from_body(
        ('{"messageQueueAssignments":[{"messageQueue":' + key + ',"mode":"POP"}]}').encode()
    )
    running = RunningConsumer.from_body(('{"mqPopTable":{' + key + ":{}}}").encode())

    assert answer.message_queue_assignments is not None
    (assignment,) = answer.message_queue_assignments
    assert assignment.mode == POP_MODE
    assert assignment.message_queue.queue_id == ANY_QUEUE_ID
    assert running.mq_pop_table is not None
    assert list(running.mq_pop_table) == [assignment.message_queue]


def test_no_assignment_at_all_is_an_empty_object() -> None:
    assert Assignments().to_body() == b"{}"
    assert Assignments.from_body(b"{}") == Assignments()
