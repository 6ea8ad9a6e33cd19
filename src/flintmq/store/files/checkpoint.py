"""How far the store is known to be on disk, by the store times of records.

Five numbers at the start of a file of one page, as RocketMQ writes it.  They are written in
place: 40 bytes lie in one sector, which is there as a whole or not at all.  After a crash
everything stored up to `min_store_ms` needs no second look.

Invariant: a value is written only after what it promises was synced.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from pathlib import Path

from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import CHECKPOINT_BYTES, CHECKPOINT_STRUCT

SAFETY_MS = 3_000
"""How far before the promised time RocketMQ starts to look again; clocks are not exact."""


@dataclass(slots=True)
class Checkpoint:
    """What is on disk.  All zeros promise nothing."""

    log_ms: int = 0
    """Store time of the last record in the commit log that is."""
    queues_ms: int = 0
    """Store time of the last record whose consume queue unit is."""
    index_ms: int = 0
    """Store time of the last record whose keys are in the index that is."""
    master_flushed_offset: int = 0
    confirm_log_offset: int = 0
    """The last two are RocketMQ 5.x's replication; ours carries them along."""

    def min_store_ms(self) -> int:
        """Records stored up to this time are safe in the log, in their queue and in the index."""
        return min(max(min(self.log_ms, self.queues_ms) - SAFETY_MS, 0), self.index_ms)


class CheckpointFile:
    """The file, read once and then written by us alone."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._on_disk: Checkpoint | None = None  # nothing, or something that has to be replaced

    def read(self) -> Checkpoint:
        """What the file says; nothing promised when it is missing or too short."""
        self._on_disk = None
        if not self._disk.is_file(self._path):
            return Checkpoint()
        data = self._disk.read_all(self._path)
        if len(data) < CHECKPOINT_STRUCT.size:
            return Checkpoint()
        found = Checkpoint(*CHECKPOINT_STRUCT.unpack_from(data))
        if len(data) == CHECKPOINT_BYTES:
            self._on_disk = replace(found)
        return found

    def write(self, checkpoint: Checkpoint) -> None:
        """Make the file say so, and sync it."""
        if checkpoint == self._on_disk:
            return
        data = CHECKPOINT_STRUCT.pack(*astuple(checkpoint))
        if self._on_disk is None:
            self._disk.replace(self._path, data.ljust(CHECKPOINT_BYTES, b"\0"))
        else:
            self._on_disk = None  # until the write has succeeded
            self._disk.write(self._path, 0, (data,))
            self._disk.sync(self._path)
        self._on_disk = replace(checkpoint)
