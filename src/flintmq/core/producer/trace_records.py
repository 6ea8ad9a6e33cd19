"""Message traces in RocketMQ's own text: who sent a message, who consumed it, and how it went.

    Published         a message was stored                          Pub
    Consuming         a listener is about to get a message          SubBefore
    Consumed          it ended                                      SubAfter
    TransactionEnded  a producer said how a transaction ended       EndTransaction

A record is fields with 0x01 between them and 0x02 at its end; the body of a trace message is many
records.  Its keys are the ids and keys of the traced messages, so that the trace of a message can
be looked up.

Invariant: a trace message keeps both its limits, and no text of a user can tear a record apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.send_draft import Draft
from flintmq.core.producer.transaction import TransactionState
from flintmq.model import properties as names
from flintmq.model.message import KEY_SEPARATOR, Message
from flintmq.model.sys_flag import TransactionType
from flintmq.model.topic import TRACE_TOPIC, check_sendable_topic

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
NOTHING: Final = "null"
"""What stands for a text that is not there."""

MESSAGE_BYTES_MAX: Final = 128_000
"""One trace message, as RocketMQ's clients keep it."""

KEYS_BYTES_MAX: Final = 10_000
"""The part of it for keys.  All properties of a message are 32,767 bytes at most."""

BODY_BYTES_MAX: Final = MESSAGE_BYTES_MAX - KEYS_BYTES_MAX

_HARMLESS = str.maketrans({FIELD_END: None, RECORD_END: None})
_SHARDING = f"{names.SHARDING_KEY}\x01"


class MessageKind(IntEnum):
    """What kind of message was sent, by RocketMQ's numbers."""

    NORMAL = 0
    HALF = 1
    ENDED = 2
    DELAYED = 3
    ORDERED = 4
    """Readers of 4.9 do not know it, and fail."""


class Published(msgspec.Struct, frozen=True, gc=False):
    """``store_host`` is the address of the broker; ``keys`` have spaces between them."""

    at_ms: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str
    body_bytes: int
    spent_ms: int
    kind: MessageKind
    offset_message_id: str | None
    success: bool


class Consuming(msgspec.Struct, frozen=True, gc=False):
    """``request_id`` is the same in the `ConsumedRecord` that follows."""

    at_ms: int
    region: str | None
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str | None


class ConsumedRecord(msgspec.Struct, frozen=True, gc=False):
    """The last two are missing where an old client wrote it."""

    request_id: str
    message_id: str
    spent_ms: int
    success: bool
    keys: str | None
    returned: ReturnKind = ReturnKind.SUCCESS
    at_ms: int = 0
    group: str | None = None


class TransactionEnded(msgspec.Struct, frozen=True, gc=False):
    at_ms: int
    region: str | None
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str
    kind: MessageKind
    transaction_id: str | None
    state: TransactionState
    from_check: bool


Record: TypeAlias = Published | Consuming | ConsumedRecord | TransactionEnded


class Happening(NamedTuple):
    """One send or one call of a listener: records that belong together."""

    topic: str
    region: str | None
    records: tuple[Record, ...]


class TraceMessage(NamedTuple):
    """What is sent to the trace topic."""

    body: bytes
    keys: tuple[str, ...]
    record_count: int


_NAMES: Final[dict[type[Record], str]] = {
    Published: "Pub",
    Consuming: "SubBefore",
    ConsumedRecord: "SubAfter",
    TransactionEnded: "EndTransaction",
}
_RETURNED: Final = tuple(ReturnKind)


def traced_to(trace: bool, topic: str | None) -> str | None:
    """The trace topic of a client; None if it does not trace.  A topic of its own turns it on."""
    if topic is None:
        return TRACE_TOPIC if trace else None
    check_sendable_topic(topic)
    return topic


def kind_of(message: Message, draft: Draft) -> MessageKind:
    if draft.sys_flag & TransactionType.PREPARED:
        return MessageKind.HALF
    if message.delay_level or draft.is_timed:
        return MessageKind.DELAYED
    return MessageKind.ORDERED if _SHARDING in draft.properties else MessageKind.NORMAL


def write_record(record: Record) -> str:
    """One record with its end."""
    fields = [_NAMES[type(record)]]
    fields += [_text(getattr(record, name)) for name in record.__struct_fields__]
    return FIELD_END.join(fields) + RECORD_END


def pack(happenings: Iterable[Happening]) -> list[TraceMessage]:
    """Trace messages: as few as the limits allow, each of one topic and region."""
    groups: dict[tuple[str, str | None], list[Record]] = {}
    for each in happenings:
        groups.setdefault((each.topic, each.region), []).extend(each.records)
    return [message for records in groups.values() for message in _pack(records)]


def _pack(records: Sequence[Record]) -> Iterable[TraceMessage]:
    parts: list[bytes] = []
    keys: dict[str, None] = {}
    body_bytes = keys_bytes = 0
    for record in records:
        part = write_record(record).encode(errors="replace")
        wanted = [key for key in _keys_of(record) if key not in keys]
        wanted_bytes = sum(map(_key_bytes, wanted))
        is_full = body_bytes + len(part) > BODY_BYTES_MAX
        if parts and (is_full or keys_bytes + wanted_bytes > KEYS_BYTES_MAX):
            yield TraceMessage(b"".join(parts), tuple(keys), len(parts))
            parts, keys, body_bytes, keys_bytes = [], {}, 0, 0
            wanted = _keys_of(record)
        for key in wanted:
            if keys_bytes + _key_bytes(key) <= KEYS_BYTES_MAX:
                keys[key] = None
                keys_bytes += _key_bytes(key)
        parts.append(part)
        body_bytes += len(part)
    if parts:
        yield TraceMessage(b"".join(parts), tuple(keys), len(parts))


def _keys_of(record: Record) -> list[str]:
    """The id of its message first: it matters most."""
    keys = (record.keys or "").split(KEY_SEPARATOR)
    return list(dict.fromkeys(filter(None, (record.message_id, *keys))))


def _key_bytes(key: str) -> int:
    return len(key.encode(errors="replace")) + len(KEY_SEPARATOR)


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, ReturnKind):
        return str(_RETURNED.index(value))
    text = str(value)
    if FIELD_END in text or RECORD_END in text:
        return text.translate(_HARMLESS)
    return text
