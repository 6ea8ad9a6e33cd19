"""Which records carry a key: the index files of a store.

`put` only remembers; `flush` writes what was remembered in bulk.  One random write of four
bytes per key would cost more than the record itself.  A crash loses nothing, because what
the index lacks is in the log.  So whoever owns the index flushes it every now and then, and
syncs it before a checkpoint says so.

Files are filled one after the other and are looked through from the newest to the oldest.
They are named by the local time of their first entry.  Names must only sort, so when a
clock went back the name after the last one is taken.

Invariant: every entry on disk is of a record that was put, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from flintmq.errors import CorruptRecord
from flintmq.kernel.face import loops
from flintmq.kernel.python.send_forms import Keyed
from flintmq.model.java_hash import java_hash
from flintmq.model.queue import LogOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import INDEX_NAME_DIGITS, UNIT_STRUCT
from flintmq.store.index.index_file import (
    IndexFile,
    IndexShape,
    Int64s,
    create_index_file,
)
from flintmq.store.index.index_repair import cut_index_file, open_index_file

QUERY_COUNT_MAX = 64
"""More records than this no query finds; RocketMQ's limit."""

PENDING_MAX = 100_000
"""Keys to collect before a flush is due, whatever the time: about 20 MB."""

NAMED_MS_MAX = 253_370_764_800_000  # the year 9999; a damaged time must not stop the index


