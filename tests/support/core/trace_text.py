"""Reads the text of trace messages, for tests of what was written."""

from __future__ import annotations

from typing import Any, get_args

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

KINDS: dict[str, type[Any]] = {
    "Pub": Published,
    "SubBefore": Consuming,
    "SubAfter": ConsumedRecord,
    "EndTransaction": TransactionEnded,
}
assert set(KINDS.values()) == set(get_args(Record))


def read_records(text: str) -> list[Record]:
    """All records of the body of a trace message."""
    return [_read(*line.split(FIELD_END)) for line in text.split(RECORD_END) if line]


def _read(name: str, *fields: str) -> Record:
    kind = KINDS[name]
    values = zip(kind.__struct_fields__, fields, strict=True)
    found: Record = msgspec.convert(
        {field: _value(field, text) for field, text in values}, type=kind, strict=False
    )
    return found


def _value(field: str, text: str) -> Any:
    if field == "returned":
        return tuple(ReturnKind)[int(text)]
    return None if text == NOTHING else text
