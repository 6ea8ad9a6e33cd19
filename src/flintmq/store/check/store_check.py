"""Proving that the files of a store agree with each other, or telling what does not.

The log is walked from its first record to its last.  Every record must be whole, must have
its unit in its queue and its keys in the index; every unit and every entry must have its
record; nothing may lie behind the end of anything.  Checkpoint and tables must make sense.

    WRONG   two files contradict each other, or one contradicts itself
    LOST    records that cannot be read any more; everything else goes on around them
    NOTE    nothing to worry about: a broker at work, or one that was killed

Nothing is written and nothing is locked.  Beside a running broker, queues are looked at
before the log, so a unit always finds its record; what arrives meanwhile is a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from flintmq.errors import FlintError, StoreRefused
from flintmq.model.queue import LogOffset
from flintmq.model.route import QUEUES_MAX
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.store.check.check_batches import BatchCheck
from flintmq.store.check.check_index import IndexCheck
from flintmq.store.check.check_queues import QueueCheck
from flintmq.store.check.findings import Findings, Severity
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.layout import (
    ABORT_FILE,
    CHECKPOINT_BYTES,
    CHECKPOINT_FILE,
    CONFIG_DIRECTORY,
)
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.log.log_scan import LogScan
from flintmq.store.recovery.log_columns import by_kind, by_queue, keyed, topics_of
from flintmq.store.recovery.parts import StoreParts, assemble
from flintmq.store.recovery.survey import survey

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many bytes of the log were walked, and how many there are."""


class Exit(Enum):
    """How the last broker left the store."""

    CLEAN = "closed"
    OPEN = "open, or its broker was killed"


@dataclass(slots=True)
class CheckReport:
    """What a check found and how much it looked at."""

    directory: str
    exit: Exit
    findings: Findings = field(default_factory=Findings)
    records: int = 0
    log_bytes: int = 0
    log_end: LogOffset | None = None
    """Where the log ends; nothing when it could not be walked."""
    queues: int = 0
    units: int = 0
    index_entries: int = 0

    @property
    def is_good(self) -> bool:
        return not (self.findings.count(Severity.WRONG) or self.findings.count(Severity.LOST))


def check_store(
    disk: Disk, directory: Path, config: StoreConfig, progress: Progress | None = None
) -> CheckReport:
    """Look at everything.  A store that cannot be served is a finding too."""
    is_open = disk.is_file(directory / ABORT_FILE)
    report = CheckReport(str(directory), Exit.OPEN if is_open else Exit.CLEAN)
    findings = report.findings
    try:
        found = survey(disk, directory, config)
    except StoreRefused as refusal:
        findings.wrong_text(str(refusal))
        return report
    for path in found.short_files:
        findings.wrong(path, disk.size_bytes(path), "ends before its size")
    if found.short_files:
        return report  # a map of them would end too early
    parts = assemble(disk, directory, found.config)
    for complaint in (*parts.index.load(), *parts.queues.load(), *parts.log.load()):
        findings.wrong_text(complaint)
    parts.tombstones.load()
    for path in parts.index.broken:
        findings.wrong(path, 0, "cannot be used")
    _walk(parts, report, is_open=is_open, progress=progress)
    _check_checkpoint(parts, findings)
    _check_tables(parts, findings)
    _check_queue_ids(parts, findings)
    return report


