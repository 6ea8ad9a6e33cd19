"""A stored message as clients of the service get it."""

from __future__ import annotations

from hashlib import md5
from typing import Any

from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.proxy.wire.grpc_codes import BodyEncoding, DigestType, MessageType
from flintmq.proxy.wire.message_classes import GrpcMessage


def type_of(message: ReceivedMessage) -> MessageType:
    """What a message was sent as, by its properties."""
    properties = message.properties
    if properties.get(names.TRAN_MSG) == "true":
        return MessageType.TRANSACTION
    delays = (names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC)
    if any(name in properties for name in delays):
        return MessageType.DELAY
    return MessageType.FIFO if names.SHARDING_KEY in properties else MessageType.NORMAL


def form_of(
    message: ReceivedMessage,
    topic: str,
    *,
    now_ms: int,
    handle: str | None = None,
    attempt: int = 1,
) -> Any:
    """The message as it is delivered to a client that asked for ``topic``.

    Bodies are unpacked already, so the encoding is always the plain one.
    """
    properties = message.properties
    made = GrpcMessage(body=message.body)
    made.topic.name = topic
    for name, value in properties.items():
        if name not in names.SYSTEM_NAMES:
            made.user_properties[name] = value
    system = made.system_properties
    system.message_id = message.message_id
    system.message_type = type_of(message)
    system.body_encoding = BodyEncoding.IDENTITY
    system.body_digest.type = DigestType.MD5
    digest = md5(message.body, usedforsecurity=False)
    system.body_digest.checksum = digest.hexdigest().upper()
    system.born_timestamp.FromMilliseconds(message.born_ms)
    system.born_host = properties.get(names.BORN_HOST) or str(message.born_host)
    system.store_timestamp.FromMilliseconds(message.store_ms)
    system.store_host = str(message.store_host)
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    system.delivery_attempt = attempt
    system.keys.extend(message.keys)
    if message.tags is not None:
        system.tag = message.tags
    if handle is not None:
        system.receipt_handle = handle
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if names.TRACE_CONTEXT in properties:
        system.trace_context = properties[names.TRACE_CONTEXT]
    deliver_ms = _delivery_ms(message, now_ms)
    if deliver_ms is not None:
        system.delivery_timestamp.FromMilliseconds(deliver_ms)
    origin = properties.get(names.DLQ_ORIGIN_TOPIC)
    if origin is not None and names.DLQ_ORIGIN_MESSAGE_ID in properties:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = properties[names.DLQ_ORIGIN_MESSAGE_ID]
    return made


def _delivery_ms(message: ReceivedMessage, now_ms: int) -> int | None:
    at = message.properties.get(names.TIMER_DELIVER_MS, "")
    if at.isascii() and at.isdigit() and len(at) <= 14:
        return int(at)
    after = message.properties.get(names.TIMER_DELAY_SEC, "")
    if after.isascii() and after.isdigit() and len(after) <= 11:
        return now_ms + 1000 * int(after)
    return None
