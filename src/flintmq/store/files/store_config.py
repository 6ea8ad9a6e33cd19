"""The settings of a store: sizes, limits, and the retention of old files.

The defaults are RocketMQ's, except that a record is acknowledged when it is on disk.
Sizes of files count for a new directory; in one that exists its own files decide, see
`survey`.

Invariant: a `StoreConfig` that exists is one a store can work with.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.delay_levels import DELAY_LEVELS
from flintmq.protocol.records.record import FILLER_BYTES_MIN
from flintmq.store.files.layout import (
    BATCH_UNIT_BYTES,
    EXTENSION_FILE_SPARE_BYTES,
    EXTENSION_HEAD_BYTES,
    UNIT_BYTES,
)

COMMIT_LOG_FILE_BYTES_MIN = RECORD_BYTES_MIN + FILLER_BYTES_MIN
"""Room for the smallest record and the filler behind it."""

RECORD_OVERHEAD_BYTES = 64 * 1024
"""What a record may hold beside its body: properties, topic and fixed fields."""

DELAY_OF_UNKNOWN_LEVEL_MS = 1_000
"""RocketMQ delivers a message of a level it does not know after a second."""

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Flush(Enum):
    """When a send is acknowledged."""

    SYNC = "sync"  # once its bytes are on disk
    ASYNC = "async"  # once they are handed to the system


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Milliseconds of each level; the first one is level 1."""
    levels = []
    for part in text.split():
        number, unit = part[:-1], part[-1]
        if unit not in _UNIT_MS or not number.isdecimal():
            raise ValueError(f"{part!r} is no delay: a number and one of s, m, h, d")
        levels.append(int(number) * _UNIT_MS[unit])
    if not levels:
        raise ValueError("there must be at least one delay level, such as 1s")
    return tuple(levels)


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """How much one read may hand out, by where the records are likely to be."""

    memory_bytes: int = 262_144
    memory_count: int = 32
    disk_bytes: int = 65_536
    disk_count: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Settings of one store."""

    commit_log_file_bytes: int = 1024 * 1024 * 1024
    queue_file_bytes: int = 300_000 * UNIT_BYTES
    extension_file_bytes: int = 48 * 1024 * 1024
    batch_queue_file_bytes: int = 300_000 * BATCH_UNIT_BYTES
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000

    flush: Flush = Flush.SYNC
    extended_queues: bool = False
    """Write an extension unit for every unit, for filters that keep a bit map."""

    record_checksums: bool = False
    """Write a checksum over every whole record.  One that is there is checked in any case."""

    light_queues: bool = False
    multi_dispatch: bool = False
    """Records may be in light queues too, if both are set."""
    light_queues_max: int = 20_000

    message_bytes_max: int = 4 * 1024 * 1024
    delay_levels_ms: tuple[int, ...] = parse_delay_levels(DELAY_LEVELS)

    transfer: TransferLimits = TransferLimits()
    scan_bytes_max: int = 16_000
    """Bytes of a consume queue that one read looks through: 800 units."""
    in_memory_bytes: int | None = None
    """How much of the log's end counts as in memory.  Unset: `in_memory_percent` decides."""
    in_memory_percent: int = 40

    retention_hours: int = 72
    clean_percent: int = 75
    """Disk use from which expired files go at any hour."""
    clean_forced_percent: int = 85
    """Disk use from which the oldest files go, expired or not."""
    refuse_percent: int = 90
    """Disk use from which nothing more is appended."""

    def __post_init__(self) -> None:
        smallest = COMMIT_LOG_FILE_BYTES_MIN
        _require(self.commit_log_file_bytes >= smallest, "commit_log_file_bytes", f">= {smallest}")
        _require(
            self.queue_file_bytes > 0 and self.queue_file_bytes % UNIT_BYTES == 0,
            "queue_file_bytes",
            f"a multiple of {UNIT_BYTES}",
        )
        _require(
            self.batch_queue_file_bytes > 0 and self.batch_queue_file_bytes % BATCH_UNIT_BYTES == 0,
            "batch_queue_file_bytes",
            f"a multiple of {BATCH_UNIT_BYTES}",
        )
        smallest = EXTENSION_HEAD_BYTES + EXTENSION_FILE_SPARE_BYTES
        _require(self.extension_file_bytes >= smallest, "extension_file_bytes", f">= {smallest}")
        _require(self.index_slots > 0, "index_slots", "> 0")
        _require(self.index_entries > 1, "index_entries", "> 1")
        _require(self.message_bytes_max > 0, "message_bytes_max", "> 0")
        _require(len(self.delay_levels_ms) > 0, "delay_levels_ms", "not empty")
        _require(self.retention_hours >= 0, "retention_hours", ">= 0")
        percents = (self.clean_percent, self.clean_forced_percent, self.refuse_percent)
        _require(
            0 < percents[0] <= percents[1] <= percents[2] <= 100,
            "clean_percent, clean_forced_percent, refuse_percent",
            "rising within 1 to 100",
        )
        _require(0 <= self.in_memory_percent <= 100, "in_memory_percent", "within 0 to 100")

    @property
    def serves_light(self) -> bool:
        """Whether records may be in light queues."""
        return self.light_queues and self.multi_dispatch

    @property
    def record_bytes_max(self) -> int:
        """The largest record: by the limit of bodies, and because it must fit in one file."""
        return min(self.message_bytes_max + RECORD_OVERHEAD_BYTES, self.batch_bytes_max)

    @property
    def batch_bytes_max(self) -> int:
        """What fits in one file of the log."""
        return self.commit_log_file_bytes - FILLER_BYTES_MIN

    def deliver_ms(self, delay_level: int, store_ms: int) -> int:
        """When a message of a delay level, stored at ``store_ms``, is due."""
        if not 0 < delay_level <= len(self.delay_levels_ms):
            return store_ms + DELAY_OF_UNKNOWN_LEVEL_MS
        return store_ms + self.delay_levels_ms[delay_level - 1]


def _require(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {rule}")
