"""The store's face: append, read, look up, sync, remove old files.

A turn is as many appends as its owner likes and then one `write`.  Appends hand out offsets
and touch no file.  `write` puts the bytes of all of them into the log, one write per file,
and only when every one has succeeded do readers see anything.  If one fails, the whole turn
never was: its offsets are void, `write` raises `DiskFailed`, and nothing more is appended
before the bytes it may have left are wiped.

Queues and index are held in memory and written by `flush`: whoever asks sees them at once, and
a crash loses nothing, since both are made again from the log.

    append · append · … ──► write ──► begin_sync ── plan.run() ──► finish_sync
                              │ DiskFailed
                              ▼
                       refusing ── the next append, when the files could be mended ──► writable
                              └── a failure that does not pass ──► ``failed``: open it again

Reads go on whatever the disk says to writes.  There is no clock, no thread and no lock in
here: one owner calls, tells the time, and runs the plans of `begin_sync` where it likes.

Invariant: what a reader was shown once is shown again after a restart, unless retention
took it; and, once ``durable_to`` has passed it, after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from flintmq.errors import BodyTooLarge, DiskFailed, Overloaded
from flintmq.logs import logger
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.records.record_checksum import checksummed, with_room
from flintmq.protocol.records.record_pattern import RecordPattern
from flintmq.store.append_patterned import PlainAppend
from flintmq.store.batch_topics import BatchTopics
from flintmq.store.files.disk import Disk
from flintmq.store.files.failure import Health
from flintmq.store.files.group_commit import Each, GroupCommit, SyncPlan
from flintmq.store.files.layout import ABORT_FILE, LOCK_FILE
from flintmq.store.files.store_config import StoreConfig, TransferLimits
from flintmq.store.index.key_index import PENDING_MAX
from flintmq.store.mending import Mending
from flintmq.store.queues.batch_reader import read_batches
from flintmq.store.queues.dispatch import QUEUED_TYPES, Grown
from flintmq.store.queues.queue_reader import READ_BYTES_MAX, QueueReader, ReadResult
from flintmq.store.queues.queue_set import QueueSpan
from flintmq.store.queues.selection import EVERYTHING, Selection
from flintmq.store.raw_log import RawLog
from flintmq.store.record_lookup import Lookup
from flintmq.store.recovery.parts import StoreParts, assemble
from flintmq.store.recovery.recovery import recover
from flintmq.store.recovery.survey import TimerProgress, index_differs, survey, timer_progress
from flintmq.store.retention import StoreExtent, percent_used, remove_expired, too_full
from flintmq.store.sync_round import SyncRound

log = logger(__name__)

TURN_BYTES_MAX = 256 * 1024 * 1024
"""Bytes one turn may hold in memory before it is written."""

HELD_MAX = 100_000
"""Units to hold before they are written, whatever the time: 2 MB."""

NEW_QUEUES_MAX = 32
"""Queues without a file to hold before they are written: to make one takes half a millisecond."""

FEW_MAX = 1_000
"""Units and keys that are written in a millisecond or two, if they are of few queues."""


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where a record will be, once its turn is written."""

    log_offset: LogOffset
    queue_offset: QueueOffset
    size_bytes: int
    store_ms: int


