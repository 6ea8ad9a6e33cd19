"""Puts the messages of a store aside, so that a slave whose log has diverged can begin again.

Log, queues, index and checkpoint go into a directory beside them, whole; nothing is deleted.
Topics, groups and offsets stay: a slave copies them anyway.  The log goes last: until then, opening
the store makes queues and index again from it.

Refused: a store that a broker has open.
"""

from __future__ import annotations

from pathlib import Path

from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import (
    ABORT_FILE,
    BATCH_QUEUE_DIRECTORY,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    LOCK_FILE,
    QUEUE_EXTENSION_DIRECTORY,
)

_PARTS = (
    CONSUME_QUEUE_DIRECTORY,
    QUEUE_EXTENSION_DIRECTORY,
    BATCH_QUEUE_DIRECTORY,
    INDEX_DIRECTORY,
    CHECKPOINT_FILE,
    COMMIT_LOG_DIRECTORY,
    ABORT_FILE,
)


def move_aside(disk: Disk, directory: Path, name: str) -> Path:
    """Move the messages of a store to the directory ``name`` in it; tell where they are."""
    lock = disk.lock(directory / LOCK_FILE)
    try:
        aside = directory / name
        disk.make_directory(aside)
        for part in _PARTS:
            path = directory / part
            if disk.is_directory(path) or disk.is_file(path):
                disk.rename(path, aside / part)
        disk.sync_directory(aside)
        disk.sync_directory(directory)
    finally:
        disk.unlock(lock)
    return aside
