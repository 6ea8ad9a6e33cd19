"""The parts of one open store, as recovery puts them together and the face uses them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flintmq.store.files.checkpoint import Checkpoint, CheckpointFile
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import CHECKPOINT_FILE, COMMIT_LOG_DIRECTORY, INDEX_DIRECTORY
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.files.tombstones import Tombstones
from flintmq.store.index.key_index import KeyIndex
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.queues.dispatch import Dispatch
from flintmq.store.queues.queue_kinds import batch_topics_by_table
from flintmq.store.queues.queue_set import QueueSet


@dataclass(slots=True)
class StoreParts:
    """Log, queues and index of a directory; ``config`` fits its files."""

    disk: Disk
    directory: Path
    config: StoreConfig
    log: CommitLog
    queues: QueueSet
    index: KeyIndex
    dispatch: Dispatch
    tombstones: Tombstones
    checkpoint_file: CheckpointFile
    checkpoint: Checkpoint
    last_store_ms: int = 0
    """Store time of the newest record."""

    def mark(self, ms: int) -> None:
        """Everything up to this time is on disk: recovery may start there."""
        self.checkpoint = replace(self.checkpoint, log_ms=ms, queues_ms=ms, index_ms=ms)
        self.checkpoint_file.write(self.checkpoint)


def assemble(disk: Disk, directory: Path, config: StoreConfig) -> StoreParts:
    """The parts, before anything was loaded."""
    log = CommitLog(disk, directory / COMMIT_LOG_DIRECTORY, config.commit_log_file_bytes)
    queues = QueueSet(disk, directory, config)
    queues.batch_topics |= batch_topics_by_table(disk, directory)
    index = KeyIndex(disk, directory / INDEX_DIRECTORY, config.index_slots, config.index_entries)
    dispatch = Dispatch(queues, index, extended=config.extended_queues)
    file = CheckpointFile(disk, directory / CHECKPOINT_FILE)
    tombstones = Tombstones(disk, directory)
    return StoreParts(
        disk, directory, config, log, queues, index, dispatch, tombstones, file, file.read()
    )
