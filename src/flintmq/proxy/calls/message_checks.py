"""What a message of a client must be like before it is sent, with RocketMQ's codes and words."""

from __future__ import annotations

from typing import Any, Final

from flintmq.model import properties as names
from flintmq.proxy.wire.grpc_codes import Code, MessageType
from flintmq.proxy.wire.resource_names import topic_of
from flintmq.proxy.wire.statuses import StatusRefusal

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
USER_PROPERTIES_MAX: Final = 128
USER_PROPERTIES_BYTES_MAX: Final = 16 * 1024
GROUP_BYTES_MAX: Final = 64
RECOVERY_S_MAX: Final = 3_600
DELAY_MS_MAX: Final = 24 * 3_600_000
MESSAGES_MAX: Final = 1_000
"""Messages of one request."""

_CONTROLS: Final = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


def check_messages(messages: Any, now_ms: int) -> str:
    """The topic all messages go to; `StatusRefusal` for what no client may send."""
    if not messages:
        raise StatusRefusal(Code.MESSAGE_CORRUPTED, "no message to send")
    if len(messages) > MESSAGES_MAX:
        raise StatusRefusal(Code.BAD_REQUEST, f"too many messages, max is {MESSAGES_MAX}")
    topic = topic_of(messages[0].topic)
    if any(each.topic.name != topic for each in messages):
        raise StatusRefusal(Code.MESSAGE_CORRUPTED, "topic in message is not same")
    for message in messages:
        _check_body(message)
        _check_properties(message)
        _check_system(message.system_properties, now_ms)
    return topic


def type_sent(message: Any) -> MessageType:
    """What a message is, by what it asks for."""
    system = message.system_properties
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.HasField("message_group"):
        return MessageType.FIFO
    return MessageType.NORMAL


def check_type(sent: MessageType, taken: frozenset[MessageType]) -> None:
    """`StatusRefusal` where a topic does not take messages of this type."""
    if sent in taken:
        return
    expected = next(iter(taken)).name if len(taken) == 1 else "MIXED"
    text = (
        f"TopicMessageType validate failed, the expected type is {expected}, "
        f"but actual type is {sent.name}"
    )
    raise StatusRefusal(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)


def _check_body(message: Any) -> None:
    if not message.body:
        raise StatusRefusal(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(message.body) > BODY_BYTES_MAX:
        text = f"message body cannot exceed the max {BODY_BYTES_MAX}"
        raise StatusRefusal(Code.MESSAGE_BODY_TOO_LARGE, text)


def _check_properties(message: Any) -> None:
    own, system = message.user_properties, message.system_properties
    if len(own) > USER_PROPERTIES_MAX:
        text = f"too many user properties, max is {USER_PROPERTIES_MAX}"
        raise StatusRefusal(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    size_bytes = 0
    for name, value in own.items():
        if name in names.SYSTEM_NAMES:
            raise _bad_property(f"property is used by system: {name}")
        if not name:
            raise _bad_property("the key of property cannot be empty")
        if not _CONTROLS.isdisjoint(name):
            raise _bad_property("the key of property cannot contain control character")
        if not _CONTROLS.isdisjoint(value):
            raise _bad_property("the value of property cannot contain control character")
        size_bytes += len(name.encode()) + len(value.encode())
    size_bytes += len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
    _check_tag(system)
    for key in system.keys:
        if not key.strip():
            text = "key cannot be the char sequence of whitespace"
            raise StatusRefusal(Code.ILLEGAL_MESSAGE_KEY, text)
        if not _CONTROLS.isdisjoint(key):
            raise StatusRefusal(Code.ILLEGAL_MESSAGE_KEY, "key cannot contain control character")
    if size_bytes > USER_PROPERTIES_BYTES_MAX:
        text = f"the total size of user property is too large, max is {USER_PROPERTIES_BYTES_MAX}"
        raise StatusRefusal(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)


def _check_tag(system: Any) -> None:
    if not system.HasField("tag"):
        return
    text = None
    if not system.tag.strip():
        text = "tag cannot be the char sequence of whitespace"
    elif "|" in system.tag:
        text = "tag cannot contain '|'"
    elif not _CONTROLS.isdisjoint(system.tag):
        text = "tag cannot contain control character"
    if text is not None:
        raise StatusRefusal(Code.ILLEGAL_MESSAGE_TAG, text)


def _check_system(system: Any, now_ms: int) -> None:
    if not system.message_id.strip():
        raise StatusRefusal(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if not _CONTROLS.isdisjoint(system.message_id):
        text = "message id cannot contain control character"
        raise StatusRefusal(Code.ILLEGAL_MESSAGE_ID, text)
    for text in (system.trace_context, system.born_host):
        if not _CONTROLS.isdisjoint(text):
            raise _bad_property("the value of property cannot contain control character")
    if system.orphaned_transaction_recovery_duration.seconds > RECOVERY_S_MAX:
        text = f"the recovery duration of a transaction is too long, max is {RECOVERY_S_MAX} s"
        raise StatusRefusal(Code.BAD_REQUEST, text)
    if system.HasField("delivery_timestamp"):
        wait_ms = system.delivery_timestamp.ToMilliseconds() - now_ms
        if wait_ms > DELAY_MS_MAX:
            text = f"the max delay time of message is too large, max is {DELAY_MS_MAX}"
            raise StatusRefusal(Code.ILLEGAL_DELIVERY_TIME, text)
    if system.HasField("message_group"):
        _check_message_group(system.message_group)


def _check_message_group(group: str) -> None:
    if not group.strip():
        text = "message group cannot be the char sequence of whitespace"
    elif len(group.encode()) >= GROUP_BYTES_MAX:
        text = f"message group exceed the max size {GROUP_BYTES_MAX}"
    elif not _CONTROLS.isdisjoint(group):
        text = "message group cannot contain control character"
    else:
        return
    raise StatusRefusal(Code.ILLEGAL_MESSAGE_GROUP, text)


def _bad_property(text: str) -> StatusRefusal:
    return StatusRefusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
