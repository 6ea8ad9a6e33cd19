"""Which failures of the disk end a store, and whether it is still where it was opened.

A disk that is full, a permission or a descriptor that is missing: somebody can mend that while
the store is open, and then it is writable again.  After anything else nobody knows what the files
hold: a sync that failed may have dropped what it was to write, and bytes in a deleted file are
read by nobody.  Such a store acknowledges nothing more; it is opened again, and recovers.

Invariant: what `lasting` calls lasting is never tried again as if it had not been.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

from flintmq.errors import DiskFailed
from flintmq.store.files.disk import Disk

PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EACCES,
        errno.EPERM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EINTR,
    }
)
"""What can be mended from outside while the store is open, and loses nothing meanwhile."""

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
"""What the system says of a file that somebody took away."""

_TAKEN_AWAY = (
    "the data directory or a part of it was deleted or moved while the broker worked; "
    "put it back, or restore a backup, and start again"
)
_BROKEN = (
    "the disk failed, and what was written last may be lost; "
    "check the disk and its file system, and start again"
)


def lasting(failure: DiskFailed) -> DiskFailed | None:
    """The failure with what to do about it, or nothing when it may pass while the store is open."""
    if failure.number in PASSING:
        return None
    advice = _TAKEN_AWAY if failure.number in GONE else _BROKEN
    reason = f"{failure.reason}: {advice}"
    return DiskFailed(failure.path, failure.operation, reason, failure.number)


class Health:
    """Whether one open store can be written, and why not."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._identity = disk.identity(directory)
        self.why_not: DiskFailed | None = None
        """Why nothing can be appended now."""
        self.failed: DiskFailed | None = None
        """Why nothing is ever appended again, and what to do."""

    def refuse(self, failure: DiskFailed) -> DiskFailed:
        """The disk failed: append nothing for now, or never again.  What to tell is returned."""
        self.failed = self.failed or lasting(failure)
        self.why_not = self.failed or failure
        return self.why_not

    def require_sound(self) -> None:
        """Raise what ended the store."""
        if self.failed is not None:
            raise self.failed

    def require_in_place(self, files: Iterable[Path]) -> None:
        """`DiskFailed` when the directory, or one of its files, is not under its name any more."""
        self.require_sound()
        try:
            if self._disk.identity(self._directory) != self._identity:
                reason = "another directory is there"
                raise DiskFailed(str(self._directory), "use", reason, errno.ENOENT)
            for path in files:
                self._disk.require_in_place(path)
        except DiskFailed as failure:
            raise self.refuse(failure) from failure
