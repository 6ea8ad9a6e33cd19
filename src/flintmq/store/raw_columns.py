"""Many records of a master's log at once, where there is nothing to doubt.

A slave that catches up, or is behind a master at full speed, reads hundreds of records at once.
They are checked and put into their queues by columns here, as recovery does it, at half the cost:
so it gets faster as it falls behind.

Whatever is not plain goes back to the caller, who takes the piece record by record: a check that
fails, a queue that is new or does not go on with these records, batches, extended queues and light
queues.

Invariant: either all whole records of a piece were added, by the rules of `raw_log`, or nothing
was changed.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from flintmq.model.properties import INNER_MULTI_DISPATCH
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import INNER_BATCH
from flintmq.protocol.records.record import CRC_MASK
from flintmq.protocol.records.record_checksum import wrong_checksums
from flintmq.protocol.records.record_scan import RecordColumns, scan_records
from flintmq.store.recovery.log_columns import by_queue, keyed, topics_of
from flintmq.store.recovery.parts import StoreParts
from flintmq.store.recovery.replayed_records import ReplayedRecords

FEW_BYTES_MAX = 64 * 1024
"""Pieces up to this size are taken record by record: columns cost more to begin with."""

FEW_MAX = 8
"""So many records are worth their columns."""

_LIGHT = INNER_MULTI_DISPATCH.encode()


class TakenColumns(NamedTuple):
    """How many bytes were added, and the store time of the last record."""

    size_bytes: int
    store_ms: int


def take_columns(parts: StoreParts, window: memoryview, base: int) -> TakenColumns | None:
    """Add the whole records of a piece that continues the log at ``base``; None leaves it all."""
    if len(window) <= FEW_BYTES_MAX or parts.config.extended_queues:
        return None
    octets = bytes(window)
    if parts.config.serves_light and _LIGHT in octets:
        return None
    columns = scan_records(octets)
    if len(columns) < FEW_MAX or not _are_sound(columns, octets, base):
        return None
    topics = topics_of(columns)
    if not all(topics):
        return None
    place = LogOffset(base)
    found = by_queue(parts.config, parts.tombstones, place, columns, topics)
    if not all(_continues(parts, key, some) for key, some in found.items()):
        return None
    for key, some in found.items():
        places, sizes, codes = (
            column.tolist() for column in (some.log_offset, some.size_bytes, some.code)
        )
        parts.dispatch.add_all(parts.dispatch.growth_of(key), places, sizes, codes, 0)
    for record in keyed(place, columns, topics):
        parts.dispatch.add_keys(*record)
    return TakenColumns(int(columns.start[-1] + columns.size_bytes[-1]), int(columns.store_ms[-1]))


def _are_sound(columns: RecordColumns, octets: bytes, base: int) -> bool:
    """Whether places, numbers and checksums of all records are right, and each is one message."""
    is_right = (columns.log_offset == columns.start + base).all()
    is_right &= (columns.queue_id >= 0).all() and (columns.queue_offset >= 0).all()
    if not is_right or (columns.sys_flag & INNER_BATCH).any():
        return False
    view = memoryview(octets)
    starts = columns.body_start.tolist()
    stops = (columns.body_start + columns.body_length).tolist()
    for start, stop, wanted in zip(starts, stops, columns.body_crc.tolist(), strict=True):
        if crc32(view[start:stop]) & CRC_MASK != wanted:
            return False
    return not wrong_checksums(columns).any()


def _continues(parts: StoreParts, key: tuple[str, int], some: ReplayedRecords) -> bool:
    """Whether a plain queue is there already and goes on with these records."""
    return (
        key[0] not in parts.queues.batch_topics
        and parts.queues.find(*key) is not None
        and int(some.queue_offset[0]) == parts.dispatch.next_offset(*key)
        and bool((np.diff(some.queue_offset) == 1).all())
    )
