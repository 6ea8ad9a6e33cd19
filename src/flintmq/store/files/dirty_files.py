"""What was changed and is not known to be on disk yet.

A sync may run elsewhere and take long: `take` hands over what is dirty now, and what
changes meanwhile is dirty again.  A sync that fails must `put_back` what it took; one that
succeeds is `settled`.  Until then it is known which files we removed ourselves: only those may be
missing when they are to be synced.
"""

from __future__ import annotations

from pathlib import Path

from flintmq.store.files.disk import Disk


class DirtyFiles:
    """Files that were written, and directories in which names came or went."""

    __slots__ = ("_removed", "directories", "files")

    def __init__(self, files: tuple[Path, ...] = (), directories: tuple[Path, ...] = ()) -> None:
        self.files = files  # tuples, because they are short and mostly empty
        self.directories = directories
        self._removed: tuple[Path, ...] = ()

    def wrote(self, path: Path) -> None:
        if path not in self.files:
            self.files += (path,)
            if path in self._removed:
                self._removed = tuple(file for file in self._removed if file != path)

    def renamed(self, *directories: Path) -> None:
        """A name came or went in these directories."""
        self.directories += tuple(path for path in directories if path not in self.directories)

    def removed(self, path: Path) -> None:
        """There is no file to sync any more, but the directory has to forget it."""
        self.files = tuple(file for file in self.files if file != path)
        self._removed += (path,)
        self.renamed(path.parent)

    def knows_gone(self, path: Path) -> bool:
        """Whether we took a file away, or the files of a directory."""
        return any(path == file or path in file.parents for file in self._removed)

    def settled(self) -> None:
        """What was taken is on disk."""
        self._removed = ()

    def drain(self) -> DirtyFiles:
        """Hand over what is dirty, for the caller to sync."""
        taken = DirtyFiles(self.files, self.directories)
        self.files = self.directories = ()
        return taken

    def put_back(self, taken: DirtyFiles) -> None:
        """What was taken could not be synced: it is dirty still."""
        for path in taken.files:
            if path not in self._removed:
                self.wrote(path)
        self.renamed(*taken.directories)

    def sync(self, disk: Disk) -> None:
        """Bring everything to disk, names first: bytes without a name are lost."""
        taken = self.drain()
        try:
            for directory in taken.directories:
                disk.sync_directory(directory)
            for path in taken.files:
                disk.sync(path)
        except BaseException:
            self.put_back(taken)
            raise
