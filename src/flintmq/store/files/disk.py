"""The one seam between the store and the disk.

Every byte the store writes goes through `Disk`, so that a test can record, tear, refuse
or lose it.  Writing is `pwritev` and `fdatasync`; a map is for reading only, because a
store through a map cannot be refused and dies of a signal when the disk is full.

File descriptors are lent, not owned: at most ``open_files_max`` are open at once, however
many queues there are, and the least used one is closed for the next.

What it makes is for its owner alone, messages may be private; what others made keeps its mode.

Invariant: a write that returns has handed every byte to the system; a `sync` that returns
has them on disk.  Anything else is `DiskFailed`, and the caller must assume that any
part of the write may be there.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import resource
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeAlias

from flintmq.errors import DiskFailed, StoreLocked
from flintmq.store.files.file_system import can_sync_file_systems, sync_file_system

Buffer: TypeAlias = bytes | bytearray | memoryview

OPEN_FILES_MAX = 16_384
"""More descriptors than this are not kept, whatever the system allows."""

CHUNKS_MAX = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 1024
"""How many pieces one `pwritev` takes."""

WIPE_BYTES = 65_536
"""How much is looked at, and if need be overwritten, at once."""

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
"""What this makes is for its owner alone."""

_SEEK_DATA = getattr(os, "SEEK_DATA", None)
_SEEK_HOLE = getattr(os, "SEEK_HOLE", None)
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache


class Disk:
    """Files of one store.  Not shared between threads, but for `sync_file`."""

    def __init__(self, open_files_max: int | None = None) -> None:
        if sys.platform not in ("linux", "darwin"):
            raise DiskFailed("", "open", f"the store runs on Linux and macOS, not {sys.platform}")
        self._open_files_max = open_files_max or _open_files_default()
        self._descriptors: OrderedDict[Path, int] = OrderedDict()
        self._root: Path | None = None

    # Looking

    def names(self, directory: Path) -> list[str]:
        """What is in a directory, sorted; nothing when it does not exist."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(directory, "list", error) from error

    def is_file(self, path: Path) -> bool:
        return path.is_file()

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def size_bytes(self, path: Path) -> int:
        with _named(path, "stat"):
            return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        with _named(path, "stat"):
            return path.stat().st_mtime_ns // 1_000_000

    def usage(self, directory: Path) -> tuple[int, int]:
        """Bytes used and bytes still usable on the file system of ``directory``."""
        with _named(directory, "statvfs"):
            facts = os.statvfs(directory)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize, facts.f_bavail * facts.f_frsize

    def process_id(self) -> int:
        """Who has the disk, for the files that say so."""
        return os.getpid()

    def memory_bytes(self) -> int:
        """How much memory the machine has."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def read(self, path: Path, at: int, size_bytes: int) -> bytes:
        """Read up to ``size_bytes``; fewer only at the end of the file."""
        try:
            return os.pread(self._descriptor(path), size_bytes, at)
        except OSError as error:
            raise _failed(path, "read", error) from error

    def read_all(self, path: Path) -> bytes:
        with _named(path, "read"):
            return path.read_bytes()

    def written_blocks(
        self, path: Path, start: int, stop: int, block_bytes: int = 1 << 20
    ) -> Iterator[tuple[int, bytes]]:
        """What was ever written between two positions, block by block, each with its place.

        The rest is zeros: holes are passed over unread, and blocks of zeros are left out.
        """
        at = start
        while at < stop:
            at, data_stop = self._next_data(path, at, stop)
            block = self.read(path, at, min(block_bytes, data_stop - at))
            if not block:
                return
            if block != bytes(len(block)):  # by far the fastest look at a copy without holes
                yield at, block
            at += len(block)

    def _next_data(self, path: Path, at: int, stop: int) -> tuple[int, int]:
        """The next run of bytes that is no hole; an empty one at the end when there is none."""
        if _SEEK_DATA is None or _SEEK_HOLE is None:
            return at, stop
        try:
            descriptor = self._descriptor(path)
            start = min(os.lseek(descriptor, at, _SEEK_DATA), stop)
            return start, min(os.lseek(descriptor, start, _SEEK_HOLE), stop)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return stop, stop
            if error.errno == errno.EINVAL:  # a file system that keeps no book of holes
                return at, stop
            raise _failed(path, "seek", error) from error

    def map(self, path: Path) -> memoryview:
        """The whole file, read-only.  It stays readable after `remove` until the view is gone."""
        with _named(path, "map"), path.open("rb", buffering=0) as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def can_map(self, size_bytes: int) -> bool:
        """Whether the process may have so much address space more.  None of it is kept."""
        try:
            mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ).close()
        except (OSError, OverflowError, ValueError):
            return False
        return True

    def identity(self, path: Path) -> tuple[int, int]:
        """What tells a file or directory from any other that takes its name."""
        with _named(path, "use"):
            facts = path.stat()
        return facts.st_dev, facts.st_ino

    def require_in_place(self, path: Path) -> None:
        """`DiskFailed` when bytes go to a file that is not under its name any more."""
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            facts = os.fstat(descriptor)
            if (facts.st_dev, facts.st_ino) != self.identity(path):
                raise DiskFailed(str(path), "use", "another file is there", errno.ENOENT)

    # Changing

    def make_root(self, path: Path) -> None:
        """Make a directory if there is none.  From here on it is not made again once it is gone."""
        self.make_directory(path)
        self._root = path

    def make_directory(self, path: Path) -> None:
        """Make a directory and those it is in."""
        missing = []
        with _named(path, "create"):
            while path != self._root and not path.is_dir():
                missing.append(path)
                path = path.parent
            for each in reversed(missing):
                each.mkdir(DIRECTORY_MODE, exist_ok=True)

    def create(self, path: Path, size_bytes: int) -> None:
        """A new file of its full size, all zeros, taking no room until written."""
        self.make_directory(path.parent)
        with _named(path, "create"):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(path, flags, FILE_MODE)
            try:
                os.ftruncate(descriptor, size_bytes)
            except OSError:
                os.close(descriptor)
                path.unlink()
                raise
            self._keep(path, descriptor)

    def resize(self, path: Path, size_bytes: int) -> None:
        """Give a file another size; what is added are zeros."""
        with _named(path, "resize"):
            os.ftruncate(self._descriptor(path), size_bytes)

    def write(self, path: Path, at: int, chunks: Sequence[Buffer]) -> None:
        """Write the chunks one after the other from ``at`` on, all of them."""
        try:
            descriptor = self._descriptor(path)
            if len(chunks) == 1 and os.pwrite(descriptor, chunks[0], at) == len(chunks[0]):
                return
            _write_all(descriptor, at, chunks)
        except OSError as error:
            raise _failed(path, "write", error) from error

    def wipe(self, path: Path, start: int, stop: int) -> bool:
        """Make bytes zeros; tell whether any was not.  Holes stay holes."""
        changed = False
        for at, block in self.written_blocks(path, start, stop, WIPE_BYTES):
            self.write(path, at, (bytes(len(block)),))
            changed = True
        return changed

    def sync(self, path: Path) -> None:
        """Bring what was written to disk."""
        sync_file(path)

    def sync_file_system(self) -> int | None:
        """Bring all of the root's file system to disk; tell its device, or None if it cannot be."""
        if self._root is None or not can_sync_file_systems():
            return None
        with _named(self._root, "sync"):
            descriptor = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC)
            try:
                sync_file_system(descriptor)
                return os.fstat(descriptor).st_dev
            finally:
                os.close(descriptor)

    def replace(self, path: Path, content: bytes) -> None:
        """Give a small file new content in one step: the old or the new is there, never less."""
        fresh = path.with_name(path.name + ".tmp")
        with _named(path, "replace"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            descriptor = os.open(fresh, flags, FILE_MODE)
            try:
                _write_all(descriptor, 0, [content])
                _sync_descriptor(descriptor)
            finally:
                os.close(descriptor)
            fresh.replace(path)
        self.sync_directory(path.parent)

    def rename(self, path: Path, to: Path) -> None:
        self._forget(path)
        self._forget(to)
        with _named(path, "rename"):
            path.replace(to)

    def remove(self, path: Path) -> None:
        """Take a file's name away.  Views of it stay readable."""
        self._forget(path)
        with _named(path, "remove"):
            path.unlink(missing_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        with _named(path, "remove"):
            path.rmdir()

    def sync_directory(self, path: Path) -> None:
        """Make creations, renames and removals in a directory survive a crash."""
        with _named(path, "sync"):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: Path) -> int:
        """Take the store for this process alone, as a Java broker does, and hold it.

        It is a POSIX record lock on the first byte: a Java broker and ours exclude each
        other.  Give the number back to `unlock`.
        """
        with _named(path, "lock"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            os.pwrite(descriptor, b"lock", 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise StoreLocked(str(path)) from None
            raise _failed(path, "lock", error) from error
        return descriptor

    def unlock(self, descriptor: int) -> None:
        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give every descriptor back."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _descriptor(self, path: Path) -> int:
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except PermissionError:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._keep(path, descriptor)
        else:
            self._descriptors.move_to_end(path)
        return descriptor

    def _keep(self, path: Path, descriptor: int) -> None:
        self._descriptors[path] = descriptor
        if len(self._descriptors) > self._open_files_max:
            os.close(self._descriptors.popitem(last=False)[1])

    def _forget(self, path: Path) -> None:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


def _open_files_default() -> int:
    """Half of the descriptors this process may have: sockets need some too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(soft // 2, OPEN_FILES_MAX)


def sync_file(path: Path) -> None:
    """Bring a file to disk through a descriptor of its own, so from any thread."""
    with _named(path, "sync"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync_descriptor(descriptor)
            if not os.fstat(descriptor).st_nlink:  # its name went while it was synced
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        finally:
            os.close(descriptor)


def read_part(path: Path, at: int, size_bytes: int) -> bytes:
    """Bytes of a file, through a descriptor of its own, so from any thread."""
    with _named(path, "read"):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size_bytes, at)
        finally:
            os.close(descriptor)


def _sync_descriptor(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fdatasync(descriptor)


def _write_all(descriptor: int, at: int, chunks: Sequence[Buffer]) -> None:
    """`pwritev` until nothing is left; the system may take a part of it each time."""
    left = [memoryview(chunk).cast("B") for chunk in chunks if len(chunk)]
    while left:
        written = os.pwritev(descriptor, left[:CHUNKS_MAX], at)
        at += written
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if written:
            left[0] = left[0][written:]


@contextmanager
def _named(path: Path, operation: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failed(path, operation, error) from error


def _failed(path: Path, operation: str, error: OSError) -> DiskFailed:
    return DiskFailed(str(path), operation, error.strerror or str(error), error.errno or 0)
