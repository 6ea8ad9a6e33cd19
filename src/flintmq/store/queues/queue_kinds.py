"""Which topics keep batches: those whose attribute says so, and those that have such queues.

The table of topics may be older than the queues, and the queues may be gone, so either counts.  A
topic that has queues of both kinds is refused: one of them was made by mistake, and only its owner
knows which.
"""

from __future__ import annotations

from pathlib import Path

from flintmq.errors import StoreRefused
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.layout import (
    ABORT_FILE,
    BATCH_QUEUE_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    queue_directory,
)
from flintmq.store.queues.consume_queue import found_queues

QUEUE_TYPE = "queue.type"
BATCH_QUEUE = "BatchCQ"


def batch_topics_by_table(disk: Disk, directory: Path) -> set[str]:
    """Topics whose attribute says that they keep batches."""
    topics = Tables(disk, directory).topics.load()
    return {
        name
        for name, topic in (topics.topic_config_table.items() if topics is not None else ())
        if (topic.attributes or {}).get(QUEUE_TYPE) == BATCH_QUEUE
    }


def refuse_mixed(disk: Disk, directory: Path) -> None:
    """Raise `StoreRefused` for a topic that keeps batches and has plain queues with messages."""
    topics = {*disk.names(directory / BATCH_QUEUE_DIRECTORY)}
    topics |= batch_topics_by_table(disk, directory)
    root = directory / CONSUME_QUEUE_DIRECTORY
    for topic, queue_id in found_queues(disk, root) if topics else ():
        if topic in topics and disk.names(queue_directory(root, topic, queue_id)):
            reason = (
                f"topic {topic} has plain consume queues, and is of batch consume queues by its"
                " attribute or its files; remove what is of the wrong kind and make an empty file"
                f" {ABORT_FILE}: what is missing is made again from the log"
            )
            raise StoreRefused(str(root / topic), reason)
