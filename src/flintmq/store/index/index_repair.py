"""Index files that were found: what shape they have, whether they are whole, how to mend them.

How many slots a file has is not written in it.  It is told from the file's size and from
where its last entry lies.  A crash may leave any mixture of old and new in a file; what
counts are the entries, and slots and header are made from them.

Invariant: after `cut_index_file` the file says what its entries say, and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from flintmq.errors import CorruptRecord
from flintmq.model.queue import LogOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_HEADER_STRUCT,
    INDEX_SLOT,
    INDEX_SLOT_BYTES,
)
from flintmq.store.index.index_file import (
    Entries,
    IndexFile,
    IndexHeader,
    IndexShape,
    Int64s,
    chain,
)


def open_index_file(disk: Disk, path: Path, likely: IndexShape) -> tuple[IndexFile, str]:
    """Read the header of a file and tell its shape; with it comes what seems wrong, if anything.

    The likely shape is taken when the size is right and the first and last entry are where
    it puts them.  Otherwise the last entry is looked for: it has the last bytes that are not
    zero, its number is in the header, and the distance from it to the end of the file is a
    number of whole entries.  A file of the likely size that fits nothing may be what a crash
    left, which `cut_index_file` mends.  Anything else is `CorruptRecord`.
    """
    size_bytes = disk.size_bytes(path)
    if size_bytes <= INDEX_HEADER_BYTES:
        raise CorruptRecord(str(path), size_bytes, "too short for an index file")
    header = IndexHeader(*INDEX_HEADER_STRUCT.unpack(disk.read(path, 0, INDEX_HEADER_BYTES)))
    if header.entry_count == 0:
        header.entry_count = 1  # new, and nothing was added yet
    file = IndexFile(disk, path, likely, header)
    is_likely = size_bytes == likely.file_bytes
    if is_likely and (_is_new(file) or _fits(file)):
        return file, ""
    told = _told_shape(file, size_bytes)
    if told is not None:
        found = IndexFile(disk, path, told, header)
        if _fits(found):
            return found, ""
    if not is_likely:
        reason = f"an index file of {size_bytes} bytes whose number of slots cannot be told"
        raise CorruptRecord(str(path), 0, reason)
    if not 0 < header.entry_count <= likely.entries or not (file.is_empty or _begins_well(file)):
        raise CorruptRecord(str(path), 0, "header and first entry contradict each other")
    return file, f"{path}: header, slots and last entry contradict each other"


def _told_shape(file: IndexFile, size_bytes: int) -> IndexShape | None:
    last = 0
    for at, block in file.disk.written_blocks(file.path, INDEX_HEADER_BYTES, size_bytes):
        length = len(block.rstrip(b"\0"))
        last = at + length - 1 if length else last
    last_entry = last - (last - size_bytes) % INDEX_ENTRY_BYTES
    entries_byte = last_entry - (file.header.entry_count - 1) * INDEX_ENTRY_BYTES
    slots, rest = divmod(entries_byte - INDEX_HEADER_BYTES, INDEX_SLOT_BYTES)
    if slots < 1 or rest:
        return None
    return IndexShape(slots, (size_bytes - entries_byte) // INDEX_ENTRY_BYTES)


def _is_new(file: IndexFile) -> bool:
    first = file.read_entries(1, 2).tobytes()
    return file.header.entry_count == 1 and not file.header.slots_used and not first.strip(b"\0")


def _begins_well(file: IndexFile) -> bool:
    first = file.read_entries(1, 2)
    return bool(
        len(first)
        and first["log_offset"][0] == file.header.begin_log_offset
        and first["key_hash"][0] >= 0
        and first["previous"][0] == 0
    )


def _fits(file: IndexFile) -> bool:
    """True when the first entry, the last entry and its slot are where the shape puts them."""
    header = file.header
    last = file.read_entries(header.entry_count - 1, header.entry_count)
    return bool(
        1 < header.entry_count <= file.shape.entries
        and _begins_well(file)
        and last["log_offset"][0] == header.end_log_offset
        and last["key_hash"][0] >= 0
        and file.slot(int(last["key_hash"][0])) == header.entry_count - 1
    )


def index_problems(file: IndexFile) -> list[str]:
    """Everything in the file that does not follow from its entries."""
    told: list[str] = []
    wanted = np.zeros(file.shape.slots, INDEX_SLOT)
    before = file.header.begin_log_offset
    for first, entries in file.chunks(file.header.entry_count):
        hashes = entries["key_hash"].astype(np.int64)
        heads, previous = chain(hashes % file.shape.slots, wanted, first)
        wanted[heads.slots] = heads.numbers
        for what, wrong in (
            ("has a negative hash", hashes < 0),
            ("has a negative time", entries["seconds"] < 0),
            ("lies before its predecessor in the log", _steps(entries, before) < 0),
            ("is chained to the wrong entry", entries["previous"] != previous),
        ):
            if wrong.any():
                told.append(f"{file.path}: entry {first + int(np.argmax(wrong))} {what}")
        before = int(entries["log_offset"][-1])
    if before != file.header.end_log_offset:
        told.append(f"{file.path}: the header ends at {file.header.end_log_offset}")
    wrong = file.slot_table() != wanted
    if wrong.any():
        told.append(f"{file.path}: slot {int(np.argmax(wrong))} has the wrong entry")
    if file.header.slots_used != np.count_nonzero(wanted):
        told.append(f"{file.path}: {file.header.slots_used} slots are said to be used")
    return told


def cut_index_file(file: IndexFile, log_stop: LogOffset) -> LogOffset:
    """Forget entries of records at or past ``log_stop``; make the file whole for the rest.

    Slots and header are made from the entries.  Returned is where the records begin that
    must be put again: ``log_stop``, or earlier when entries before it are no good.
    """
    stop = file.header.entry_count
    before = file.header.begin_log_offset
    again = log_stop
    for first, entries in file.chunks(file.header.entry_count):
        offsets = entries["log_offset"].astype(np.int64)
        if stop == file.header.entry_count:
            good = (offsets < log_stop) & (_steps(entries, before) >= 0)
            good &= (entries["key_hash"] >= 0) & (entries["seconds"] >= 0)
            if good.all():
                before = int(offsets[-1])
                continue
            kept = int(np.argmin(good))
            before = int(offsets[kept - 1]) if kept else before
            stop = first + kept
            offsets = offsets[kept + 1 :]
        if ((offsets > before) & (offsets < log_stop)).any():  # not the end: damage
            again, stop = _last_whole(file, stop)
            break
    _keep(file, stop)
    return again


def _last_whole(file: IndexFile, stop: int) -> tuple[LogOffset, int]:
    """Where to go on when entry ``stop`` is damaged: behind the last record that is complete."""
    again = file.header.begin_log_offset
    while stop > 1:
        log_offset = int(file.read_entries(stop - 1, stop)["log_offset"][0])
        if log_offset < again:
            break
        again = log_offset
        stop -= 1
    return LogOffset(again), stop


def _keep(file: IndexFile, stop: int) -> None:
    """Make header and slots say what the entries before ``stop`` say; wipe the others."""
    old = file.header
    wanted = np.zeros(file.shape.slots, INDEX_SLOT)
    for first, entries in file.chunks(stop):  # of equal slots the last one wins
        slots = entries["key_hash"].astype(np.int64) % file.shape.slots
        wanted[slots] = np.arange(first, first + len(entries))
    new = replace(old, entry_count=stop, slots_used=int(np.count_nonzero(wanted)))
    if 1 < stop < old.entry_count:
        _, log_offset, seconds, _ = file.read_entries(stop - 1, stop)[0].item()
        new.end_log_offset = log_offset
        new.end_store_ms = min(old.begin_store_ms + seconds * 1000 + 999, old.end_store_ms)
    file.settle(new, wanted)


def _steps(entries: Entries, before: int) -> Int64s:
    """How far each entry's record lies behind the one before it in the log."""
    offsets: Int64s = entries["log_offset"].astype(np.int64)
    return offsets - np.concatenate(([before], offsets[:-1]))
