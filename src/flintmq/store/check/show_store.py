"""What is in a store: topics, queues, groups and how far they are.  Reads only.

Nothing is verified beyond what is needed to tell it; `store_check` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.store.check.popped import PopListing, popped_messages
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.layout import ABORT_FILE
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.log.log_scan import LogScan
from flintmq.store.queues.batch_queue import BatchQueue
from flintmq.store.queues.consume_queue import ConsumeQueue, is_fill
from flintmq.store.record_lookup import Lookup
from flintmq.store.recovery.batch_replay import units_of as batch_units_of
from flintmq.store.recovery.parts import StoreParts, assemble
from flintmq.store.recovery.queue_replay import units_of
from flintmq.store.recovery.survey import survey

BATCH_UNITS = 50_000


@dataclass(frozen=True, slots=True)
class LogListing:
    start: int
    end: int
    files: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class QueueListing:
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    size_bytes: int
    """Of the records, in the log."""
    oldest_ms: int | None
    newest_ms: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    topic: str
    queue_id: int
    committed: int
    lag: int | None
    """Nothing when there is no such queue."""


@dataclass(frozen=True, slots=True)
class DelayListing:
    level: int
    next_offset: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything `show_store` tells."""

    directory: str
    is_open: bool
    """A broker has it open, or had and was killed."""
    log: LogListing
    index_files: int
    index_entries: int
    queues: list[QueueListing]
    groups: list[GroupListing]
    delays: list[DelayListing]
    popped: list[PopListing]
    """Messages in flight."""
    remarks: list[str]


def show_store(disk: Disk, directory: Path, config: StoreConfig) -> Listing:
    """Look at a directory.  `StoreRefused` when it is no store we know."""
    learnt = survey(disk, directory, config).config
    found = survey(disk, directory, learnt)  # nothing was configured, so nothing differs
    parts = assemble(disk, directory, found.config)
    remarks = [*found.complaints, *parts.index.load(), *parts.queues.load()]
    if found.short_files:
        log = LogListing(0, 0, len(found.short_files), parts.config.commit_log_file_bytes)
    else:
        remarks += parts.log.load()
        parts.log.end_offset = _log_end(parts)
        log = LogListing(
            parts.log.min_offset,
            parts.log.end_offset,
            len(parts.log.segments),
            parts.log.file_bytes,
        )
    tables = Tables(disk, directory)
    return Listing(
        str(directory),
        disk.is_file(directory / ABORT_FILE),
        log,
        len(parts.index.files),
        sum(file.header.entry_count - 1 for file in parts.index.files),
        _queues(parts),
        _groups(parts, tables),
        _delays(parts, tables),
        [] if found.short_files else popped_messages(parts, tables),
        remarks,
    )


def _log_end(parts: StoreParts) -> LogOffset:
    """Where the log ends, told from the last file that has records."""
    for segment in reversed(parts.log.segments):
        scan = LogScan(parts.disk, [segment], segment.start)
        if sum(len(columns) for _, columns in scan):  # to the end, for then it is known
            return scan.end
    return parts.log.min_offset


def _queues(parts: StoreParts) -> list[QueueListing]:
    lookup = Lookup(parts.log, parts.queues, parts.index)
    listed = []
    found: list[ConsumeQueue | BatchQueue] = [*parts.queues, *parts.queues.batches()]
    for queue in sorted(found, key=lambda queue: (queue.topic, queue.queue_id)):
        queue.correct_min(parts.log.min_offset)
        last = QueueOffset(queue.max_offset - 1)
        listed.append(
            QueueListing(
                queue.topic,
                queue.queue_id,
                queue.min_offset,
                queue.max_offset,
                _record_bytes(queue),
                lookup.store_ms(queue.topic, queue.queue_id, queue.min_offset),
                lookup.store_ms(queue.topic, queue.queue_id, last),
            )
        )
    return listed


def _record_bytes(queue: ConsumeQueue | BatchQueue) -> int:
    total = 0
    if isinstance(queue, BatchQueue):
        for start in range(queue.number_at(queue.min_offset), queue.unit_stop, BATCH_UNITS):
            total += int(batch_units_of(queue, start, BATCH_UNITS)["size"].sum())
        return total
    for start in range(queue.min_offset, queue.max_offset, BATCH_UNITS):
        units = units_of(queue, start, min(start + BATCH_UNITS, queue.max_offset))
        total += int(units["size"][~is_fill(units)].sum())
    return total


def _groups(parts: StoreParts, tables: Tables) -> list[GroupListing]:
    offsets = tables.consumer_offsets.load()
    listed = []
    for name, by_queue_id in offsets.offset_table.items() if offsets is not None else ():
        topic, _, group = name.partition("@")
        for queue_id, committed in by_queue_id.items():
            queue = parts.queues.find_any(topic, queue_id)
            lag = None if queue is None else max(queue.max_offset - committed, 0)
            listed.append(GroupListing(group, topic, queue_id, committed, lag))
    return sorted(listed, key=lambda one: (one.group, one.topic, one.queue_id))


def _delays(parts: StoreParts, tables: Tables) -> list[DelayListing]:
    offsets = tables.delay_offsets.load()
    told = offsets.offset_table if offsets is not None else {}
    listed = []
    for queue in parts.queues:
        if queue.topic == SCHEDULE_TOPIC:
            following = told.get(queue.queue_id + 1, 0)
            waiting = max(queue.max_offset - following, 0)
            listed.append(DelayListing(queue.queue_id + 1, following, waiting))
    return sorted(listed, key=lambda one: one.level)
