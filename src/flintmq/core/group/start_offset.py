"""Where a group begins in a queue: where it stood, or where it wants to when it is new.

    stored     nothing stored, retry topic     nothing stored, other topic
    ────────   ─────────────────────────────   ────────────────────────────────────
    stored     LAST       0                    LAST       the end
    stored     FIRST      0                    FIRST      0
    stored     TIMESTAMP  the end              TIMESTAMP  the first of that time

A broker that cannot say where the group stands is an error: to guess would skip messages.  0 of
a queue whose oldest messages are deleted is put right by the first pull.
"""

from __future__ import annotations

from typing import NamedTuple

from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import max_offset, offset_at
from flintmq.model.group import ConsumeFromWhere, is_retry_topic
from flintmq.model.queue import QueueOffset, QueueRef


class StartOffset(NamedTuple):
    """``is_stored``: the group stood there.  Otherwise it was chosen and nobody knows it yet."""

    offset: QueueOffset
    is_stored: bool


def choose_start_offset(
    address: str, queue: QueueRef, start_from: ConsumeFromWhere, start_at_ms: int
) -> Conversation[QueueOffset]:
    """Where to begin when nothing is stored, be it at the broker or in a file."""
    is_retry = is_retry_topic(queue.topic)
    if start_from is ConsumeFromWhere.FIRST_OFFSET:
        return QueueOffset(0)
    if start_from is ConsumeFromWhere.TIMESTAMP:
        if is_retry:
            return (yield from max_offset(address, queue))
        return (yield from offset_at(address, queue, start_at_ms))
    if is_retry:
        return QueueOffset(0)
    return (yield from max_offset(address, queue))
