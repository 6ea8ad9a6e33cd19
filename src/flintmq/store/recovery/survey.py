"""What an existing directory is, before anything in it is touched.

Sizes of files are learnt from the files, because every broker may be set otherwise; a
configuration that says something else is told and set aside.  What we cannot serve is
refused by name when messages would be out of reach, and named when only a part is missing:

    refused   queues or tables in RocksDB, a topic with queues of two kinds, a commit log that
              is spread over several directories or has lost a file in the middle
    named     light queues (%LMQ%) where they are not served, compaction topics (served uncompacted)

Reads only.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from flintmq.errors import StoreRefused
from flintmq.model.light_queue import is_light
from flintmq.model.queue import QueueOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.layout import (
    BATCH_QUEUE_DIRECTORY,
    BATCH_UNIT_BYTES,
    COMMIT_LOG_DIRECTORY,
    CONFIG_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    QUEUE_EXTENSION_DIRECTORY,
    UNIT_BYTES,
    file_name,
    file_start,
    queue_directory,
)
from flintmq.store.files.store_config import COMMIT_LOG_FILE_BYTES_MIN, StoreConfig
from flintmq.store.index.index_file import IndexShape
from flintmq.store.index.key_index import KeyIndex
from flintmq.store.queues.consume_queue import found_queues
from flintmq.store.queues.queue_kinds import refuse_mixed

COMPACTION_LOG = Path("compaction", "compactionLog")
TIMER_CHECKPOINT = Path(CONFIG_DIRECTORY, "timercheck")
ROCKSDB_MARK = "CURRENT"
ROCKSDB_TABLES = ("topics", "subscriptionGroups", "consumerOffsets", "rdb")

LEARNT_SIZES = (
    "commit_log_file_bytes",
    "queue_file_bytes",
    "extension_file_bytes",
    "batch_queue_file_bytes",
)

SAMPLED_QUEUES = 64
"""How many queues are asked for the size of their files."""

TIMER_CHECKPOINT_BYTES = 4_096
"""Of the file; 5.x maps it and takes no other size."""

_TIMER_FILE = struct.Struct(">qqqqqqq")  # the same, the master's offset, and a version of three
_TIMER_FIELDS = struct.Struct(">qqq")  # read up to, flushed position, queue offset


@dataclass(frozen=True, slots=True)
class StoreSurvey:
    """``config`` fits the directory.  ``complaints`` are for the log of the broker."""

    config: StoreConfig
    complaints: tuple[str, ...]
    short_files: tuple[Path, ...]
    """Files of the commit log that are cut off, or were never brought to their size."""


@dataclass(frozen=True, slots=True)
class TimerProgress:
    """How far a 5.x broker's timer had come: what is pending is in `TIMER_TOPIC`, queue 0.

    Messages before ``queue_offset`` with a time up to ``read_ms`` were delivered.
    """

    read_ms: int
    queue_offset: QueueOffset


def survey(disk: Disk, directory: Path, config: StoreConfig) -> StoreSurvey:
    """Look at a directory, new or not.  `StoreRefused` names what cannot be served."""
    _refuse_rocksdb(disk, directory)
    refuse_mixed(disk, directory)
    complaints = _not_served(disk, directory, serves_light=config.serves_light)
    file_bytes, short_files = _commit_log(disk, directory / COMMIT_LOG_DIRECTORY, config)
    learnt = replace(
        config,
        commit_log_file_bytes=file_bytes,
        queue_file_bytes=_learn(
            disk, directory / CONSUME_QUEUE_DIRECTORY, config.queue_file_bytes, UNIT_BYTES
        ),
        extension_file_bytes=_learn(
            disk, directory / QUEUE_EXTENSION_DIRECTORY, config.extension_file_bytes, 1
        ),
        batch_queue_file_bytes=_learn(
            disk,
            directory / BATCH_QUEUE_DIRECTORY,
            config.batch_queue_file_bytes,
            BATCH_UNIT_BYTES,
        ),
    )
    for name in LEARNT_SIZES:
        said, found = getattr(config, name), getattr(learnt, name)
        if said != found:
            complaints.append(f"{directory}: {name} is {found} by its files, {said} is set aside")
    complaints += [f"{path}: shorter than {file_bytes} bytes" for path in short_files]
    return StoreSurvey(learnt, tuple(complaints), tuple(short_files))


def index_differs(config: StoreConfig, index: KeyIndex) -> list[str]:
    """Tell when the files of the index, once they were loaded, are not of the size configured."""
    said = IndexShape(config.index_slots, config.index_entries)
    found = index.shape
    if found == said:
        return []
    told = f"the index has {found.slots} slots and {found.entries} entries by its files"
    return [f"{told}, {said.slots} and {said.entries} are set aside"]


def timer_progress(disk: Disk, directory: Path) -> TimerProgress | None:
    """How far a 5.x timer had come, or nothing when there was none."""
    path = directory / TIMER_CHECKPOINT
    if not disk.is_file(path):
        return None
    content = disk.read(path, 0, _TIMER_FIELDS.size)
    if len(content) < _TIMER_FIELDS.size:
        return TimerProgress(0, QueueOffset(0))
    read_ms, _, queue_offset = _TIMER_FIELDS.unpack(content)
    return TimerProgress(read_ms, QueueOffset(queue_offset))


def write_timer_progress(disk: Disk, directory: Path, progress: TimerProgress) -> None:
    """Tell a 5.x broker that may take this directory over where its timer goes on.

    It begins to read the timer topic at the queue offset, and delivers what is due by then at once.
    """
    fields = _TIMER_FILE.pack(
        progress.read_ms, 0, progress.queue_offset, progress.queue_offset, 0, progress.read_ms, 1
    )
    path = directory / TIMER_CHECKPOINT
    disk.make_directory(path.parent)
    disk.replace(path, fields.ljust(TIMER_CHECKPOINT_BYTES, b"\0"))


# What is not served


def _refuse_rocksdb(disk: Disk, directory: Path) -> None:
    queues = directory / CONSUME_QUEUE_DIRECTORY
    if disk.is_file(queues / ROCKSDB_MARK):
        raise StoreRefused(str(queues), "its queues are in RocksDB, which is not served")
    for name in ROCKSDB_TABLES:
        table = directory / CONFIG_DIRECTORY / name
        if disk.is_file(table / ROCKSDB_MARK):
            raise StoreRefused(str(table), "this table is in RocksDB, which is not served")


def _not_served(disk: Disk, directory: Path, *, serves_light: bool) -> list[str]:
    complaints = []
    queues = directory / CONSUME_QUEUE_DIRECTORY
    light = [name for name in disk.names(queues) if is_light(name)]
    if light and not serves_light:
        complaints.append(
            f"{queues}: light queues are not served without enableLmq and enableMultiDispatch: "
            f"{', '.join(light)}"
        )
    topics = Tables(disk, directory).topics.load()
    compacted = set(disk.names(directory / COMPACTION_LOG))
    for name, topic in topics.topic_config_table.items() if topics is not None else ():
        attributes = topic.attributes or {}
        if attributes.get("cleanup.policy") == "COMPACTION":
            compacted.add(name)
    complaints += [f"topic {name}: compaction is not served" for name in sorted(compacted)]
    return complaints


# Sizes


def _commit_log(disk: Disk, directory: Path, config: StoreConfig) -> tuple[int, list[Path]]:
    """The size of the log's files, and which are shorter."""
    sizes: dict[int, int] = {}
    for name in disk.names(directory):
        start = file_start(name)
        if start is None:
            raise StoreRefused(str(directory / name), "is no file of a commit log; move it away")
        sizes[start] = disk.size_bytes(directory / name)
    starts = sorted(sizes)
    largest = max(sizes.values(), default=0)
    if len(starts) > 1:
        file_bytes = min(later - start for start, later in pairwise(starts))
        if largest < file_bytes and len(set(sizes.values())) == 1 and file_bytes % largest == 0:
            reason = f"only every {file_bytes // largest}. file is here: a commit log in several "
            raise StoreRefused(str(directory), reason + "directories is not served")
    elif largest >= COMMIT_LOG_FILE_BYTES_MIN:
        file_bytes = largest
    else:
        file_bytes = config.commit_log_file_bytes
    for start, later in pairwise(starts):
        if later - start != file_bytes:
            missing = directory / file_name(start + file_bytes)
            raise StoreRefused(str(missing), f"is missing, and {file_name(later)} is there")
    for start in starts:
        if start % file_bytes or sizes[start] > file_bytes:
            path = directory / file_name(start)
            raise StoreRefused(str(path), f"does not fit a log with files of {file_bytes} bytes")
    short = [directory / file_name(start) for start in starts if sizes[start] < file_bytes]
    return file_bytes, short


def _learn(disk: Disk, root: Path, configured: int, multiple: int) -> int:
    """The size most files of queues have, if there are any; a cut file must not decide it."""
    sizes = Counter(size for size in _sampled_sizes(disk, root) if size and size % multiple == 0)
    return configured if not sizes or configured in sizes else sizes.most_common(1)[0][0]


def _sampled_sizes(disk: Disk, root: Path) -> Iterator[int]:
    for count, (topic, queue_id) in enumerate(found_queues(disk, root)):
        if count == SAMPLED_QUEUES:
            return
        directory = queue_directory(root, topic, queue_id)
        for name in disk.names(directory):
            if file_start(name) is not None:
                yield disk.size_bytes(directory / name)
