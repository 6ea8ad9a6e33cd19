"""One file of the key index: a hash table of chains, only ever added to.

    header · slots · entries          entry n at its number, from 1 on

A slot has the number of the newest entry of its chain, an entry that of the one before it
in the chain, 0 for none.  An entry has no key, only the key's hash, and its time as whole
seconds after the first one's: who finds a record must look at the record.

Entries are added many at a time: all of them in one write, then the slots in runs, then the
header.  The slots of the file that is being filled are kept in memory (20 MB at RocketMQ's
size), because reading them one by one would cost more than everything else.  A crash may
leave any mixture; `index_repair` makes slots and header agree with the entries again.

Invariant: an entry is never changed, and the header counts it only once its slot is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from flintmq.model.queue import LogOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_ENTRY_STRUCT,
    INDEX_HEADER_BYTES,
    INDEX_HEADER_STRUCT,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
    index_file_bytes,
)

SECONDS_MAX = 2**31 - 1

CHAIN_STEPS_MAX = 1_000_000
"""How far a chain is followed, so that one hot key cannot hold up everything else."""

BLOCK_ENTRIES = 204
"""Entries read at once while a chain is followed: 4 KB, for neighbours are often near."""

CHUNK_ENTRIES = 1 << 20
"""Entries looked at together when all of them are (20 MB)."""

RUN_GAP_SLOTS = 1_024
"""Changed slots closer than this (4 KB) are written as one run, with those between."""

Entries: TypeAlias = npt.NDArray[np.void]
Int64s: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True)
class IndexHeader:
    """What the first 40 bytes say.  ``entry_count`` is the number of the next entry."""

    begin_store_ms: int = 0
    end_store_ms: int = 0
    begin_log_offset: int = 0
    end_log_offset: int = 0
    slots_used: int = 0
    entry_count: int = 1

    def pack(self) -> bytes:
        return INDEX_HEADER_STRUCT.pack(
            self.begin_store_ms,
            self.end_store_ms,
            self.begin_log_offset,
            self.end_log_offset,
            self.slots_used,
            self.entry_count,
        )


@dataclass(frozen=True, slots=True)
class IndexShape:
    """How many slots and entries a file has room for; entry 0 is never used."""

    slots: int
    entries: int

    @property
    def file_bytes(self) -> int:
        return index_file_bytes(self.slots, self.entries)

    @property
    def entries_byte(self) -> int:
        return INDEX_HEADER_BYTES + self.slots * INDEX_SLOT_BYTES

    def entry_byte(self, number: int) -> int:
        return self.entries_byte + number * INDEX_ENTRY_BYTES


class IndexFile:
    """A file whose shape is known: `open_index_file` tells it, `create_index_file` is told."""

    __slots__ = ("_slots", "disk", "header", "path", "shape")

    def __init__(self, disk: Disk, path: Path, shape: IndexShape, header: IndexHeader) -> None:
        self.disk = disk
        self.path = path
        self.shape = shape
        self.header = header
        self._slots: npt.NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"<IndexFile {self.path.name} {self.header}>"

    @property
    def room(self) -> int:
        """How many entries more it takes."""
        return max(self.shape.entries - self.header.entry_count, 0)

    @property
    def is_empty(self) -> bool:
        return self.header.entry_count <= 1

    def release(self) -> None:
        """Nothing more will be added: forget the slots."""
        self._slots = None

    # Adding

    def add(self, key_hashes: Int64s, log_offsets: Int64s, store_ms: Int64s) -> None:
        """Add entries in their order.  When the disk refuses, none is added."""
        count = len(key_hashes)
        assert 0 < count <= self.room, (count, self)
        header = self.header
        begin_ms = int(store_ms[0]) if self.is_empty else header.begin_store_ms
        entries = np.empty(count, INDEX_ENTRY)
        entries["key_hash"] = key_hashes
        entries["log_offset"] = log_offsets
        entries["seconds"] = _seconds(store_ms, begin_ms)
        if self.is_empty:  # measured from where the file before ended
            entries["seconds"][0] = _seconds(store_ms[:1], header.begin_store_ms)[0]
        table = self.slot_table()
        heads, previous = chain(key_hashes % self.shape.slots, table, header.entry_count)
        entries["previous"] = previous
        old = table[heads.slots]
        new = IndexHeader(
            begin_ms,
            int(store_ms[-1]),
            int(log_offsets[0]) if self.is_empty else header.begin_log_offset,
            int(log_offsets[-1]),
            header.slots_used + int(np.count_nonzero(previous == 0)),
            header.entry_count + count,
        )
        place = self.shape.entry_byte(header.entry_count)
        self.disk.write(self.path, place, (entries.view(np.uint8).data,))
        try:
            table[heads.slots] = heads.numbers
            self._write_slots(heads.slots)
            self.disk.write(self.path, 0, (new.pack(),))
        except BaseException:
            table[heads.slots] = old
            raise
        self.header = new

    def slot_table(self) -> npt.NDArray[Any]:
        if self._slots is None:
            raw = np.zeros(self.shape.slots * INDEX_SLOT_BYTES, np.uint8)
            stop = self.shape.entries_byte
            for at, data in self.disk.written_blocks(self.path, INDEX_HEADER_BYTES, stop):
                start = at - INDEX_HEADER_BYTES
                raw[start : start + len(data)] = np.frombuffer(data, np.uint8)
            self._slots = raw.view(INDEX_SLOT)
        return self._slots

    def _write_slots(self, slots: Int64s) -> None:
        """Write changed slots, given in ascending order, in as few runs as is sensible."""
        raw = self.slot_table().view(np.uint8).data
        breaks = np.flatnonzero(np.diff(slots) > RUN_GAP_SLOTS)
        starts = slots[np.concatenate(([0], breaks + 1))].tolist()
        stops = (slots[np.concatenate((breaks, [len(slots) - 1]))] + 1).tolist()
        for start, stop in zip(starts, stops, strict=True):
            start_byte, stop_byte = start * INDEX_SLOT_BYTES, stop * INDEX_SLOT_BYTES
            place = INDEX_HEADER_BYTES + start_byte
            self.disk.write(self.path, place, (raw[start_byte:stop_byte],))

    # Looking

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        return begin_ms <= self.header.end_store_ms and end_ms >= self.header.begin_store_ms

    def find(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> list[LogOffset]:
        """Records under a hash and within a time, the newest first."""
        found: list[LogOffset] = []
        entry_count = self.header.entry_count
        number = self.slot(key_hash)
        first, block = 0, b""
        for _ in range(CHAIN_STEPS_MAX):
            if not 0 < number <= entry_count or len(found) >= count_max or self.is_empty:
                break
            at = (number - first) * INDEX_ENTRY_BYTES
            if not 0 <= at < len(block):
                first = max(number - BLOCK_ENTRIES + 1, 0)
                at = (number - first) * INDEX_ENTRY_BYTES
                block = self.disk.read(
                    self.path, self.shape.entry_byte(first), at + INDEX_ENTRY_BYTES
                )
                if len(block) < at + INDEX_ENTRY_BYTES:
                    break
            hash_there, log_offset, seconds, previous = INDEX_ENTRY_STRUCT.unpack_from(block, at)
            stored_ms = self.header.begin_store_ms + seconds * 1000
            if seconds < 0:
                break
            if hash_there == key_hash and begin_ms <= stored_ms <= end_ms:
                found.append(LogOffset(log_offset))
            if previous == number or stored_ms < begin_ms:
                break
            number = previous
        return found

    def slot(self, key_hash: int) -> int:
        place = INDEX_HEADER_BYTES + key_hash % self.shape.slots * INDEX_SLOT_BYTES
        return int.from_bytes(self.disk.read(self.path, place, INDEX_SLOT_BYTES), signed=True)

    def read_entries(self, start: int, stop: int) -> Entries:
        """Entries ``[start, stop)`` by number, fewer if the file ends before."""
        size_bytes = (stop - start) * INDEX_ENTRY_BYTES
        data = self.disk.read(self.path, self.shape.entry_byte(start), size_bytes)
        return np.frombuffer(data, INDEX_ENTRY, len(data) // INDEX_ENTRY_BYTES)

    def entries(self) -> Entries:
        """All entries, from number 1 on."""
        return self.read_entries(1, self.header.entry_count)

    def chunks(self, stop: int) -> Iterator[tuple[int, Entries]]:
        """The entries before a number, some at a time, each time with the first's number."""
        for first in range(1, stop, CHUNK_ENTRIES):
            yield first, self.read_entries(first, min(first + CHUNK_ENTRIES, stop))

    def settle(self, header: IndexHeader, slots: npt.NDArray[Any]) -> None:
        """Replace slots and header, and wipe what lies behind the last entry."""
        changed = np.flatnonzero(self.slot_table() != slots)
        self._slots = slots
        if len(changed):
            self._write_slots(changed)
        place = self.shape.entry_byte(header.entry_count)
        self.disk.wipe(self.path, place, self.shape.file_bytes)
        if header != self.header:
            self.disk.write(self.path, 0, (header.pack(),))
        self.header = header


