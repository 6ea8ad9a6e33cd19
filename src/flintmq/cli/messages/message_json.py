"""A message as one line of JSON, read: the other direction of `message_view.facts_of`.

    {"topic": "orders", "tags": "paid", "keys": ["o-1"], "properties": {"a": "1"}, "body": "text"}

``body_base64`` stands in place of ``body`` for bytes that are no text.  ``queue`` is
``BROKER/ID``; ``delay_level``, ``delay_ms`` and ``deliver_at_ms`` are those of `Message`.

What ``tail --json`` prints can be read: what the broker and the producer wrote there, ids, times,
offsets and their own properties, is left out, since a message that is sent again gets new ones.
A field that neither knows is refused: it may be a slip of the hand.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from flintmq.errors import InvalidSetting
from flintmq.model.message import Message
from flintmq.model.properties import SYSTEM_NAMES
from flintmq.model.queue import QueueRef

if TYPE_CHECKING:
    from flintmq.core.producer.receipt import SendReceipt

WRITTEN_BY_OTHERS: Final = frozenset(
    {
        "message_id",
        "offset_message_id",
        "broker",
        "queue_id",
        "queue_offset",
        "log_offset",
        "sys_flag",
        "born_ms",
        "born_host",
        "store_ms",
        "store_host",
        "reconsume_times",
        "stored_bytes",
        "origin_topic",
        "origin_message_id",
        "reason",
    }
)
"""Fields of ``tail --json`` and ``dlq list --json`` that a new message does not keep."""


class JsonMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a line that are sent."""

    topic: str | None = None
    body: str | None = None
    body_base64: str | None = None
    tags: str | None = None
    keys: list[str] | str = []
    properties: dict[str, str] = {}
    flag: int = 0
    queue: str | None = None
    delay_level: int = 0
    delay_ms: int | None = None
    deliver_at_ms: int | None = None


class ReadMessage(NamedTuple):
    """What a line asks for."""

    message: Message
    queue: QueueRef | None


def read_message(line: bytes, topic: str | None = None) -> ReadMessage:
    """A line of JSON as a message; ``topic`` beats the one of the line.

    `InvalidSetting`, or another error of the tree, says what is wrong with it.
    """
    try:
        facts: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting("line", _short(line), f"it is no JSON: {error}") from None
    if not isinstance(facts, dict):
        raise InvalidSetting("line", _short(line), "it is no JSON object")
    kept = {name: value for name, value in facts.items() if name not in WRITTEN_BY_OTHERS}
    try:
        found = msgspec.convert(kept, JsonMessage)
    except msgspec.ValidationError as error:
        raise InvalidSetting("line", _short(line), str(error)) from None
    chosen = topic or found.topic
    if not chosen:
        raise InvalidSetting("line", _short(line), "it has no topic")
    try:
        message = Message(
            chosen,
            _body_of(found),
            tags=found.tags,
            keys=found.keys,
            properties={
                name: value for name, value in found.properties.items() if name not in SYSTEM_NAMES
            },
            flag=found.flag,
            delay_level=found.delay_level,
            delay_ms=found.delay_ms,
            deliver_at_ms=found.deliver_at_ms,
        )
    except ValueError as error:
        raise InvalidSetting("line", _short(line), str(error)) from None
    return ReadMessage(message, None if found.queue is None else parse_queue(chosen, found.queue))


def parse_queue(topic: str, text: str) -> QueueRef:
    """``BROKER/ID`` as a queue of a topic."""
    broker, slash, number = text.rpartition("/")
    if not slash or not broker or not number.isdecimal():
        raise InvalidSetting("queue", text, "give BROKER/ID, as in broker-a/3")
    return QueueRef(topic, broker, int(number))


def receipt_facts(receipt: SendReceipt) -> dict[str, object]:
    """Where a message is stored, for programs."""
    return {
        "message_id": receipt.message_id,
        "offset_message_id": receipt.offset_message_id,
        "topic": receipt.queue.topic,
        "broker": receipt.queue.broker,
        "queue_id": receipt.queue.queue_id,
        "queue_offset": receipt.queue_offset,
        "status": receipt.status,
    }


def _body_of(found: JsonMessage) -> bytes:
    if found.body is not None and found.body_base64 is not None:
        raise InvalidSetting("line", "body_base64", "give body or body_base64")
    if found.body_base64 is not None:
        try:
            return b64decode(found.body_base64, validate=True)
        except binascii.Error as error:
            raise InvalidSetting("body_base64", found.body_base64[:40], str(error)) from None
    if found.body is None:
        raise InvalidSetting("line", "", "it has no body; body_base64 is for bytes")
    return found.body.encode()


def _short(line: bytes) -> str:
    return line[:60].decode(errors="backslashreplace").strip()