class KeyIndex:
    """Call `load` before anything else."""

    def __init__(self, disk: Disk, directory: Path, slots: int, entries: int) -> None:
        assert min(slots, entries - 1) > 0, (slots, entries)
        self._disk = disk
        self._directory = directory
        self.shape = IndexShape(slots, entries)
        """Of files yet to be made.  `load` replaces it by that of the newest file."""
        self.files: list[IndexFile] = []  # oldest first
        self.broken: list[Path] = []
        self.dirty = DirtyFiles()
        self._end = -1  # log offset of the last record put
        self._keys: list[str] = []
        self._records: list[Keyed] = []
        self._shared = 0  # how often keys stand for one more record
        self._hashed: tuple[Int64s, Int64s, Int64s] | None = None  # not written yet

    def load(self) -> list[str]:
        """Find the files; tell what is wrong with them.  Reads only.

        A file that cannot be used is in ``broken`` and left alone until `remove_broken`.
        """
        complaints: list[str] = []
        self.files, self.broken = [], []
        for name in self._disk.names(self._directory):
            path = self._directory / name
            if len(name) != INDEX_NAME_DIGITS or not (name.isascii() and name.isdigit()):
                complaints.append(f"{path}: no index file")
                continue
            try:
                file, complaint = open_index_file(self._disk, path, self.shape)
            except CorruptRecord as error:
                self.broken.append(path)
                complaint = str(error)
            else:
                self.files.append(file)
                self.shape = file.shape
            if complaint:
                complaints.append(complaint)
        self._end = self._end_in_files()
        return complaints

    def _end_in_files(self) -> int:
        ends = (f.header.end_log_offset for f in reversed(self.files) if not f.is_empty)
        return next(ends, -1)

    # What it knows

    @property
    def pending_count(self) -> int:
        """Keys that were put and not flushed."""
        hashed = len(self._hashed[0]) if self._hashed else 0
        return len(self._keys) + self._shared + hashed

    @property
    def end_log_offset(self) -> LogOffset | None:
        """The last record put, or nothing when there is none."""
        return LogOffset(self._end) if self._end >= 0 else None

    @property
    def end_store_ms(self) -> int:
        """Store time of the last record that is in a file; 0 when there is none."""
        return next((f.header.end_store_ms for f in reversed(self.files) if not f.is_empty), 0)

    # Filling

    def add(self, topic: str, keys: Sequence[str], log_offset: LogOffset, store_ms: int) -> None:
        """Remember the keys of a record that is in the log.

        Records come in their order; one that was put already is passed over.
        """
        if keys and log_offset > self._end:
            self._end = log_offset
            self._keys += keys
            self._records.append((topic, len(keys), log_offset, store_ms))

    def add_all(self, records: Sequence[Keyed], keys: Sequence[str], shared: int = 0) -> None:
        """Remember the keys of new records, in their order.

        ``shared`` is how many more there would be if no records shared theirs.
        """
        assert _place(records[0], last=False) > self._end, records[0]
        self._end = _place(records[-1], last=True)
        self._keys += keys
        self._records += records
        self._shared += shared

    def flush(self) -> None:
        """Write what was put.  When the disk refuses, the rest waits for the next time."""
        if self._records:
            self._hash_pending()
        while self._hashed is not None:
            hashes, offsets, times = self._hashed
            file = self._file_with_room(int(times[0]))
            count = min(file.room, len(hashes))
            self.dirty.wrote(file.path)
            file.add(hashes[:count], offsets[:count], times[:count])
            rest = hashes[count:], offsets[count:], times[count:]
            self._hashed = rest if len(rest[0]) else None

    def _hash_pending(self) -> None:
        hashed = as_arrays(*loops.hash_keys(self._records, self._keys))
        if self._hashed is not None:
            one, two, three = (
                np.concatenate(pair) for pair in zip(self._hashed, hashed, strict=True)
            )
            hashed = one, two, three
        self._hashed = hashed
        self._keys, self._records, self._shared = [], [], 0

    def _file_with_room(self, store_ms: int) -> IndexFile:
        last = self.files[-1] if self.files else None
        if last is not None and last.room:
            return last
        names = [file.path.name for file in self.files] + [path.name for path in self.broken]
        name = max(index_file_name(store_ms), _name_after(max(names, default="")))
        path = self._directory / name
        file = create_index_file(
            self._disk, path, self.shape, last.header if last is not None else None
        )
        if last is not None:
            last.release()
        self.files.append(file)
        self.dirty.renamed(self._directory, self._directory.parent)
        return file

    # Asking

    def query(
        self, topic: str, key: str, count_max: int, begin_ms: int, end_ms: int
    ) -> list[LogOffset]:
        """Records that probably carry a key, of the newest file first.

        Only hashes and whole seconds were compared: look at the records.
        """
        self.flush()
        key_hash = index_hash(topic, key)
        count_max = min(count_max, QUERY_COUNT_MAX)
        found: list[LogOffset] = []
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                found += file.find(key_hash, begin_ms, end_ms, count_max - len(found))
            if file.header.begin_store_ms < begin_ms or len(found) >= count_max:
                break
        return found

    # Shortening

    def cut_from(self, log_stop: LogOffset) -> LogOffset:
        """Forget records at or past ``log_stop``, and mend the rest after a crash.

        Put every record again from where the answer says; that is ``log_stop``, or earlier
        when something before it was damaged.  Files from a broken one on go as a whole.
        """
        self._keys, self._records, self._shared, self._hashed = [], [], 0, None
        again = log_stop
        if self.broken:
            oldest = min(path.name for path in self.broken)
            while self.files and self.files[-1].path.name > oldest:
                self._remove(self.files[-1].path)
                self.files.pop()
            self.remove_broken()
            end = self._end_in_files()  # of which more keys may have been in the next file
            again = min(again, LogOffset(max(end, 0)))
        for file in reversed(self.files):
            is_whole = not file.room and file is not self.files[-1]
            if is_whole and file.header.end_log_offset < again:
                break
            self.dirty.wrote(file.path)
            again = min(again, cut_index_file(file, again))
        while self.files and self.files[-1].is_empty:
            self._remove(self.files[-1].path)
            self.files.pop()
        self._end = self._end_in_files()
        return again

    def remove_before(self, log_min: LogOffset) -> int:
        """Remove files whose records are all gone, never the last one; tell how many."""
        removed = 0
        while len(self.files) > 1 and self.files[0].header.end_log_offset < log_min:
            self._remove(self.files.pop(0).path)
            removed += 1
        return removed

    def remove_broken(self) -> None:
        """Remove files that cannot be used.  Their records must be put again."""
        while self.broken:
            self._remove(self.broken[-1])
            self.broken.pop()

    def clear(self) -> None:
        """Remove every file, to be filled anew."""
        self._keys, self._records, self._shared, self._hashed = [], [], 0, None
        self._end = -1
        self.remove_broken()
        while self.files:
            self._remove(self.files[-1].path)
            self.files.pop()

    def _remove(self, path: Path) -> None:
        self._disk.remove(path)
        self.dirty.removed(path)


def index_file_name(store_ms: int) -> str:
    """The name of a file whose first entry is of that time."""
    moment = datetime.fromtimestamp(min(max(store_ms, 0), NAMED_MS_MAX) / 1000, UTC).astimezone()
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def _name_after(name: str) -> str:
    """A name that sorts right behind another; it need not be a time that exists."""
    return f"{int(name) + 1:0{INDEX_NAME_DIGITS}d}" if name else ""


def _place(record: Keyed, *, last: bool) -> int:
    """The log offset of a record; of several that share their keys, that of the first or last."""
    place = record[2]
    if isinstance(place, int):
        return place
    return int(UNIT_STRUCT.unpack_from(place, len(place) - UNIT_STRUCT.size if last else 0)[0])


def as_arrays(hashes: bytes, offsets: bytes, times: bytes) -> tuple[Int64s, Int64s, Int64s]:
    """What `hash_keys` gives, as the files take it."""
    one, two, three = (np.frombuffer(octets, np.int64) for octets in (hashes, offsets, times))
    return one, two, three


def index_hash(topic: str, key: str) -> int:
    """What an entry holds for a key: the size of its hash, and 0 where that has none."""
    size = abs(java_hash(f"{topic}#{key}"))
    return size if size < 2**31 else 0