class Heads(NamedTuple):
    """The slots a run of entries changes, in ascending order, and what they then hold."""

    slots: Int64s
    numbers: Int64s


def chain(slots: Int64s, table: npt.NDArray[Any], first_number: int) -> tuple[Heads, Int64s]:
    """Chain entries with the given slots into a table, without changing it.

    Returned with the new heads is the number of the entry before each entry.
    """
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    numbers = order + first_number
    is_other = slots[1:] != slots[:-1]
    is_first = np.concatenate(([True], is_other))
    is_last = np.concatenate((is_other, [True]))
    before = np.empty_like(numbers)
    before[1:] = numbers[:-1]
    held = table[slots[is_first]].astype(np.int64)
    before[is_first] = np.where((held > 0) & (held <= numbers[is_first]), held, 0)
    previous = np.empty_like(before)
    previous[order] = before
    return Heads(slots[is_last], numbers[is_last]), previous


def _seconds(store_ms: Int64s, begin_ms: int) -> Int64s:
    if begin_ms <= 0:
        return np.zeros(len(store_ms), np.int64)
    return np.clip((store_ms - begin_ms) // 1000, 0, SECONDS_MAX)


def create_index_file(
    disk: Disk, path: Path, shape: IndexShape, before: IndexHeader | None
) -> IndexFile:
    """A new file.  Until its first entry its times and places are those the one before ends at."""
    disk.create(path, shape.file_bytes)
    header = IndexHeader()
    if before is not None:
        header.begin_store_ms = header.end_store_ms = before.end_store_ms
        header.begin_log_offset = header.end_log_offset = before.end_log_offset
    return IndexFile(disk, path, shape, header)
