"""Opening what is there: the end of the log, and queues and index that agree with it.

The log is the truth.  Not all of it is read at every start: the checkpoint says up to which
time everything was synced, and the walk begins with the last file that starts before that.
From there on every record is verified, and its unit and its keys are put where they must be.
If a queue turns out to lack what is older than that, or files of queues or index are missing
or broken, the walk begins again with the first file.

    a hole in the log       its records are gone, their positions get fill units
    a bad end of the log    is wiped, and the log goes on from the last good record

Everything can be done again: a crash on the way leaves the mark of an unclean exit, and a
second recovery finds nothing to change.

Invariant: after `recover` every good record of the log is in its queue and, by its keys, in
the index, and neither points at anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import store_time_ms
from flintmq.protocol.records.record_scan import EndKind, scan_records
from flintmq.store.files.checkpoint import SAFETY_MS
from flintmq.store.files.layout import COMMIT_LOG_DIRECTORY
from flintmq.store.log.commit_log import require_mappable
from flintmq.store.log.log_scan import LogScan, record_starts, window
from flintmq.store.queues.batch_queue import BatchQueue
from flintmq.store.queues.consume_queue import CHUNK_UNITS, ConsumeQueue
from flintmq.store.recovery.batch_replay import BatchReplay
from flintmq.store.recovery.log_columns import by_kind, by_queue, keyed, topics_of
from flintmq.store.recovery.parts import StoreParts
from flintmq.store.recovery.queue_replay import QueueGap, QueueReplay

FLUSHED_RECORDS = 50_000
"""Records whose keys are collected before they are written: about 20 MB."""

ASIDE_DIRECTORY = "index.aside"
"""Where index files go that cannot be used and may be of another broker's making."""


def recover(parts: StoreParts, *, was_clean: bool) -> list[str]:
    """Load every part and make them agree; tell what was wrong."""
    log_directory = parts.directory / COMMIT_LOG_DIRECTORY
    require_mappable(parts.disk, log_directory, parts.config.commit_log_file_bytes)
    complaints = [*parts.log.load(), *parts.queues.load(), *parts.index.load()]
    complaints += parts.tombstones.load()
    _finish_deletions(parts)
    parts.index.remove_before(parts.log.min_offset)  # a crash may bring such a file back in parts
    start = _start(parts, was_clean=was_clean)
    if start is not None:
        if not was_clean:
            doubtful = _first_stored_after(parts, start, parts.checkpoint.min_store_ms())
            start = min(start, _file_with(parts, parts.index.cut_from(doubtful)))
        try:
            return complaints + _replay(parts, start, known_queues_only=was_clean)
        except QueueGap as gap:
            complaints.append(f"{gap}: queues and index are made again from the first file")
    _forget_checkpoint(parts)
    _clear_index(parts)
    for queue in parts.queues:
        if queue.is_broken:
            queue.truncate(queue.max_offset)  # and remove the files that do not fit
            parts.queues.note_changed(queue.dirty)
    for batches in parts.queues.batches():
        if batches.is_broken:
            batches.truncate(batches.unit_stop)
            parts.queues.note_changed(batches.dirty)
    return complaints + _replay(parts, parts.log.min_offset, known_queues_only=False)


def _start(parts: StoreParts, *, was_clean: bool) -> LogOffset | None:
    """Where the walk begins, or nothing when queues and index have to be made anew.

    That is with the last file that starts before the checkpoint's time.
    """
    if parts.index.broken or not parts.index.files or not len(parts.queues):
        return None
    queues: Iterator[ConsumeQueue | BatchQueue] = chain(parts.queues, parts.queues.batches())
    if any(queue.is_broken for queue in queues):
        return None
    promised = parts.checkpoint
    safe_ms = promised.min_store_ms()
    if was_clean:  # then the index is whole, whatever the time of its last full file
        safe_ms = min(promised.log_ms, promised.queues_ms) - SAFETY_MS
    for segment in reversed(parts.log.segments):
        if record_starts(segment, segment.start) and 0 < store_time_ms(segment.view, 0) <= safe_ms:
            return segment.start
    return parts.log.min_offset


