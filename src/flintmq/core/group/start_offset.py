"""Where a group begins in a queue: where it stood, or where it wants to when it is new.

    stored     nothing stored, retry topic     nothing stored, other topic
    ────────   ─────────────────────────────   ────────────────────────────────────
    stored     last       0                    last       the end
    stored     first      0                    first      0
    stored     end        0                    end        the end
    stored     an offset  0                    an offset  that offset
    stored     a time     the end              a time     the first of that time

"Stored" is what the broker says.  In a young queue it says 0 for a group without an offset;
`is_committed` finds out whether that 0 was committed, for the starts that want to know
(`model.start_point`).

A broker that cannot say where the group stands is an error: to guess would skip messages.  0 of
a queue whose oldest messages are deleted is put right by the first pull.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import group_offset, max_offset, offset_at
from flintmq.model.group import ConsumeFromWhere, is_retry_topic
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.start_point import StartPoint
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.version import version_number

SAYS_NOT_FOUND_SINCE: Final = version_number("V5_0_0")
"""Brokers from here on know setZeroIfNotFound."""


class StartOffset(NamedTuple):
    """``is_stored``: the group stood there.  Otherwise it was chosen and nobody knows it yet."""

    offset: QueueOffset
    is_stored: bool


def choose_start_offset(
    address: str, queue: QueueRef, start: StartPoint, start_at_ms: int
) -> Conversation[QueueOffset]:
    """Where to begin when nothing is stored, be it at the broker or in a file."""
    is_retry = is_retry_topic(queue.topic)
    if start.where is ConsumeFromWhere.TIMESTAMP:
        if is_retry:
            return (yield from max_offset(address, queue))
        return (yield from offset_at(address, queue, start_at_ms))
    if start.where is ConsumeFromWhere.FIRST_OFFSET or is_retry:
        return QueueOffset(0 if start.offset is None or is_retry else start.offset)
    return (yield from max_offset(address, queue))


def is_committed(
    address: str, group: str, queue: QueueRef, broker_version: int | None
) -> Conversation[bool]:
    """Whether a group has a committed offset in a queue, where its broker answers 0.

    Brokers from 5.0 on say so when they are asked (QUERY_CONSUMER_OFFSET, 14, with
    setZeroIfNotFound).  Earlier ones ignore that, and their table of all offsets
    (GET_ALL_CONSUMER_OFFSET, 43) has the answer.
    """
    found = yield from group_offset(address, group, queue, zero_if_young=False)
    if found is None:
        return False
    if found > 0 or (broker_version is not None and broker_version >= SAYS_NOT_FOUND_SINCE):
        return True
    reply = yield from ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
    table = ConsumerOffsets.from_body(reply.body).offset_table
    return queue.queue_id in table.get(f"{queue.topic}@{group}", {})
