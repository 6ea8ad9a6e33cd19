"""A row of files of equal size that together are one long run of bytes.

Consume queues and their extensions are kept like this: a file is named by the position of
its first byte, is created at full size as zeros, and is the continuation of the one before.
A row knows positions and bytes, not what they mean.  It holds no descriptor and no map,
because there may be tens of thousands of rows.

Removal goes from the outside in, so that whatever a crash leaves is again a row.

Invariant: ``[first_byte, stop_byte)`` is covered by files without a gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Buffer, Disk
from flintmq.store.files.layout import file_name, file_start


class FileRow:
    """``directory`` is the row's own; `load` finds the files that are there."""

    __slots__ = (
        "_disk",
        "_strays",
        "_tail",
        "_tail_byte",
        "directory",
        "dirty",
        "file_bytes",
        "first_byte",
        "stop_byte",
    )

    def __init__(self, disk: Disk, directory: Path, file_bytes: int) -> None:
        assert file_bytes > 0, file_bytes
        self._disk = disk
        self.directory = directory
        self.file_bytes = file_bytes
        self.dirty = DirtyFiles()
        self._reset()

    def _reset(self) -> None:
        self.first_byte = 0
        self.stop_byte = 0
        self._strays: tuple[str, ...] = ()
        self._tail: Path | None = None  # the file used last: a Path is dear to make
        self._tail_byte = 0

    @property
    def is_empty(self) -> bool:
        """True when there is no file."""
        return self.first_byte == self.stop_byte

    @property
    def has_strays(self) -> bool:
        """True when files were found that do not continue the first ones."""
        return bool(self._strays)

    def load(self) -> list[str]:
        """Find the files; tell what does not belong.  Reads only.

        Files that do not continue the first ones stay until `cut` or `clear`.
        """
        self._reset()
        complaints: list[str] = []
        strays: list[str] = []
        for name in self._disk.names(self.directory):
            start = file_start(name)
            path = self.directory / name
            if start is None or start % self.file_bytes:
                complaints.append(f"{path}: no file starts there")
                continue
            size_bytes = self._disk.size_bytes(path)
            if size_bytes != self.file_bytes:
                complaints.append(f"{path}: {size_bytes} bytes instead of {self.file_bytes}")
            elif self.is_empty and not strays:
                self.first_byte = start
                self.stop_byte = start + self.file_bytes
                continue
            elif start == self.stop_byte:
                self.stop_byte += self.file_bytes
                continue
            else:
                complaints.append(f"{path}: a file before it is missing")
            strays.append(name)
        self._strays = tuple(strays)
        return complaints

    # Bytes

    def read(self, at: int, size_bytes: int) -> bytes:
        """Bytes of one file, fewer at its end; none outside the row."""
        if not self.first_byte <= at < self.stop_byte:
            return b""
        start = at - at % self.file_bytes
        size_bytes = min(size_bytes, start + self.file_bytes - at)
        return self._disk.read(self._path(start), at - start, size_bytes)

    def place(self, at: int) -> tuple[Path, int]:
        """Which file has a byte of the row, and where in it."""
        start = at - at % self.file_bytes
        return self.directory / file_name(start), at - start

    def first_written(self, at: int) -> int | None:
        """The first byte at or after a position that is not zero."""
        while at < self.stop_byte:
            path, inside = self.place(at)
            for start, block in self._disk.written_blocks(path, inside, self.file_bytes):
                rest = block.lstrip(b"\0")
                if rest:
                    return at - inside + start + len(block) - len(rest)
            at += self.file_bytes - inside
        return None

    def write(self, at: int, data: Buffer) -> None:
        """Write from ``at`` on, into as many files as it takes; missing ones are made.

        Inside the row, or at its end.  An empty row begins with the file that has ``at``.
        """
        inside = at - self._tail_byte
        if (
            self._tail is not None
            and self._tail_byte < self.stop_byte  # else it could not be made the last time
            and 0 <= inside <= self.file_bytes - len(data)
        ):
            self.dirty.wrote(self._tail)
            self._disk.write(self._tail, inside, (data,))
            return
        if self.is_empty:
            self.first_byte = self.stop_byte = at - at % self.file_bytes
        assert self.first_byte <= at <= self.stop_byte, (at, self.directory)
        view = memoryview(data)
        stop = at + len(data)
        position = at
        while position < stop:
            start = position - position % self.file_bytes
            piece_stop = min(start + self.file_bytes, stop)
            path = self._path(start)
            if start == self.stop_byte:
                self._disk.create(path, self.file_bytes)
                # The directories of the row, of its topic and of all rows: any may be new.
                self.dirty.renamed(self.directory, *self.directory.parents[:2])
                self.stop_byte += self.file_bytes
            self.dirty.wrote(path)
            self._disk.write(path, position - start, (view[position - at : piece_stop - at],))
            position = piece_stop

    def wipe(self, start: int, stop: int) -> None:
        """Make bytes of the row zeros.  Holes are not touched."""
        for file_byte in range(start - start % self.file_bytes, stop, self.file_bytes):
            path = self._path(file_byte)
            piece_start, piece_stop = (
                max(start - file_byte, 0),
                min(stop - file_byte, self.file_bytes),
            )
            if self._disk.wipe(path, piece_start, piece_stop):
                self.dirty.wrote(path)

    # Files

    def cut(self, stop: int) -> None:
        """Make ``stop`` the end of what was ever written: zeros behind it, no file more.

        The file that has the last byte stays, and a first file stays even if ``stop`` is
        its start, because its name is all that remembers where the row was.
        """
        self._remove(self._strays)
        self._strays = ()
        last = max(self.first_byte, (stop - 1) - (stop - 1) % self.file_bytes)
        behind = range(last + self.file_bytes, self.stop_byte, self.file_bytes)
        self._remove([file_name(start) for start in reversed(behind)])
        self.stop_byte = min(self.stop_byte, last + self.file_bytes)
        self.wipe(stop, self.stop_byte)

    def remove_first(self) -> None:
        self._remove([file_name(self.first_byte)])
        self.first_byte += self.file_bytes

    def clear(self) -> None:
        """Remove every file of the row."""
        starts = range(self.first_byte, self.stop_byte, self.file_bytes)
        self._remove([*self._strays, *(file_name(start) for start in reversed(starts))])
        self._reset()

    def _remove(self, names: Iterable[str]) -> None:
        for count, name in enumerate(names):
            path = self.directory / name
            if path == self._tail:
                self._tail = None
            if count:  # or a crash could bring this one back without the one before
                self._disk.sync_directory(self.directory)
            self._disk.remove(path)
            self.dirty.removed(path)

    def _path(self, start: int) -> Path:
        if self._tail is None or start != self._tail_byte:
            self._tail = self.directory / file_name(start)
            self._tail_byte = start
        return self._tail