def _first_stored_after(parts: StoreParts, start: LogOffset, time_ms: int) -> LogOffset:
    """The first record from ``start`` on that is newer than a time, or where none follows."""
    at = start
    while (segment := parts.log.segment_at(at)) is not None:
        columns = scan_records(window(segment, at))
        newer = np.flatnonzero(columns.store_ms > time_ms)
        if len(newer):
            return LogOffset(at + int(columns.start[newer[0]]))
        if columns.end.kind is EndKind.FILLER or at + columns.end.position == segment.stop:
            at = segment.stop
        elif columns.end.position and columns.end.kind is not EndKind.MALFORMED:
            at = LogOffset(at + columns.end.position)
        else:
            return LogOffset(at + columns.end.position)
    return at


def _finish_deletions(parts: StoreParts) -> None:
    """Remove what a crash left of queues of deleted topics, and of their extensions."""
    for queue in list(parts.queues):
        mark = parts.tombstones.mark(queue.topic)
        if mark and queue.max_offset and not _points_past(queue, mark):
            parts.queues.remove(queue.topic, queue.queue_id)
    parts.queues.remove_orphans()
    for batches in list(parts.queues.batches()):
        mark = parts.tombstones.mark(batches.topic)
        if mark and batches.max_offset and batches.log_stop <= mark:
            parts.queues.remove_batch(batches.topic, batches.queue_id)


def _points_past(queue: ConsumeQueue, place: LogOffset) -> bool:
    """Whether any unit points at or past a place of the log."""
    at = int(queue.first_offset)
    while at < queue.max_offset:
        units = queue.units(QueueOffset(at), CHUNK_UNITS)
        if (units["log_offset"] >= place).any():
            return True
        at += max(len(units), 1)
    return False


def _file_with(parts: StoreParts, log_offset: LogOffset) -> LogOffset:
    """Where the file begins that has a place."""
    start = LogOffset(log_offset - log_offset % parts.log.file_bytes)
    return max(start, parts.log.min_offset)


def _forget_checkpoint(parts: StoreParts) -> None:
    """Nothing is promised while queues are made anew: a crash must begin from the start."""
    nothing = replace(parts.checkpoint, log_ms=0, queues_ms=0, index_ms=0)
    if parts.checkpoint != nothing:
        parts.checkpoint = nothing
        parts.checkpoint_file.write(nothing)


def _clear_index(parts: StoreParts) -> None:
    for path in list(parts.index.broken):
        if parts.disk.size_bytes(path) != parts.index.shape.file_bytes:
            aside = parts.directory / ASIDE_DIRECTORY
            parts.disk.make_directory(aside)
            parts.disk.rename(path, aside / path.name)
    parts.index.clear()


def _replay(parts: StoreParts, start: LogOffset, *, known_queues_only: bool) -> list[str]:
    """Walk the log from a file on, and make queues and index agree with it."""
    scan = LogScan(parts.disk, parts.log.segments, start)
    replay = QueueReplay(
        parts.log, parts.queues, start, parts.config.extended_queues, known_queues_only
    )
    batches = BatchReplay(parts.log, parts.queues, start, known_queues_only)
    for base, columns in scan:
        topics = topics_of(columns)
        arrivals = by_queue(parts.config, parts.tombstones, base, columns, topics)
        plain, batched = by_kind(arrivals, parts.queues, guess=not known_queues_only)
        replay.add(plain, scan.lost_bytes)
        batches.add(batched, scan.lost_bytes)
        for count, record in enumerate(keyed(base, columns, topics, parts.index.end_log_offset)):
            parts.index.add(*record)
            if count % FLUSHED_RECORDS == FLUSHED_RECORDS - 1:
                parts.index.flush()
    replay.settle()
    batches.settle()
    parts.log.open_at(scan.end)
    indexed_to = parts.index.end_log_offset
    if indexed_to is not None and indexed_to >= scan.end:
        parts.index.cut_from(scan.end)
    parts.index.flush()
    parts.last_store_ms = scan.last_store_ms
    complaints = [str(damage) for damage in scan.damages]
    for place in replay.strays + batches.strays:
        segment = parts.log.segment_at(place)
        assert segment is not None, place
        reason = "its topic or queue offset contradicts the records around it; it is left out"
        complaints.append(f"{segment.path} at byte {place - segment.start}: {reason}")
    return complaints
