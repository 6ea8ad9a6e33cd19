"""How much disk and memory a load needs, by the layout of the store's own files.

    commit log       records: 91 fixed bytes, body, topic, properties
    consume queues   20 bytes for each message
    key index        20 bytes for each key and unique id, 4 bytes for each slot of a file

Files are deleted whole and once a day, so a broker holds up to a day and a file more than its
retention.  The disk has to stay below the use from which a broker deletes early.

These are formulas: nothing here looks at a disk.  Bodies are counted as they are stored, so the
size of a compressed body is the compressed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model import properties as names
from flintmq.model.message import KEY_SEPARATOR
from flintmq.protocol.records.properties import encode_properties
from flintmq.store.files.layout import (
    INDEX_ENTRY_BYTES,
    UNIT_BYTES,
    index_file_bytes,
)
from flintmq.store.files.store_config import StoreConfig

UNIQUE_ID_CHARACTERS: Final = 32
_HOUR_S: Final = 3_600
_DAY_HOURS: Final = 24

_WRITTEN_BY_BROKERS: Final = {
    names.WAIT: "true",
    names.MSG_REGION: "DefaultRegion",
    names.TRACE_ON: "true",
    names.CLUSTER: "DefaultCluster",
}
"""What producers and brokers add to every message; with names of usual length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent to one broker.  ``property_bytes`` are those of the user, names included.

    ``hot_s`` is how far behind consumers may be while they still read from memory.
    """

    messages_per_s: float
    body_bytes: int
    topic_characters: int = 12
    tag_characters: int = 8
    keys: int = 1
    key_characters: int = 16
    property_bytes: int = 0
    queues: int = 8
    retention_hours: float = 72
    replicas: int = 1
    hot_s: float = 300


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a load needs.  All but the last are for one broker; sizes are in bytes."""

    record_bytes: int
    held_hours: float
    """How long a message may be kept before its file is deleted."""
    held_messages: int
    log_bytes: int
    log_files: int
    queue_bytes: int
    queue_files: int
    index_bytes: int
    index_files: int
    written_bytes_per_s: int
    disk_bytes: int
    """The disk to buy: what is held, below the use from which files are deleted early."""
    page_cache_bytes: int
    """The end of the log for ``hot_s``, its queue units, and the index file that is written."""
    memory_bytes: int
    """So much that the hot end of the log counts as in memory."""
    disk_bytes_of_all: int


def capacity(load: Load, config: StoreConfig | None = None) -> Capacity:
    """Disk, files and memory for a load, with the file sizes and limits of a store."""
    config = config or StoreConfig()
    record = record_bytes(load)
    file_hours = config.commit_log_file_bytes / max(1.0, load.messages_per_s * record) / _HOUR_S
    held_hours = load.retention_hours + _DAY_HOURS + min(file_hours, load.retention_hours)
    held = round(load.messages_per_s * _HOUR_S * held_hours)
    log_files = _files(held * record, config.commit_log_file_bytes)
    log_bytes = log_files * config.commit_log_file_bytes
    queue_files = load.queues * _files(
        -(-held // load.queues) * UNIT_BYTES, config.queue_file_bytes
    )
    queue_bytes = queue_files * config.queue_file_bytes
    entries_of_file = config.index_entries - 1  # entry 0 is never used
    index_file = index_file_bytes(config.index_slots, config.index_entries)
    index_files = _files(held * (load.keys + 1), entries_of_file)
    index_bytes = index_files * index_file
    held_bytes = log_bytes + queue_bytes + index_bytes
    disk_bytes = held_bytes * 100 // config.clean_percent
    hot = load.messages_per_s * load.hot_s
    indexed = INDEX_ENTRY_BYTES * (load.keys + 1)
    hot_log = round(hot * record)
    page_cache = hot_log + round(hot * UNIT_BYTES) + index_file
    return Capacity(
        record,
        held_hours,
        held,
        log_bytes,
        log_files,
        queue_bytes,
        queue_files,
        index_bytes,
        index_files,
        round(load.messages_per_s * (record + UNIT_BYTES + indexed)),
        disk_bytes,
        page_cache,
        max(page_cache, hot_log * 100 // max(1, config.in_memory_percent)),
        disk_bytes * load.replicas,
    )


def record_bytes(load: Load) -> int:
    """One message in the commit log, as our producer and broker store it."""
    properties = {names.UNIQ_KEY: "0" * UNIQUE_ID_CHARACTERS, **_WRITTEN_BY_BROKERS}
    if load.tag_characters:
        properties[names.TAGS] = "t" * load.tag_characters
    if load.keys:
        properties[names.KEYS] = KEY_SEPARATOR.join(["k" * load.key_characters] * load.keys)
    written = len(encode_properties(properties)) + load.property_bytes
    return RECORD_BYTES_MIN + load.body_bytes + load.topic_characters + written


def _files(amount: int, file_amount: int) -> int:
    """Whole files, and one at least: a store creates it before the first message."""
    return max(1, -(-amount // file_amount))
