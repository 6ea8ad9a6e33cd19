"""Which topics and queues a record of a producer may be written to.

A send is checked by it, and so is every record that the broker writes on behalf of a peer later.
"""

from __future__ import annotations

from flintmq.broker.names import topic_fault
from flintmq.model.topic import NOT_FOR_PRODUCERS, TIMER_TOPIC
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.store.queues import LIGHT_QUEUE_PREFIX

NAMES_KEPT_MAX = 4_096
"""Names of topics that may be sent to, so that they are not checked again."""


_good_names: set[str] = set()


def name_fault(topic: str) -> tuple[ResponseCode, str] | None:
    """Why nobody may send to a topic of this name: code and remark.

    Only good names are remembered, and they are short: a peer cannot fill the memory with others.
    """
    if topic in _good_names:
        return None
    fault = _name_fault(topic)
    if fault is None:
        if len(_good_names) >= NAMES_KEPT_MAX:
            _good_names.clear()
        _good_names.add(topic)
    return fault


def _name_fault(topic: str) -> tuple[ResponseCode, str] | None:
    fault = topic_fault(topic)
    if fault is not None:
        return ResponseCode.INVALID_PARAMETER, fault
    if topic in NOT_FOR_PRODUCERS or topic == TIMER_TOPIC:
        return ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden."
    if topic.startswith(LIGHT_QUEUE_PREFIX):
        return (
            ResponseCode.NO_PERMISSION,
            f"Sending message to topic[{topic}] is forbidden. No light message queues here.",
        )
    return None


def has_queue(topic: TopicConfig, queue_id: int) -> bool:
    """Whether a record may be stored in this queue: one that is only read counts too."""
    return 0 <= queue_id < topic.write_queue_nums or 0 <= queue_id < topic.read_queue_nums
