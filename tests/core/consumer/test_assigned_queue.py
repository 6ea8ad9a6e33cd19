"""A queue says who it is; listeners see messages under the topic they were first sent to."""

from __future__ import annotations

from flintmq.core.consumer.assigned_queue import AssignedQueue, as_listeners_see
from flintmq.model.queue import QueueRef
from support.core.messages import QUEUE, RULES, received, several


def test_a_queue_and_its_batches_can_be_shown() -> None:
    home = AssignedQueue(QUEUE, RULES, ordered=False)
    (batch,) = home.cache(several(7))

    assert repr(home) == "<AssignedQueue orders/broker-a/0 Locking>"
    assert repr(batch) == "<Deliver 1 of orders/broker-a/0 from 7>"
    assert home.next_due_ms() is None
    home.withdraw(batch)
    assert home.cached.count == 1


def test_plain_messages_are_seen_as_they_are() -> None:
    messages = several(1, 2)

    assert as_listeners_see(messages, QUEUE, is_retry=False, namespace="") is messages


def test_a_retried_message_has_its_first_topic_and_no_namespace() -> None:
    queue = QueueRef("%RETRY%shop%g", "broker-a", 0)
    messages = [received(1, queue=queue, RETRY_TOPIC="shop%orders"), received(2, queue=queue)]

    seen = as_listeners_see(messages, queue, is_retry=True, namespace="shop")

    assert [message.topic for message in seen] == ["orders", "%RETRY%g"]
