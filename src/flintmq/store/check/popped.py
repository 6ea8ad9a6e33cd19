"""Messages in flight by what a closed store says: popped, and not acknowledged.  Reads only.

Counted are the records that this broker left in the timer topic; what a RocketMQ broker has moved
on to its revive topic is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flintmq.errors import MalformedBody
from flintmq.model.properties import REAL_TOPIC, TAGS
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.pop.journal import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_TAG,
    REVIVE_TOPIC_PREFIX,
    AckRecord,
    CheckpointRecord,
    PopKey,
)
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.files.json_tables import Tables
from flintmq.store.record_lookup import Lookup
from flintmq.store.recovery.parts import StoreParts

READ_UNITS = 1_000
"""Units of the timer topic that are read at once."""


@dataclass(frozen=True, slots=True)
class PopListing:
    """Messages that members of a group have in hand, or had."""

    group: str
    topic: str
    messages: int
    next_due_ms: int
    """When the first of them comes back."""


def popped_messages(parts: StoreParts, tables: Tables) -> list[PopListing]:
    """Messages in flight by group and topic."""
    saved = tables.timers.load()
    first = QueueOffset(saved.low_offset if saved else 0)
    waiting: dict[PopKey, tuple[CheckpointRecord, set[int]]] = {}
    acked: dict[PopKey, set[int]] = {}
    for tag, body in _journal(Lookup(parts.log, parts.queues, parts.index), first):
        try:
            if tag == CHECKPOINT_TAG:
                checkpoint = CheckpointRecord.from_body(body)
                waiting[checkpoint.key] = checkpoint, set(checkpoint.unacked_offsets)
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = AckRecord.from_body(body)
                acked.setdefault(ack.key, set()).update(ack.acked_offsets())
        except MalformedBody:
            continue  # a broker says so when it opens the store
    found: dict[tuple[str, str], list[CheckpointRecord]] = {}
    counts: dict[tuple[str, str], int] = {}
    for key, (checkpoint, offsets) in waiting.items():
        left = offsets - acked.get(key, set())
        if left:
            place = key.group, key.topic
            found.setdefault(place, []).append(checkpoint)
            counts[place] = counts.get(place, 0) + len(left)
    return [
        PopListing(*place, counts[place], min(each.due_ms for each in found[place]))
        for place in sorted(found)
    ]


def _journal(lookup: Lookup, at: QueueOffset) -> Iterator[tuple[str | None, bytes]]:
    while units := lookup.entries(TIMER_TOPIC, 0, at, READ_UNITS):
        for unit in units:
            record = lookup.record_at(unit.log_offset)
            if record is not None:
                properties = parse_properties(record.properties)
                if properties.get(REAL_TOPIC, "").startswith(REVIVE_TOPIC_PREFIX):
                    yield properties.get(TAGS), record.body
        at = QueueOffset(at + len(units))
