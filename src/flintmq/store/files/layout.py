"""Where every byte of a store directory lies: names, sizes and numpy types.

RocketMQ's formats as code; nothing here reads or writes.  All integers are big-endian.
The layout of a message record is that of `kernel.layout`, not this file's.

    commitlog/N                        records; N = log offset of the first byte
    consumequeue/TOPIC/QUEUE/N         units; N = byte position in the queue
    consumequeue_ext/TOPIC/QUEUE/N     extension units; N = byte position
    batchconsumequeue/TOPIC/QUEUE/N    batch units, of topics that keep batches; N = byte position
    index/yyyyMMddHHmmssSSS            the key index; newer names sort later
    config/*.json, config/*.json.bak   small tables
    checkpoint  abort  lock            see `checkpoint` and `message_log`

Invariant: the sizes asserted below are those of the files of every RocketMQ broker.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

COMMIT_LOG_DIRECTORY = "commitlog"
CONSUME_QUEUE_DIRECTORY = "consumequeue"
QUEUE_EXTENSION_DIRECTORY = "consumequeue_ext"
BATCH_QUEUE_DIRECTORY = "batchconsumequeue"
INDEX_DIRECTORY = "index"
CONFIG_DIRECTORY = "config"
CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"
LOCK_FILE = "lock"

NAME_DIGITS = 20
"""A file that continues another is named by its first byte's position, zero-padded."""

# Consume queue: the unit of queue offset n lies at byte 20 * n.

UNIT = np.dtype([("log_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
UNIT_STRUCT = struct.Struct(">qiq")
UNIT_BYTES = 20
FILL_SIZE = 0x7FFFFFFF
FILL_UNIT = UNIT_STRUCT.pack(0, FILL_SIZE, 0)
"""Stands where a queue has a position but no record, so that later units keep theirs."""

# Batch consume queue: units in the order of the log, each for ``count`` queue offsets.

BATCH_UNIT = np.dtype(
    [
        ("log_offset", ">i8"),
        ("size", ">i4"),
        ("tags_code", ">i8"),
        ("store_ms", ">i8"),
        ("base_offset", ">i8"),  # queue offset of the first message
        ("count", ">i2"),
        ("compacted", ">i4"),
        ("reserved", ">i4"),
    ]
)
BATCH_UNIT_STRUCT = struct.Struct(">qiqqqhii")
BATCH_UNIT_BYTES = 46
BATCH_COUNT_MAX = 32_767
NOT_COMPACTED = -1

# Extension of a unit: size 2 (of the whole), tags code 8, store time 8, bit map size 2, bit map.

EXTENSION_HEAD = struct.Struct(">hqqh")
EXTENSION_HEAD_BYTES = 20
EXTENSION_BYTES_MAX = 32_767
EXTENSION_FILE_END = struct.Struct(">h").pack(-1)
EXTENSION_FILE_SPARE_BYTES = 4
"""Left free at the end of each extension file; the end mark needs two of them."""

EXTENSION_ADDRESS_ZERO = -(2**63)
EXTENSION_ADDRESS_MAX = -(2**31) - 1
"""Tags codes are 32 bits wide, so a field at or below this is an address."""

# Key index: header, slots, entries.  Entry 0 is never used.

INDEX_HEADER = np.dtype(
    [
        ("begin_store_ms", ">i8"),
        ("end_store_ms", ">i8"),
        ("begin_log_offset", ">i8"),
        ("end_log_offset", ">i8"),
        ("slots_used", ">i4"),
        ("entry_count", ">i4"),  # the number of the next free entry, so at least 1
    ]
)
INDEX_HEADER_STRUCT = struct.Struct(">qqqqii")
INDEX_HEADER_BYTES = 40
INDEX_SLOT = np.dtype(">i4")
INDEX_SLOT_BYTES = 4
INDEX_ENTRY = np.dtype(
    [("key_hash", ">i4"), ("log_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")]
)
INDEX_ENTRY_STRUCT = struct.Struct(">iqii")
INDEX_ENTRY_BYTES = 20
INDEX_NAME_DIGITS = 17

# Checkpoint: five numbers at the start of a file of one page.

CHECKPOINT_STRUCT = struct.Struct(">qqqqq")
CHECKPOINT_BYTES = 4096

assert UNIT.itemsize == UNIT_STRUCT.size == len(FILL_UNIT) == UNIT_BYTES
assert BATCH_UNIT.itemsize == BATCH_UNIT_STRUCT.size == BATCH_UNIT_BYTES
assert EXTENSION_HEAD.size == EXTENSION_HEAD_BYTES
assert INDEX_HEADER.itemsize == INDEX_HEADER_STRUCT.size == INDEX_HEADER_BYTES
assert INDEX_SLOT.itemsize == INDEX_SLOT_BYTES
assert INDEX_ENTRY.itemsize == INDEX_ENTRY_STRUCT.size == INDEX_ENTRY_BYTES
assert CHECKPOINT_STRUCT.size <= CHECKPOINT_BYTES


def file_name(start_byte: int) -> str:
    """The name of the file that begins at a byte of its log or queue."""
    return f"{start_byte:0{NAME_DIGITS}d}"


def file_start(name: str) -> int | None:
    """The first byte a file's name promises, or nothing when it is no such name."""
    if len(name) == NAME_DIGITS and name.isascii() and name.isdigit():
        return int(name)
    return None


def queue_directory(root: Path, topic: str, queue_id: int) -> Path:
    """Where the files of a queue are, under ``consumequeue`` or one of its kind."""
    return root / topic / str(queue_id)


def index_file_bytes(slots: int, entries: int) -> int:
    return INDEX_HEADER_BYTES + slots * INDEX_SLOT_BYTES + entries * INDEX_ENTRY_BYTES