def _walk(
    parts: StoreParts, report: CheckReport, *, is_open: bool, progress: Progress | None
) -> None:
    """Walk the log and hold queues and index against it."""
    findings = report.findings
    queues = QueueCheck(parts, findings, is_open=is_open)
    batches = BatchCheck(parts, findings, is_open=is_open)
    index = IndexCheck(parts, findings, is_open=is_open)
    start = parts.log.min_offset
    total = sum(segment.size_bytes for segment in parts.log.segments)
    scan = LogScan(parts.disk, parts.log.segments, start)
    newest_ms = 0
    for base, columns in scan:
        topics = topics_of(columns)
        arrivals = by_queue(parts.config, parts.tombstones, base, columns, topics)
        plain, batched = by_kind(arrivals, parts.queues)
        queues.add(plain)
        batches.add(batched)
        index.add(list(keyed(base, columns, topics)))
        report.records += len(columns)
        newest_ms = max(newest_ms, int(columns.store_ms.max()))
        if progress is not None:
            progress(base + columns.end.position - start, total)
    report.log_bytes = scan.end - start
    report.log_end = scan.end
    for damage in scan.damages:
        if not damage.is_tail:
            findings.lost(damage.path, damage.position, f"{damage.reason}; records follow")
        elif is_open:
            findings.note(damage.path, damage.position, "bytes behind the last whole record")
        else:
            findings.wrong(damage.path, damage.position, f"{damage.reason}; nothing follows")
    queues.finish(scan.end, scan.damages)
    batches.finish(scan.end, scan.damages)
    index.finish(scan.end, scan.damages)
    report.queues = len(parts.queues)
    report.units = queues.units + batches.units
    report.index_entries = index.entries
    parts.last_store_ms = newest_ms


def _check_checkpoint(parts: StoreParts, findings: Findings) -> None:
    path = parts.directory / CHECKPOINT_FILE
    if not parts.disk.is_file(path):
        if parts.log.segments:
            findings.note(path, 0, "is missing: the next start reads the whole log")
        return
    if parts.disk.size_bytes(path) != CHECKPOINT_BYTES:
        findings.wrong(path, 0, f"has not {CHECKPOINT_BYTES} bytes")
    times = (parts.checkpoint.log_ms, parts.checkpoint.queues_ms, parts.checkpoint.index_ms)
    for number, time_ms in enumerate(times):
        if time_ms < 0:
            findings.wrong(path, 8 * number, "a time before all times")
        elif time_ms > parts.last_store_ms and parts.log.segments:
            reason = f"{time_ms} is after the newest record, {parts.last_store_ms}"
            findings.wrong(path, 8 * number, reason)


def _check_queue_ids(parts: StoreParts, findings: Findings) -> None:
    """Name the queues that no topic has.  Their files agree; a broker does not serve them."""
    for queue in parts.queues:
        if queue.queue_id >= QUEUES_MAX:
            path, _ = queue.place(queue.min_offset)
            reason = f"queue {queue.queue_id} of {queue.topic!a} is served by no broker"
            findings.note(path, 0, f"{reason}: a topic has at most {QUEUES_MAX} queues")


def _check_tables(parts: StoreParts, findings: Findings) -> None:
    tables = Tables(parts.disk, parts.directory)
    for table in (tables.topics, tables.groups, tables.filters):
        try:
            table.load()
        except FlintError as error:
            findings.wrong_text(str(error))
    try:
        offsets = tables.consumer_offsets.load()
        delays = tables.delay_offsets.load()
    except FlintError as error:
        findings.wrong_text(str(error))
        return
    ahead: Counter[str] = Counter()
    for name, by_queue_id in offsets.offset_table.items() if offsets is not None else ():
        topic = name.partition("@")[0]
        for queue_id, offset in by_queue_id.items():
            queue = parts.queues.find_any(topic, queue_id)
            if queue is not None and offset > queue.max_offset:
                ahead[name] += 1
    for name, count in ahead.items():
        path = parts.directory / CONFIG_DIRECTORY / "consumerOffset.json"
        findings.note(path, 0, f"{name} is ahead of {count} of its queues")
    for level, offset in delays.offset_table.items() if delays is not None else ():
        queue = parts.queues.find(SCHEDULE_TOPIC, level - 1)
        if queue is not None and offset > queue.max_offset:
            path = parts.directory / CONFIG_DIRECTORY / "delayOffset.json"
            findings.note(path, 0, f"level {level} is ahead of its queue")
