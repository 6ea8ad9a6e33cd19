"""Reads the text of trace messages, of our clients and of RocketMQ's.

Clients of different age leave fields out at the end of a record, or add some: a reader takes what
it knows.  A record of an unknown kind, or one that makes no sense, is left out and counted: traces
are written by others, and one bad line must not hide the rest.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.trace_records import (
    FIELD_END,
    NOTHING,
    RECORD_END,
    ConsumedRecord,
    Consuming,
    Published,
    Record,
    TransactionEnded,
)

_KINDS: Final[dict[str, type[Any]]] = {
    "Pub": Published,
    "SubBefore": Consuming,
    "SubAfter": ConsumedRecord,
    "EndTransaction": TransactionEnded,
}
_RETURNED: Final = tuple(ReturnKind)
_OLD_PUBLISHED: Final = 12
"""Fields of a `Published` before clients wrote the offset id into it."""


class ReadTrace(NamedTuple):
    """The records of a trace message, and how many of it could not be read."""

    records: list[Record]
    unreadable: int


def read_trace(text: str) -> ReadTrace:
    """All records of the body of a trace message."""
    records: list[Record] = []
    unreadable = 0
    for line in text.split(RECORD_END):
        if not line:
            continue
        record = _read(*line.split(FIELD_END))
        if record is None:
            unreadable += 1
        else:
            records.append(record)
    return ReadTrace(records, unreadable)


def _read(name: str, *fields: str) -> Record | None:
    kind = _KINDS.get(name)
    if kind is None:
        return None
    known = list(kind.__struct_fields__)
    if kind is Published and len(fields) == _OLD_PUBLISHED:
        known.remove("offset_message_id")
        fields = (*fields, NOTHING)
        known.append("offset_message_id")
    try:
        values = {field: _value(field, text) for field, text in zip(known, fields, strict=False)}
        found: Record = msgspec.convert(values, type=kind, strict=False)
    except (ValueError, IndexError):  # msgspec.ValidationError is a ValueError
        return None
    return found


def _value(field: str, text: str) -> Any:
    if field == "returned":
        return _RETURNED[int(text)]
    return None if text == NOTHING else text
