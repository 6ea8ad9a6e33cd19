"""What is wrong with a name that a peer sent: of a topic, a group, a client.

One function for each kind of name; every processor that keeps a name asks it first.  The words
are RocketMQ's where it has a limit.  It has none for client ids, and none for the topics of
subscriptions and locks; those are limited here by what a real client or broker can make.

Which topics and queues a record of a producer may be written to.

A send is checked by it, and so is every record that the broker writes on behalf of a peer later.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from flintmq.broker.requests.outcome import Refusal
from flintmq.model.group import DEAD_LETTER_PREFIX, GROUP_CHARACTERS_MAX, RETRY_PREFIX
from flintmq.model.light_queue import is_light
from flintmq.model.topic import NAME_PATTERN, NOT_FOR_PRODUCERS, TIMER_TOPIC, TOPIC_CHARACTERS_MAX
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode

CLIENT_ID_CHARACTERS_MAX = 1_024
"""``ip@instance``, perhaps with a unit and a stream: real ones have 20 to 100 characters."""

DERIVED_TOPIC_CHARACTERS_MAX = (
    max(len(RETRY_PREFIX), len(DEAD_LETTER_PREFIX))
    + GROUP_CHARACTERS_MAX
    + 1
    + TOPIC_CHARACTERS_MAX
)
"""The longest topic a broker makes itself, ``%RETRY%group+topic``; consumers may name it."""

BROKER_NAME_CHARACTERS_MAX = 255
"""Of a queue that a client names: brokers are named by people."""


MUCH_TOO_LONG = 4_096
"""Characters of a name that is not looked into any more."""

EXTRA_BYTES_MAX = 4_096
"""Fields of newer releases, as they are kept for each topic and group."""


def topic_fault(name: str) -> str | None:
    return _fault("topic", name, TOPIC_CHARACTERS_MAX)


def group_fault(name: str) -> str | None:
    return _fault("group", name, GROUP_CHARACTERS_MAX)


def client_fault(name: str) -> str | None:
    """Of a client id: anything that can be printed, blanks too."""
    return _text_fault("client id", name, CLIENT_ID_CHARACTERS_MAX)


def used_group_fault(name: str) -> str | None:
    """Of a group that is only used: old brokers let names be made that are refused today."""
    return _text_fault("group", name, GROUP_CHARACTERS_MAX)


def used_topic_fault(name: str) -> str | None:
    """Of a topic that is only named, in a subscription or a lock, and not made."""
    return _text_fault("topic", name, DERIVED_TOPIC_CHARACTERS_MAX)


def broker_fault(name: str) -> str | None:
    return _text_fault("broker name", name, BROKER_NAME_CHARACTERS_MAX)


def extra_fault(extra: Mapping[str, object]) -> str | None:
    """Of the fields of a topic or a group that this broker does not know, and keeps."""
    if extra and len(msgspec.json.encode(extra)) > EXTRA_BYTES_MAX:
        return f"unknown fields have {EXTRA_BYTES_MAX} bytes at most"
    return None


def require(fault: str | None) -> None:
    """Raise `Refusal` for a name with a fault."""
    if fault is not None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, fault)


def _fault(kind: str, name: str, characters_max: int) -> str | None:
    if len(name) > MUCH_TOO_LONG:
        return f"The specified {kind} is longer than {kind} max length."
    if not name.strip():
        return f"The specified {kind} is blank."
    if not NAME_PATTERN.fullmatch(name):
        allowed = "^[%|a-zA-Z0-9_-]+$"
        return f"The specified {kind} contains illegal characters, allowing only {allowed}"
    if len(name) > characters_max:
        return f"The specified {kind} is longer than {kind} max length."
    return None


def _text_fault(kind: str, name: str, characters_max: int) -> str | None:
    if len(name) > characters_max:
        return f"The specified {kind} has {len(name)} characters, {characters_max} are allowed."
    if not name.isprintable():
        return f"The specified {kind} contains characters that cannot be printed."
    return None


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
    if is_light(topic):
        remark = f"Sending message to topic[{topic}] is forbidden. No light queue is a topic."
        return ResponseCode.NO_PERMISSION, remark
    return None


def has_queue(topic: TopicConfig, queue_id: int) -> bool:
    """Whether a record may be stored in this queue: one that is only read counts too."""
    return 0 <= queue_id < topic.write_queue_nums or 0 <= queue_id < topic.read_queue_nums
