"""Every queue of a store, by topic and queue id.

Asking for a queue costs one look into a table, however many there are.  A queue comes into
being with its first record; asking for one that does not exist makes nothing, so a peer
cannot fill the memory with questions.

There are two kinds: plain ones, and those of topics that keep batches (`batch_topics`).  A topic
is of one kind, which its first queue decides for good.

A topic's name becomes a directory, so one that could lead out of the store is refused here,
whoever let it through.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from flintmq.errors import InvalidName
from flintmq.model.light_queue import is_light
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.store.files.dirty_files import DirtyFiles
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import (
    BATCH_QUEUE_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    QUEUE_EXTENSION_DIRECTORY,
    queue_directory,
)
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.queues.batch_queue import BatchQueue
from flintmq.store.queues.consume_queue import ConsumeQueue, found_queues
from flintmq.store.queues.queue_extension import QueueExtension, is_address

SCATTERED_QUEUES = 100
"""Queues that hold units, from which on they count as many: to write them takes a millisecond."""

SCATTERED_UNITS = 8
"""Units for each of them, on average, that are worth a write before a checkpoint asks for it."""

NAME_BYTES_MAX = 255
"""No file system takes a longer name."""


class QueueSpan(NamedTuple):
    """The messages a queue has: offsets [start, stop)."""

    topic: str
    queue_id: int
    start: QueueOffset
    stop: QueueOffset


class QueueSet:
    """Call `load` before anything else."""

    def __init__(self, disk: Disk, directory: Path, config: StoreConfig) -> None:
        self._disk = disk
        self._root = directory / CONSUME_QUEUE_DIRECTORY
        self._extension_root = directory / QUEUE_EXTENSION_DIRECTORY
        self._batch_root = directory / BATCH_QUEUE_DIRECTORY
        self._config = config
        self.batch_topics: set[str] = set()
        """Topics that keep batches.  Their queues are not among those that are iterated over."""
        self._batches: dict[tuple[str, int], BatchQueue] = {}
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._extensions: dict[tuple[str, int], QueueExtension] = {}
        self._changed: dict[DirtyFiles, None] = {}
        self._holding: dict[ConsumeQueue | BatchQueue, None] = {}
        self.held_count = 0
        """Units that wait in memory for `flush`, at most."""
        self.new_count = 0
        """Queues among them that have no file yet, at most."""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues) + len(self._batches)

    def batches(self) -> Iterator[BatchQueue]:
        """The queues of topics that keep batches."""
        return iter(self._batches.values())

    def spans(self) -> Iterator[QueueSpan]:
        """What every queue has."""
        queues: Iterator[ConsumeQueue | BatchQueue] = chain(self, self.batches())
        for queue in queues:
            yield QueueSpan(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset)

    def load(self) -> list[str]:
        """Find every queue; tell what is wrong with the files.  Reads only."""
        complaints: list[str] = []
        for topic, queue_id in found_queues(self._disk, self._root):
            if self._config.serves_light or not is_light(topic):
                complaints += self.open(topic, queue_id).load()
        for topic, queue_id in found_queues(self._disk, self._extension_root):
            if (topic, queue_id) in self._queues:
                complaints += self.open_extension(topic, queue_id).load()
        self.batch_topics.update(self._disk.names(self._batch_root))
        for topic, queue_id in found_queues(self._disk, self._batch_root):
            complaints += self.open_batch(topic, queue_id).load()
        return complaints

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def find_batch(self, topic: str, queue_id: int) -> BatchQueue | None:
        """The queue of a topic that keeps batches."""
        return self._batches.get((topic, queue_id))

    def find_any(self, topic: str, queue_id: int) -> ConsumeQueue | BatchQueue | None:
        """The queue, of whatever kind."""
        return self._queues.get((topic, queue_id)) or self._batches.get((topic, queue_id))

    def find_extension(self, topic: str, queue_id: int) -> QueueExtension | None:
        return self._extensions.get((topic, queue_id))

    def open(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if there is none.  Its files come with its first unit."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            check_directory_name(topic)
            assert queue_id >= 0, queue_id
            path = queue_directory(self._root, topic, queue_id)
            queue = ConsumeQueue(self._disk, path, topic, queue_id, self._config.queue_file_bytes)
            self._queues[topic, queue_id] = queue
        return queue

    def open_batch(self, topic: str, queue_id: int) -> BatchQueue:
        """A queue of a topic that keeps batches, made if there is none."""
        queue = self._batches.get((topic, queue_id))
        if queue is None:
            check_directory_name(topic)
            assert queue_id >= 0, queue_id
            path = queue_directory(self._batch_root, topic, queue_id)
            file_bytes = self._config.batch_queue_file_bytes
            queue = BatchQueue(self._disk, path, topic, queue_id, file_bytes)
            self._batches[topic, queue_id] = queue
        return queue

    def keep_batches(self, topic: str) -> None:
        """Let a topic without queues keep batches.  Its directory is the mark that stays."""
        check_directory_name(topic)
        assert all(key[0] != topic for key in self._queues), topic
        if topic not in self.batch_topics:
            self._disk.make_directory(self._batch_root / topic)
            self._disk.sync_directory(self._batch_root)
            self._disk.sync_directory(self._batch_root.parent)
            self.batch_topics.add(topic)

    def open_extension(self, topic: str, queue_id: int) -> QueueExtension:
        extension = self._extensions.get((topic, queue_id))
        if extension is None:
            path = queue_directory(self._extension_root, topic, queue_id)
            extension = QueueExtension(self._disk, path, self._config.extension_file_bytes)
            self._extensions[topic, queue_id] = extension
        return extension

    def remove_orphans(self) -> None:
        """Remove extensions that a crash left without their queue."""
        for topic, queue_id in list(found_queues(self._disk, self._extension_root)):
            if (topic, queue_id) not in self._queues:
                extension = self.open_extension(topic, queue_id)
                extension.load()
                extension.clear()
                del self._extensions[topic, queue_id]
                self._remove_directory(queue_directory(self._extension_root, topic, queue_id))

    # What changed

    def hold(
        self,
        queue: ConsumeQueue | BatchQueue,
        units: bytearray,
        stop: QueueOffset,
        log_stop: LogOffset,
    ) -> None:
        """Give a queue units whose records are in the log; `flush` writes them."""
        self.held_count += stop - queue.max_offset
        self.new_count += not queue.max_offset
        queue.hold(units, stop, log_stop)
        self._holding[queue] = None

    @property
    def is_scattered(self) -> bool:
        """Whether many queues hold little each: a write for each would cost more than its units."""
        count = len(self._holding)
        return count > SCATTERED_QUEUES and self.held_count < SCATTERED_UNITS * count

    def flush(self) -> None:
        """Write what queues hold.  When the disk refuses, the rest waits for the next time."""
        while self._holding:
            queue = next(iter(self._holding))
            queue.flush()
            self.note_changed(queue.dirty)
            del self._holding[queue]
        self.held_count = 0
        self.new_count = 0

    def note_changed(self, dirty: DirtyFiles) -> None:
        """Remember that a sync has to cover these files of a queue."""
        self._changed[dirty] = None

    def take_changed(self) -> list[DirtyFiles]:
        """The files of every queue that changed since the last time."""
        changed = list(self._changed)
        self._changed.clear()
        return changed

    # Old files

    def retain_from(self, log_min: LogOffset) -> int:
        """Follow the log, whose first byte is now ``log_min``; tell how many files went."""
        removed = 0
        for queue in self:
            gone = queue.remove_files_before(log_min)
            if gone:
                removed += gone
                self.note_changed(queue.dirty)
                self._retain_extension(queue)
        for batches in self.batches():
            gone = batches.remove_files_before(log_min)
            if gone:
                removed += gone
                self.note_changed(batches.dirty)
        return removed

    def _retain_extension(self, queue: ConsumeQueue) -> None:
        extension = self.find_extension(queue.topic, queue.queue_id)
        units = queue.units(queue.min_offset, 1)
        if extension is not None and len(units) and is_address(code := int(units[0]["tags_code"])):
            extension.remove_files_before(code)
            self.note_changed(extension.dirty)

    def remove_topic(self, topic: str) -> None:
        """Remove the queues of a topic and their files.  The records stay in the log."""
        for key in [key for key in self._queues if key[0] == topic]:
            self.remove(*key)
        for key in [key for key in self._batches if key[0] == topic]:
            self.remove_batch(*key)
        if topic in self.batch_topics:
            self._remove_directory(self._batch_root / topic)
            self.batch_topics.discard(topic)

    def remove(self, topic: str, queue_id: int) -> None:
        """Remove one queue and its files.  When this returns they stay gone after a crash."""
        queue = self._queues.pop((topic, queue_id))
        queue.clear()
        self._changed.pop(queue.dirty, None)
        self._holding.pop(queue, None)
        extension = self._extensions.pop((topic, queue_id), None)
        if extension is not None:
            extension.clear()
            self._changed.pop(extension.dirty, None)
        for root in (self._root, self._extension_root):
            self._remove_directory(queue_directory(root, topic, queue_id))
            self._remove_directory(root / topic)

    def remove_batch(self, topic: str, queue_id: int) -> None:
        """Remove a queue of a topic that keeps batches; the topic goes on keeping them."""
        queue = self._batches.pop((topic, queue_id))
        queue.clear()
        self._changed.pop(queue.dirty, None)
        self._holding.pop(queue, None)
        self._remove_directory(queue_directory(self._batch_root, topic, queue_id))

    def _remove_directory(self, path: Path) -> None:
        if self._disk.is_directory(path):
            self._disk.sync_directory(path)
            if not self._disk.names(path):
                self._disk.remove_directory(path)
                self._disk.sync_directory(path.parent)


def check_directory_name(topic: str) -> None:
    """Raise `InvalidName` for a topic that cannot be a directory of its own."""
    if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        raise InvalidName("topic", topic, "cannot be the name of a directory")
    try:
        if len(topic.encode()) <= NAME_BYTES_MAX:
            return
    except UnicodeEncodeError:
        pass
    raise InvalidName("topic", topic, f"has more than {NAME_BYTES_MAX} bytes or is no text")
