"""A read of many records at once gives what a read of one after the other gives: where limits end
it, across files, and where the log or the queue is damaged.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from flintmq.model.queue import QueueOffset
from flintmq.model.sys_flag import BORN_HOST_V6
from flintmq.store.files.layout import UNIT_BYTES
from flintmq.store.files.store_config import StoreConfig, TransferLimits
from flintmq.store.message_log import MessageLog
from flintmq.store.queues import queue_reader as reading
from flintmq.store.queues.selection import CHUNK_UNITS
from support.store.stored import START_MS, draft_of, open_store

COUNT = 3 * CHUNK_UNITS
FILE_BYTES = 64 * 1024
CONFIG = StoreConfig(
    commit_log_file_bytes=FILE_BYTES, queue_file_bytes=40_000, index_slots=16, index_entries=64
)
ALL_BYTES = 1 << 20


def filled(directory: Path) -> MessageLog:
    """Records of two queues, now and then one of the other in between; several files of the log."""
    chance = Random(7)
    log = open_store(directory, CONFIG)
    for _ in range(COUNT):
        log.append(*draft_of(chance.randint(110, 400)), now_ms=START_MS)
        if chance.random() < 0.2:
            log.append(*draft_of(150, queue_id=1), now_ms=START_MS)
    log.write()
    log.flush()
    assert log.end_offset > FILE_BYTES
    return log


def outcome(
    log: MessageLog, offset: int = 0, size_bytes: int = ALL_BYTES, count: int = COUNT
) -> tuple[object, ...]:
    limits = TransferLimits(
        memory_bytes=size_bytes, memory_count=COUNT, disk_bytes=size_bytes, disk_count=COUNT
    )
    found = log.read("T", 0, QueueOffset(offset), count, limits=limits)
    octets = b"".join(found.views)
    assert len(octets) == found.size_bytes
    return found.status, found.next_offset, found.record_count, octets


def one_by_one(
    monkeypatch: pytest.MonkeyPatch,
    log: MessageLog,
    offset: int = 0,
    size_bytes: int = ALL_BYTES,
    count: int = COUNT,
) -> tuple[object, ...]:
    with monkeypatch.context() as patch:
        patch.setattr(reading, "leading_spans", lambda *_, **__: (0, []))
        return outcome(log, offset, size_bytes, count)


def test_sound_records_are_all_taken_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path)
    alone: list[int] = []
    judge = reading._Batch.fill

    def watched(batch: reading._Batch, units, *limits):  # type: ignore[no-untyped-def]
        rest = list(units)
        alone.append(len(rest))
        return judge(batch, rest, *limits)

    monkeypatch.setattr(reading._Batch, "fill", watched)

    assert outcome(log)[2] == COUNT
    assert alone == [0]


@pytest.mark.parametrize("offset", [0, 1, COUNT // 2, COUNT - 1])
@pytest.mark.parametrize("size_bytes", [100, 3_000, 50_000, ALL_BYTES])
@pytest.mark.parametrize("count", [CHUNK_UNITS + 1, COUNT, 2 * COUNT])
def test_limits_end_both_reads_at_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, size_bytes: int, count: int
) -> None:
    log = filled(tmp_path)

    found = outcome(log, offset, size_bytes, count)

    assert found == one_by_one(monkeypatch, log, offset, size_bytes, count)


@pytest.mark.parametrize("seed", range(60))
def test_damage_costs_both_reads_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    log = filled(tmp_path)
    chance = Random(seed)
    row = chance.randrange(COUNT)
    log_offset = int(log._queues.open("T", 0).units(QueueOffset(row), 1)[0]["log_offset"])
    if chance.random() < 0.3:  # the unit
        path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}"
        at = row * UNIT_BYTES + chance.randrange(12)
    else:  # the head of the record, or anything up to its topic
        path = tmp_path / "commitlog" / f"{log_offset - log_offset % FILE_BYTES:020d}"
        at = log_offset % FILE_BYTES + chance.randrange(110)
    with path.open("r+b") as file:
        file.seek(at)
        (octet,) = file.read(1)
        file.seek(at)
        file.write(bytes([octet ^ 1 << chance.randrange(8)]))

    assert outcome(log) == one_by_one(monkeypatch, log)


def test_a_record_with_another_kind_of_host_is_left_to_the_careful_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says of itself that its host is longer, so its topic is not where it should be."""
    log = filled(tmp_path)
    log_offset = int(log._queues.open("T", 0).units(QueueOffset(5), 1)[0]["log_offset"])
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(log_offset + 36)
        file.write(BORN_HOST_V6.to_bytes(4))

    assert outcome(log) == one_by_one(monkeypatch, log)