class MessageLog:
    """One open store.  Made by `open`."""

    def __init__(self, parts: StoreParts, lock: int, complaints: Sequence[str]) -> None:
        config = parts.config
        in_memory_bytes = config.in_memory_bytes
        if in_memory_bytes is None:
            in_memory_bytes = parts.disk.memory_bytes() * config.in_memory_percent // 100
        self._parts = parts
        self._disk = parts.disk
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._dispatch = parts.dispatch
        self._lock = lock
        self._commit = GroupCommit(parts.disk, LogOffset(0))
        sizes = config.queue_file_bytes, config.scan_bytes_max, in_memory_bytes
        self._reader = QueueReader(parts.log, *sizes, config.transfer)
        self._record_bytes_max = config.record_bytes_max
        self._is_checked = config.record_checksums
        self._health = Health(parts.disk, parts.directory)
        self._over_full: DiskFailed | None = None
        self._mending = Mending(parts, self._commit, self._health)
        self.round = SyncRound(parts)
        ends = TURN_BYTES_MAX, self._require_room
        self.plain = PlainAppend(parts.log, parts.dispatch, config, *ends)
        self.raw = RawLog(parts, self._require_room)
        self.lookup = Lookup(parts.log, parts.queues, parts.index, in_memory_bytes)
        self.extent = StoreExtent(parts)
        self.batched = BatchTopics(parts)
        self.config = config
        self.complaints = tuple(complaints)

    @classmethod
    def open(
        cls, directory: Path, config: StoreConfig, *, process_id: int, disk: Disk | None = None
    ) -> MessageLog:
        """Take the directory for this process alone and bring it into order."""
        disk = disk or Disk()
        disk.make_root(directory)
        lock = disk.lock(directory / LOCK_FILE)
        try:
            found = survey(disk, directory, config)
            for path in found.short_files:
                disk.resize(path, found.config.commit_log_file_bytes)
            parts = assemble(disk, directory, found.config)
            was_clean = not disk.is_file(directory / ABORT_FILE)
            disk.replace(directory / ABORT_FILE, str(process_id).encode())
            complaints = [*found.complaints, *recover(parts, was_clean=was_clean)]
            complaints += index_differs(found.config, parts.index)
            for complaint in complaints:
                log.warning("%s", complaint)
            store = cls(parts, lock, complaints)
            store._sync_all()
        except BaseException:
            disk.unlock(lock)
            disk.close()
            raise
        return store

    def close(self, each: Each = map) -> None:
        """Write, sync and checkpoint everything; the next start finds a clean exit.

        ``each`` runs the syncs, see `SyncPlan.run`: of thousands of queues one by one take long.
        """
        try:
            self.write()
            self._health.require_sound()
            self._mending.mend()
            self._sync_all(each)
            self._disk.remove(self._parts.directory / ABORT_FILE)
            self._disk.sync_directory(self._parts.directory)
        finally:
            self._disk.unlock(self._lock)
            self._disk.close()

    # Appending

    def append(
        self,
        pattern: RecordPattern,
        body: bytes,
        properties: bytes,
        born_ms: int,
        born_host: bytes,
        *,
        tags_code: int = 0,
        keys: Sequence[str] = (),
        delay_level: int = 0,
        bit_map: bytes = b"",
        count: int = 1,
        now_ms: int,
    ) -> Appended:
        """Append a record of any kind; it is stored by the next `write`.

        ``keys`` are what it is found by, see `dispatch.keys_of`.  With a ``delay_level``
        its unit holds the time of delivery instead of ``tags_code``.  A record of ``count``
        messages is for a topic that keeps batches.  Raises `LocalProtocolError` for what no
        record can hold.
        """
        log, dispatch = self._log, self._dispatch
        if is_checked := self._is_checked:
            properties = with_room(properties)
        size_bytes = pattern.checked_size(body, properties, born_ms)
        self._require_room(size_bytes, now_ms)
        kind = pattern.transaction_type
        growth = dispatch.growth_of(pattern.queue) if kind in QUEUED_TYPES else None
        queue_offset = QueueOffset(0 if growth is None else growth.stop)
        log_offset = log.reserve(size_bytes)
        record = pattern.record(
            body, properties, born_ms, born_host, queue_offset, log_offset, now_ms
        )
        log.stage(checksummed(record) if is_checked else record, now_ms)
        if growth is not None:
            code = self.config.deliver_ms(delay_level, now_ms) if delay_level else tags_code
            if growth.is_batched:
                dispatch.add_batch(growth, log_offset, size_bytes, code, now_ms, count)
            else:
                dispatch.add(growth, log_offset, size_bytes, code, now_ms, bit_map)
        if keys and kind != TransactionType.ROLLBACK:
            dispatch.add_keys(pattern.topic, keys, log_offset, now_ms)
        return Appended(LogOffset(log_offset), queue_offset, size_bytes, now_ms)

    def write(self) -> list[Grown]:
        """Store what was appended; tell which queues grew.  `DiskFailed`: nothing was stored."""
        if not self._log.staged_bytes:
            return []
        try:
            self._log.write()
            self._dispatch.write()
        except BaseException as failure:
            self._log.undo()
            self._dispatch.undo()
            if isinstance(failure, DiskFailed):
                with suppress(DiskFailed):  # at once if it can be, or before the next append
                    self._mending.wipe()
                raise self._health.refuse(failure) from failure
            raise
        self._log.commit()
        grown = self._dispatch.commit()
        self._parts.last_store_ms = self._log.staged_ms
        queues = self._queues
        if (
            self._index.pending_count >= PENDING_MAX
            or queues.held_count >= HELD_MAX
            or queues.new_count >= NEW_QUEUES_MAX
        ):
            self.flush()
        return grown

    @property
    def has_turn(self) -> bool:  # something was appended and is not yet written
        return self._log.staged_bytes > 0

    @property
    def why_not(self) -> DiskFailed | None:
        """Why nothing can be appended, or nothing when it can."""
        return self._over_full or self._health.why_not

    @property
    def failed(self) -> DiskFailed | None:
        """Why nothing is ever appended again, and what to do; see `failure`."""
        return self._health.failed

    def _require_room(self, size_bytes: int, now_ms: int) -> None:
        if self._over_full is not None:
            raise self._over_full
        if self._health.why_not is not None:
            self._mending.try_again(now_ms)
        if size_bytes > self._record_bytes_max:
            raise BodyTooLarge(self._record_bytes_max, f"a record of {size_bytes} bytes")
        if self._log.staged_bytes > TURN_BYTES_MAX:
            raise Overloaded("bytes of one turn of the store", TURN_BYTES_MAX, "TURN_BYTES_MAX")

    # Syncing

    @property
    def end_offset(self) -> LogOffset:
        """Where the log ends, as readers see it."""
        return self._log.end_offset

    @property
    def durable_to(self) -> LogOffset:
        """Everything before this byte of the log is on disk."""
        return self._commit.durable_to

    def begin_sync(
        self, *, thorough: bool = False, files_max: int | None = None
    ) -> SyncPlan | None:
        """What to sync now, or nothing when there is nothing or a sync is under way.

        Run the plan anywhere, then `finish_sync`.  ``thorough`` begins a round that covers
        queues and index too and ends with a new checkpoint, from which the next recovery
        starts.  With ``files_max`` it takes several, each of which covers the log, see `SyncRound`.
        """
        self._health.require_in_place(self._log.dirty.files)
        if self._commit.is_under_way or self._mending.must_write_again:
            return None
        if thorough and self.round.may_begin and self.flush():
            self.round.begin()
        part = self.round.next_part(files_max)
        return self._commit.begin(self._log.dirty, self._log.end_offset, part or None)

    def finish_sync(self, plan: SyncPlan) -> LogOffset:
        """Take note of a plan that has run; tell what is durable.

        When it failed, `DiskFailed` is raised, and nothing is appended before the bytes it
        was about are written once more.
        """
        try:
            if not self.round.finish(plan):
                self._commit.finish(plan)
                self.round.covered(len(plan.parts) - 1)
        except DiskFailed as failure:
            self._mending.must_write_again = True
            self.round.give_up()
            raise self._health.refuse(failure) from failure
        return self._commit.durable_to

    def flush(self, *, scattered: bool = True) -> bool:
        """Write what queues and index hold; tell if no write failed.  Call it every second or so.

        Without ``scattered``, queues that are many and hold little each wait for a checkpoint.
        """
        try:
            self._health.require_sound()
            if self._health.why_not is not None:
                self._mending.mend()  # nobody may append who would do it
            if scattered or not self._queues.is_scattered:
                self._queues.flush()
            self._index.flush()
        except DiskFailed as failure:
            self._health.refuse(failure)  # the records are stored; no more come until this is tried
            return False
        return True

    def flush_few(self) -> None:
        """`flush` while that is quick.  Many keys at once share writes, so they are left alone."""
        if 0 < self._index.pending_count + self._queues.held_count <= FEW_MAX:
            self.flush(scattered=False)

    def _sync_all(self, each: Each = map) -> None:
        self.round.give_up()
        if not self.flush():
            assert self._health.why_not is not None
            raise self._health.why_not
        plan = self.begin_sync(thorough=True)
        assert plan is not None, "a sync is under way"
        plan.run(each)
        self.finish_sync(plan)

    # Reading

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: QueueOffset,
        count_max: int,
        *,
        bytes_max: int = READ_BYTES_MAX,
        wanted: Selection = EVERYTHING,
        limits: TransferLimits | None = None,
    ) -> ReadResult:
        """Records of a queue from ``offset`` on; ``limits`` replaces those of the configuration."""
        queue = self._queues.find(topic, queue_id)
        if queue is None and topic in self._queues.batch_topics:
            batches = self._queues.find_batch(topic, queue_id)
            return read_batches(self._reader, batches, offset, count_max, bytes_max, wanted, limits)
        return self._reader.read(
            queue,
            self._queues.find_extension(topic, queue_id),
            offset,
            count_max,
            bytes_max=bytes_max,
            wanted=wanted,
            limits=limits,
        )

    def read_few(
        self, topic: str, queue_id: int, offset: int, count_max: int, bytes_max: int
    ) -> ReadResult | None:
        """The same for a usual pull of everything; None for whatever `read` has to look at."""
        queue, limits = self._queues.find(topic, queue_id), self.config.transfer
        most = min(limits.memory_bytes, bytes_max), min(limits.memory_count, count_max)
        place = QueueOffset(offset)
        return None if queue is None else self._reader.read_few(queue, place, *most)

    def min_offset(self, topic: str, queue_id: int) -> QueueOffset:
        queue = self._queues.find_any(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> QueueOffset:
        queue = self._queues.find_any(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.max_offset

    def queues(self) -> Iterator[QueueSpan]:
        """Every queue that has, or had, a message."""
        return self._queues.spans()

    def timer_progress(self) -> TimerProgress | None:
        """How far the timer of a 5.x broker had come in this directory."""
        return timer_progress(self._disk, self._parts.directory)

    # Letting go

    def retain(self, now_ms: int, *, due: bool = False) -> int:
        """Remove files that are no longer kept; tell how many.  ``due``: the hour has come."""
        percent = percent_used(*self._disk.usage(self._parts.directory))
        self._over_full = too_full(self._parts, percent)
        return remove_expired(self._parts, percent, now_ms, due=due)

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic.  Its records stay in the log until their file goes."""
        self._parts.tombstones.mark_deleted(topic, self._log.end_offset)
        self._queues.remove_topic(topic)
