"""Names and attributes of OpenTelemetry's conventions for messaging, and how a context travels.

Invariant: a message that has a context keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from flintmq.errors import MissingExtra
from flintmq.model import properties as names
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import QueueRef

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Status, StatusCode
except ImportError:
    raise MissingExtra("opentelemetry-api", "otel") from None

SCOPE: Final = "flintmq"

LINKS_MAX: Final = 128
"""Of one span: what SDKs keep by default."""

_FORBIDDEN: Final = frozenset("\x01\x02")
"""What no property may hold: RocketMQ separates properties with these."""

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
NAMESPACE: Final = "messaging.rocketmq.namespace"
GROUP: Final = "messaging.consumer.group.name"
MESSAGE_TYPE: Final = "messaging.rocketmq.message.type"
TAG: Final = "messaging.rocketmq.message.tag"
KEYS: Final = "messaging.rocketmq.message.keys"
FIFO_GROUP: Final = "messaging.rocketmq.message.group"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
DELIVER_AT: Final = "messaging.rocketmq.message.delivery_timestamp"
MESSAGE_ID: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"
CLIENT_ID: Final = "messaging.client.id"
ERROR: Final = "error.type"


def carrying(message: Message, span: Span) -> Message:
    """The message with the context of a span among its properties, unless it has one already."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    found = {name: text for name, text in carrier.items() if _FORBIDDEN.isdisjoint(name + text)}
    if not found or not found.keys().isdisjoint(message.properties):
        return message
    return replace(message, properties={**message.properties, **found})


def of_message(message: Message, sharding_key: str | None = None) -> dict[str, Any]:
    kind = "normal"
    more: dict[str, Any] = {}
    if message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None:
        kind = "delay"
        if message.delay_level:
            more[DELAY_LEVEL] = message.delay_level
        if message.deliver_at_ms is not None:
            more[DELIVER_AT] = message.deliver_at_ms
    elif sharding_key is not None:
        kind = "fifo"
        more[FIFO_GROUP] = sharding_key
    if message.tags:
        more[TAG] = message.tags
    if message.keys:
        more[KEYS] = list(message.keys)
    return {
        SYSTEM: "rocketmq",
        DESTINATION: message.topic,
        NAMESPACE: "",
        MESSAGE_TYPE: kind,
        **more,
    }


def of_received(message: ReceivedMessage) -> dict[str, Any]:
    more: dict[str, Any] = {MESSAGE_ID: message.message_id}
    if message.tags:
        more[TAG] = message.tags
    if message.keys:
        more[KEYS] = list(message.keys)
    key = message.properties.get(names.SHARDING_KEY)
    if key is not None:
        more[FIFO_GROUP] = key
    return more


def operation_of_span(name: str, kind: str) -> dict[str, str]:
    return {OPERATION: name, OPERATION_TYPE: kind}


def partition_of(queue: QueueRef) -> str:
    return f"{queue.broker}:{queue.queue_id}"


def fail_span(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR, type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def creation_contexts(messages: Iterable[ReceivedMessage]) -> list[Context]:
    """The contexts that messages were made in."""
    return [propagate.extract(message.properties) for message in messages]


def links_to(contexts: Iterable[Context]) -> list[Link]:
    """A link to each span that made a message."""
    found = [trace.get_current_span(each).get_span_context() for each in contexts]
    return [Link(each) for each in found if each.is_valid][:LINKS_MAX]
