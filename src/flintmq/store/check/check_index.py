"""Holding the key index against the log: every key is found, every entry has its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain as chained
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from flintmq.kernel.python.many_hashes import index_hashes
from flintmq.model.java_hash import java_hash
from flintmq.model.queue import LogOffset
from flintmq.store.check.findings import Findings
from flintmq.store.index.index_file import IndexFile
from flintmq.store.index.index_repair import index_problems
from flintmq.store.log.log_scan import Damage
from flintmq.store.recovery.log_columns import Keyed
from flintmq.store.recovery.parts import StoreParts

TIME_SLACK_MS = 1_000
"""Entries know whole seconds."""

EXTRA_MAX = 1_000
"""Entries without a record that are remembered until all damage is known."""

Ints: TypeAlias = npt.NDArray[np.int64]

_COLUMNS = 5  # key hash, log offset, time, number in the file, which file


class IndexCheck:
    """Give it every record with keys, then `finish`."""

    def __init__(self, parts: StoreParts, findings: Findings, *, is_open: bool) -> None:
        self._parts = parts
        self._findings = findings
        self._is_open = is_open
        self._files = list(parts.index.files)
        self._rest = self._all_entries()
        self._held: Ints = np.empty((0, _COLUMNS), np.int64)
        self._extra: list[tuple[int, int, int]] = []
        self._late = 0
        self._backward = 0  # entries of records that were stored before the first of their file
        self.entries = sum(file.header.entry_count - 1 for file in self._files)
        self._last = max((file.header.end_log_offset for file in self._files), default=-1)
        for file in self._files:
            for problem in index_problems(file):
                if is_open:
                    findings.note(file.path, 0, problem)
                else:
                    findings.wrong_text(problem)

    def _all_entries(self) -> Iterator[Ints]:
        for number, file in enumerate(self._files):
            for first, entries in file.chunks(file.header.entry_count):
                table = np.empty((len(entries), _COLUMNS), np.int64)
                table[:, 0] = entries["key_hash"]
                table[:, 1] = entries["log_offset"]
                table[:, 2] = (
                    file.header.begin_store_ms + entries["seconds"].astype(np.int64) * 1000
                )
                table[:, 3] = np.arange(first, first + len(entries))
                table[:, 4] = number
                yield table[table[:, 1] >= self._parts.log.min_offset]

    def _take_to(self, log_offset: int) -> Ints:
        """The next entries, up to those of a record."""
        taken = []
        while True:
            stop = int(np.searchsorted(self._held[:, 1], log_offset, "right"))
            taken.append(self._held[:stop])
            self._held = self._held[stop:]
            if len(self._held):
                break
            more = next(self._rest, None)
            if more is None:
                break
            self._held = more
        return np.concatenate(taken)

    def add(self, records: Sequence[Keyed]) -> None:
        """Records with keys, in the order of the log."""
        if not records:
            return
        counts = np.array([len(record.keys) for record in records])
        keys = list(chained.from_iterable(record.keys for record in records))
        prefixes = {r.topic: java_hash(f"{r.topic}#") & 0xFFFF_FFFF for r in records}
        prefix_of = np.array([prefixes[record.topic] for record in records], np.uint32)
        hashes = index_hashes(keys, np.repeat(prefix_of, counts))
        offsets = np.repeat(np.array([r.log_offset for r in records], np.int64), counts)
        times = np.repeat(np.array([r.store_ms for r in records], np.int64), counts)
        found = self._take_to(int(offsets[-1]))
        if not _same(found, hashes, offsets):
            found = self._explain(found, hashes, offsets)
        if _same(found, hashes, offsets):
            self._check_times(found, times)

    def _check_times(self, found: Ints, times: Ints) -> None:
        away = np.abs(times - found[:, 2]) > TIME_SLACK_MS
        away &= found[:, 3] != 1  # the first entry counts from where the file before it ended
        for number in np.flatnonzero(away).tolist():
            row, time_ms = found[number], int(times[number])
            file = self._files[int(row[4])]
            if time_ms < int(row[2]) == file.header.begin_store_ms:  # none is before the first
                self._backward += 1
            else:
                self._wrong(row, f"its time should be {time_ms}")

    def _explain(self, found: Ints, hashes: Ints, offsets: Ints) -> Ints:
        """Tell what is missing and what is too much; return the entries that have a record."""
        pairs = list(zip(found[:, 0].tolist(), found[:, 1].tolist(), strict=True))
        wanted = Counter(zip(hashes.tolist(), offsets.tolist(), strict=True))
        for key_hash, place in (wanted - Counter(pairs)).elements():
            if place > self._last:
                self._late += 1
            else:
                segment = self._parts.log.segment_at(LogOffset(place))
                assert segment is not None, place
                what = f"a key of this record (hash {key_hash}) is not in the index"
                self._findings.wrong(segment.path, place - segment.start, what)
        left = wanted.copy()
        fits = np.zeros(len(pairs), np.bool_)
        for number, pair in enumerate(pairs):
            if left[pair]:
                left[pair] -= 1
                fits[number] = True
        is_late = found[:, 1] < np.maximum.accumulate(found[:, 1])
        for number in np.flatnonzero(~fits).tolist():
            row = found[number]
            if pairs[number] not in wanted:
                if len(self._extra) < EXTRA_MAX:
                    self._extra.append((int(row[1]), int(row[3]), int(row[4])))
            elif is_late[number]:
                self._wrong(row, "is there already, before entries of later records")
            else:
                self._note_repeated(row)
        return found[fits]

    def _note_repeated(self, row: Ints) -> None:
        """After a crash RocketMQ puts the keys of the last record it had indexed once more."""
        file, number = self._files[int(row[4])], int(row[3])
        what = f"entry {number} repeats one of the record at {row[1]}: RocketMQ does, after a crash"
        self._findings.note(file.path, file.shape.entry_byte(number), what)

    def finish(self, log_end: LogOffset, damages: Sequence[Damage]) -> None:
        """Every record was given.  What is left are entries without one."""
        for row in self._take_to(2**63 - 1)[:EXTRA_MAX]:
            self._extra.append((int(row[1]), int(row[3]), int(row[4])))
        for place, number, file_number in self._extra:
            file = self._files[file_number]
            where = file.path, file.shape.entry_byte(number)
            if any(damage.start <= place < damage.stop for damage in damages):
                self._findings.lost(*where, f"entry {number} is of a damaged record")
            elif self._is_open and place >= log_end:
                self._findings.note(*where, f"entry {number} is of a record that came meanwhile")
            else:
                self._findings.wrong(*where, f"entry {number}: no record at {place} has that key")
        if self._backward:
            path = self._parts.directory / "index"
            what = f"{self._backward} entries have the time of their file: the clock was set back"
            self._findings.note(path, 0, what)
        if self._late:
            path = self._parts.directory / "index"
            what = f"{self._late} keys of the newest records are not in it"
            if self._is_open:
                self._findings.note(path, 0, what)
            else:
                self._findings.wrong(path, 0, what)

    def _wrong(self, row: Ints, what: str) -> None:
        file: IndexFile = self._files[int(row[4])]
        number = int(row[3])
        self._findings.wrong(file.path, file.shape.entry_byte(number), f"entry {number}: {what}")


def _same(found: Ints, hashes: Ints, offsets: Ints) -> bool:
    """Whether these are the entries of these keys, in their order."""
    if len(found) != len(hashes):
        return False
    return bool((found[:, 0] == hashes).all() and (found[:, 1] == offsets).all())
