"""Rows that have a body and nothing else: their messages made column by column.

Such rows are the most common ones, and what they cost is what each step of Python costs.  A
message of them differs from the one before in its body and in the number of its row, so only the
first is checked by the rules of messages; the fields of the others are set for all at once.

Refuses a batch in which a body is missing, empty or too large: `RowPlan.rows` says what is wrong.

Invariant: the messages are equal to those that `RowPlan.rows` makes of the same rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import repeat
from typing import Any, Final

from flintmq.errors import FlintError
from flintmq.model.message import BODY_BYTES_MAX, Message
from flintmq.spark.sink.row_identity import ROW_PROPERTY

_SETTERS: Final = {field.name: getattr(Message, field.name).__set__ for field in fields(Message)}
_COLUMNS: Final = ("body", "properties")


def plain_messages(
    topic: str, bodies: Sequence[bytes | None], prefix: str, first: int, body_bytes_max: int
) -> list[Message] | None:
    """The messages of rows from the ``first`` on; None where one needs to be looked at."""
    if not bodies or not all(bodies):
        return None
    whole = [body for body in bodies if body is not None]
    if max(map(len, whole)) > min(body_bytes_max, BODY_BYTES_MAX):
        return None
    properties = [{ROW_PROPERTY: f"{prefix}{row}"} for row in range(first, first + len(whole))]
    try:
        checked = Message(topic, whole[0], properties=properties[0])
    except FlintError:
        return None
    made = list(map(object.__new__, repeat(Message, len(whole))))
    for name, assign in _SETTERS.items():
        if name not in _COLUMNS:
            _run(map(assign, made, repeat(getattr(checked, name))))
    _run(map(_SETTERS["body"], made, whole))
    _run(map(_SETTERS["properties"], made, properties))
    return made


def _run(calls: Iterable[Any]) -> None:
    deque(calls, maxlen=0)
