"""What many records at once mean for queues and index.

The same rules as `dispatch`, for columns of records that are read from the log again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flintmq.model.light_queue import LIGHT_QUEUE_ID, light_places
from flintmq.model.message import KEY_SEPARATOR
from flintmq.model.properties import (
    DELAY,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    KEYS,
    TAGS,
    UNIQ_KEY,
)
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import INNER_BATCH, TRANSACTION_MASK, TransactionType
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.records.property_scan import Spans, property_spans, tags_codes
from flintmq.protocol.records.record_scan import RecordColumns
from flintmq.store.files.layout import BATCH_COUNT_MAX
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.files.tombstones import Tombstones
from flintmq.store.queues.dispatch import QUEUED_TYPES, delivery_code
from flintmq.store.queues.queue_set import QueueSet
from flintmq.store.recovery.replayed_records import Ints, QueueKey, ReplayedRecords

COUNT_DIGITS_MAX = 5
"""A unit counts messages in 16 bits."""


class Keyed(NamedTuple):
    """A record that can be found by keys."""

    topic: str
    keys: list[str]
    log_offset: LogOffset
    store_ms: int


def topics_of(columns: RecordColumns) -> list[str]:
    """The topic of each record; empty when it is no text."""
    view = memoryview(columns.buffer)
    known: dict[bytes, str] = {}
    found = []
    starts = columns.topic_start.tolist()
    stops = (columns.topic_start + columns.topic_length).tolist()
    for start, stop in zip(starts, stops, strict=True):
        octets = view[start:stop].tobytes()
        topic = known.get(octets)
        if topic is None:
            topic = known[octets] = _text(octets)
        found.append(topic)
    return found


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return ""


def by_queue(
    config: StoreConfig,
    tombstones: Tombstones,
    base: LogOffset,
    columns: RecordColumns,
    topics: list[str],
) -> dict[QueueKey, ReplayedRecords]:
    """The records that count in a queue, queue by queue; not those of deleted topics."""
    tags, delays = property_spans(columns, TAGS, DELAY)
    codes = tags_codes(columns, tags)
    kinds = columns.sys_flag & TRANSACTION_MASK
    rows_of: dict[QueueKey, list[int]] = {}
    queue_ids = columns.queue_id.tolist()
    for row in np.flatnonzero(np.isin(kinds, list(QUEUED_TYPES))).tolist():
        rows_of.setdefault((topics[row], queue_ids[row]), []).append(row)
    for (topic, _), rows in rows_of.items():
        if topic == SCHEDULE_TOPIC:
            for row in rows:
                level = _value(columns, delays, row)
                code = delivery_code(config, level, int(columns.store_ms[row]))
                if code is not None:
                    codes[row] = code
    everything = ReplayedRecords(
        columns.queue_offset,
        columns.start + base,
        columns.size_bytes.astype(np.int64),
        codes,
        columns.store_ms,
        _counts(columns),
    )
    found = {key: everything.picked(rows) for key, rows in rows_of.items()}
    if config.serves_light:
        found |= _light_arrivals(columns, everything, rows_of)
    for key in list(found):
        mark = tombstones.mark(key[0])
        if mark > base:
            alive = np.flatnonzero(found[key].log_offset >= mark).tolist()
            found[key] = found[key].picked(alive)
    return {key: arrivals for key, arrivals in found.items() if len(arrivals)}


def _light_arrivals(
    columns: RecordColumns, everything: ReplayedRecords, rows_of: dict[QueueKey, list[int]]
) -> dict[QueueKey, ReplayedRecords]:
    """The records that are in light queues too, queue by queue."""
    names, offsets = property_spans(columns, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET)
    is_named = (names.length > 0) & (offsets.length > 0)
    if not is_named.any():
        return {}
    topic_of = {row: topic for (topic, _), rows in rows_of.items() for row in rows}
    found: dict[QueueKey, list[tuple[int, int]]] = {}
    for row in np.flatnonzero(is_named).tolist():
        texts = _value(columns, names, row), _value(columns, offsets, row)
        for name, offset in light_places(topic_of.get(row, ""), *texts) if row in topic_of else ():
            found.setdefault((name, LIGHT_QUEUE_ID), []).append((row, offset))
    arrivals = {}
    for key, places in found.items():
        picked = everything.picked([row for row, _ in places])
        picked.queue_offset = np.array([offset for _, offset in places], np.int64)
        picked.count = np.ones(len(places), np.int64)
        arrivals[key] = picked
    return arrivals


def by_kind(
    arrivals: dict[QueueKey, ReplayedRecords], queues: QueueSet, *, guess: bool = False
) -> tuple[dict[QueueKey, ReplayedRecords], dict[QueueKey, ReplayedRecords]]:
    """Records of plain queues, and of those that keep batches.

    With ``guess`` a topic of which nothing is known but a record of several messages is of the
    second kind.
    """
    topics = queues.batch_topics
    having = {key[0] for key, some in arrivals.items() if int(some.count.max()) > 1}
    if guess and (unknown := having - topics):
        topics |= unknown - {queue.topic for queue in queues}
    plain = {key: some for key, some in arrivals.items() if key[0] not in topics}
    for (topic, _), some in plain.items():
        if topic in having:  # whatever it says: in a plain queue a record is one message
            some.count.fill(1)
    return plain, {key: some for key, some in arrivals.items() if key[0] in topics}


def _counts(columns: RecordColumns) -> Ints:
    """How many messages each record has."""
    counts = np.ones(len(columns), np.int64)
    batches = np.flatnonzero(columns.sys_flag & INNER_BATCH)
    if len(batches):
        (numbers,) = property_spans(columns, INNER_NUM)
        for row in batches.tolist():
            counts[row] = inner_count(_value(columns, numbers, row))
    return counts


def inner_count(text: str) -> int:
    """The number of messages an inner batch says it has; 1 when that is no number."""
    is_number = text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX
    return min(max(int(text), 1), BATCH_COUNT_MAX) if is_number else 1


def keyed(
    base: LogOffset, columns: RecordColumns, topics: list[str], after: LogOffset | None = None
) -> Iterator[Keyed]:
    """The records with keys, in their order; only those behind a place when one is given."""
    if after is not None and len(columns) and after >= base + int(columns.start[-1]):
        return
    unique_ids, keys = property_spans(columns, UNIQ_KEY, KEYS)
    is_wanted = (unique_ids.length > 0) | (keys.length > 0)
    is_wanted &= columns.sys_flag & TRANSACTION_MASK != TransactionType.ROLLBACK
    if after is not None:
        is_wanted &= columns.start + base > after
    rows = np.flatnonzero(is_wanted)
    view = memoryview(columns.buffer)
    for row, place, store_ms, id_start, id_stop, keys_start, keys_stop in zip(
        rows.tolist(),
        (columns.start[rows] + base).tolist(),
        columns.store_ms[rows].tolist(),
        unique_ids.start[rows].tolist(),
        (unique_ids.start[rows] + unique_ids.length[rows]).tolist(),
        keys.start[rows].tolist(),
        (keys.start[rows] + keys.length[rows]).tolist(),
        strict=True,
    ):
        found = [str(view[id_start:id_stop], "utf-8", "replace")] if id_stop > id_start else []
        if keys_stop > keys_start:
            text = str(view[keys_start:keys_stop], "utf-8", "replace")
            found += filter(None, text.split(KEY_SEPARATOR))
        yield Keyed(topics[row], found, place, store_ms)


def _value(columns: RecordColumns, spans: Spans, row: int) -> str:
    start, length = int(spans.start[row]), int(spans.length[row])
    return str(columns.buffer[start : start + length], "utf-8", "replace") if length > 0 else ""
