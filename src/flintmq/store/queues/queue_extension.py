"""What a queue's units have no room for: store times and bit maps of filters.

With extended queues the third field of a consume queue unit is not a tags code but the
address of an extension unit, a number far below every tags code.

    size 2 · tags code 8 · store time 8 · bit map size 2 · bit map

Units lie one after the other in files of equal size.  One that would not leave 4 bytes free
at the end of a file goes to the next; a size of -1 marks where it was skipped.

    stage(…)        an address for the unit; nothing is written yet
    write()         bytes go to disk
    advance()       the turn succeeded
    undo()          the turn failed: the bytes become zeros again

Invariant: an address given out by a turn that succeeded can be read until its file goes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk
from flintmq.store.files.file_sequence import FileRow
from flintmq.store.files.layout import (
    EXTENSION_ADDRESS_MAX,
    EXTENSION_ADDRESS_ZERO,
    EXTENSION_BYTES_MAX,
    EXTENSION_FILE_END,
    EXTENSION_FILE_SPARE_BYTES,
    EXTENSION_HEAD,
    EXTENSION_HEAD_BYTES,
)

READ_BYTES = 64
"""Read at once: a unit with a bit map of the usual 14 bytes and more."""

WALK_BYTES = 65_536
"""Read at once while walking from unit to unit."""

FILE_ENDED = -1


class ExtensionUnit(NamedTuple):
    tags_code: int
    store_ms: int
    bit_map: bytes


def is_address(tags_code: int) -> bool:
    """Whether the third field of a consume queue unit points to an extension unit."""
    return tags_code <= EXTENSION_ADDRESS_MAX


class QueueExtension:
    """``directory`` is the queue's own.  Call `load` when it may exist already."""

    __slots__ = ("_end", "_row", "_staged", "_written")

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        self._row = FileRow(disk, directory, file_bytes)
        self._end: int | None = 0  # where the next unit goes; unknown until it is needed
        self._written = 0  # up to where bytes may lie on disk while a turn is under way
        self._staged = bytearray()

    @property
    def dirty(self) -> DirtyFiles:
        """What a sync has to bring to disk."""
        return self._row.dirty

    def load(self) -> list[str]:
        """Find the files; tell what is wrong with them.  Reads only.

        Before anything is staged, `truncate_after` has to say which address was the last.
        """
        complaints = self._row.load()
        self._end = 0 if self._row.is_empty else None
        self._staged.clear()
        return complaints

    def read(self, address: int) -> ExtensionUnit | None:
        """The unit at an address, or nothing when there is none that makes sense."""
        position = address - EXTENSION_ADDRESS_ZERO
        if not is_address(address) or (self._end is not None and position >= self._end):
            return None
        data = self._row.read(position, READ_BYTES)
        if len(data) < EXTENSION_HEAD_BYTES:
            return None
        size_bytes, tags_code, store_ms, map_bytes = EXTENSION_HEAD.unpack_from(data)
        if map_bytes < 0 or size_bytes != EXTENSION_HEAD_BYTES + map_bytes:
            return None
        if size_bytes > len(data):
            data = self._row.read(position, size_bytes)
            if size_bytes > len(data):
                return None
        return ExtensionUnit(tags_code, store_ms, data[EXTENSION_HEAD_BYTES:size_bytes])

    # Writing

    def stage(self, tags_code: int, store_ms: int, bit_map: bytes) -> int:
        """Take a unit into the turn.  Returned is what the queue's unit has to hold.

        That is the address, or the tags code itself when there is no room for such a unit:
        readers take that for a unit without an extension.
        """
        size_bytes = EXTENSION_HEAD_BYTES + len(bit_map)
        room = self._row.file_bytes - EXTENSION_FILE_SPARE_BYTES
        if size_bytes > min(room, EXTENSION_BYTES_MAX):
            return tags_code
        position = self._settled_end() + len(self._staged)
        if position % self._row.file_bytes + size_bytes > room:
            rest = self._row.file_bytes - position % self._row.file_bytes
            self._staged += EXTENSION_FILE_END.ljust(rest, b"\0")
            position += rest
        self._staged += EXTENSION_HEAD.pack(size_bytes, tags_code, store_ms, len(bit_map))
        self._staged += bit_map
        assert is_address(position + EXTENSION_ADDRESS_ZERO), position
        return position + EXTENSION_ADDRESS_ZERO

    def write(self) -> None:
        """Put the staged units on disk.  Nothing is seen of them before `advance`."""
        if self._staged:
            end = self._settled_end()
            self._written = end + len(self._staged)
            self._row.write(end, self._staged)

    def advance(self) -> None:
        """The turn succeeded."""
        self._end = self._settled_end() + len(self._staged)
        self._staged = bytearray()

    def undo(self) -> None:
        """The turn failed: take its units back.  May be called again."""
        self._staged = bytearray()  # not cleared: a write that failed may still have a view of it
        end = self._settled_end()
        self._row.wipe(end, min(self._written, self._row.stop_byte))
        self._written = end

    def _settled_end(self) -> int:
        if self._end is None:
            self._end = self._written = self._find_end()
        return self._end

    def _find_end(self) -> int:
        """Walk the last file from unit to unit up to the first place that has none."""
        start = self._row.stop_byte - self._row.file_bytes
        at = 0
        while True:
            block = self._row.read(start + at, WALK_BYTES)
            inside = 0
            while inside + 2 <= len(block):
                size_bytes = int.from_bytes(block[inside : inside + 2], signed=True)
                if size_bytes == FILE_ENDED:
                    return self._row.stop_byte
                if size_bytes < EXTENSION_HEAD_BYTES:
                    return start + at + inside
                inside += size_bytes
            at += inside
            if inside < 2 or at >= self._row.file_bytes:
                return self._row.stop_byte

    # Shortening

    def truncate_after(self, address: int | None) -> None:
        """Cut everything behind the unit at an address, the last one the queue uses.

        Without an address the queue uses none, and nothing stays.  When the unit there is
        lost, its address must not be given out again: the next unit begins a new file.
        """
        self._staged.clear()
        if address is None:
            self.clear()
            return
        self._end = None
        row = self._row
        position = address - EXTENSION_ADDRESS_ZERO
        unit = self.read(address)
        if unit is not None:
            end = position + EXTENSION_HEAD_BYTES + len(unit.bit_map)
            row.cut(end)
        else:
            end = position - position % row.file_bytes + row.file_bytes
            if row.first_byte <= position < row.stop_byte:
                row.cut(end)
                row.wipe(position, end)
            else:
                row.clear()
        self._end = self._written = end

    def remove_files_before(self, address: int) -> int:
        """Remove files that end before an address, the first the queue uses, but never the last."""
        row = self._row
        removed = 0
        while (first_stop := row.first_byte + row.file_bytes) < row.stop_byte and (
            first_stop <= address - EXTENSION_ADDRESS_ZERO
        ):
            row.remove_first()
            removed += 1
        return removed

    def clear(self) -> None:
        """Remove every file."""
        self._row.clear()
        self._staged.clear()
        self._end = self._written = 0
