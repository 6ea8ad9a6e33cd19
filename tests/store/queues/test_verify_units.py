"""Records that look alike are checked at once, with the outcome of looking at each: where limits
end a read, and wherever a record or a unit is not what it should be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.model.queue import QueueOffset
from flintmq.model.sys_flag import BORN_HOST_V6
from flintmq.store.files.layout import UNIT_BYTES, file_name
from flintmq.store.files.store_config import StoreConfig, TransferLimits
from flintmq.store.message_log import MessageLog
from flintmq.store.queues import queue_reader as reading
from support.store.stored import START_MS, draft_of, open_store

COUNT = 40
SIZE = 120
CONFIG = StoreConfig(
    commit_log_file_bytes=1 << 20, queue_file_bytes=20_000, index_slots=16, index_entries=64
)
LIMITS = TransferLimits()


def filled(directory: Path, sizes: list[int] | None = None) -> MessageLog:
    log = open_store(directory, CONFIG)
    for size in sizes or [SIZE] * COUNT:
        log.append(*draft_of(size, queue_id=3), now_ms=START_MS)
    log.write()
    log.flush()
    return log


def outcome(
    log: MessageLog, offset: int = 0, count: int = 32, size_bytes: int = 1 << 20
) -> tuple[object, ...]:
    found = log.read("T", 3, QueueOffset(offset), count, bytes_max=size_bytes, limits=LIMITS)
    octets = b"".join(found.views)
    assert len(octets) == found.size_bytes
    bounds = found.next_offset, found.min_offset, found.max_offset
    return found.status, bounds, found.record_count, found.is_far_behind, octets


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[object, ...]]:
    def look(log: MessageLog, *arguments: int) -> tuple[object, ...]:
        with monkeypatch.context() as patch:
            patch.setattr(reading, "leading_spans", lambda *_, **__: (0, []))
            return outcome(log, *arguments)

    return look


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Reads that looked at one record after the other."""
    reads: list[int] = []
    judge = reading._Batch.fill

    def watched(batch: reading._Batch, *arguments):  # type: ignore[no-untyped-def]
        reads.append(1)
        return judge(batch, *arguments)

    monkeypatch.setattr(reading._Batch, "fill", watched)
    return reads


def damage(path: Path, at: int, octets: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        assert os.pwrite(descriptor, octets, at) == len(octets)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("count", [1, 2, 32])
@pytest.mark.parametrize("offset", [0, 7, COUNT - 1])
def test_one_look_is_enough_for_records_of_one_shape(
    tmp_path: Path,
    one_by_one: Callable[..., tuple[object, ...]],
    judged: list[int],
    offset: int,
    count: int,
) -> None:
    log = filled(tmp_path)

    found = outcome(log, offset, count)

    assert not judged
    assert found[2] == min(count, COUNT - offset)
    assert found == one_by_one(log, offset, count)


@pytest.mark.parametrize("size_bytes", [1, SIZE, 5 * SIZE - 1, 5 * SIZE, 32 * SIZE])
@pytest.mark.parametrize("count", [-1, 0, 1, 5, 32, 33, 1_000])
def test_limits_end_both_reads_at_the_same_place(
    tmp_path: Path, one_by_one: Callable[..., tuple[object, ...]], count: int, size_bytes: int
) -> None:
    log = filled(tmp_path)

    assert outcome(log, 2, count, size_bytes) == one_by_one(log, 2, count, size_bytes)


@pytest.mark.parametrize(
    "sizes", [[SIZE, SIZE + 1] * 16, [*[SIZE] * 31, SIZE + 8], [SIZE + 8, *[SIZE] * 31]]
)
def test_records_of_other_sizes_are_checked_at_once_too(
    tmp_path: Path,
    one_by_one: Callable[..., tuple[object, ...]],
    judged: list[int],
    sizes: list[int],
) -> None:
    log = filled(tmp_path, sizes)

    found = outcome(log)

    assert not judged
    assert found[2] == 32
    assert found == one_by_one(log)


def test_records_of_another_queue_between_them_are_not_given(
    tmp_path: Path, one_by_one: Callable[..., tuple[object, ...]], judged: list[int]
) -> None:
    log = open_store(tmp_path, CONFIG)
    for number in range(8):
        log.append(*draft_of(SIZE, queue_id=3), now_ms=START_MS)
        if number % 3:
            log.append(*draft_of(SIZE, queue_id=4), now_ms=START_MS)
    log.write()

    found = outcome(log)

    assert not judged
    assert found[2] == 8
    assert found == one_by_one(log)


RECORD_FIELDS = {
    "size": (0, b"\0\0\0\x79"),
    "magic": (4, b"\0\0\0\1"),
    "queue id": (12, b"\0\0\0\4"),
    "queue offset": (20, b"\0\0\0\0\0\0\0\x63"),
    "log offset": (28, b"\0\0\0\0\0\0\0\x63"),
    "flags": (39, bytes([BORN_HOST_V6])),
    "size of the body": (84, b"\0\0\0\1"),
    "negative body": (84, b"\xff\xff\xff\xff"),
    "size of the topic": (SIZE - 4, b"\2"),
    "topic": (SIZE - 3, b"U"),
}


@pytest.mark.parametrize("field", RECORD_FIELDS)
@pytest.mark.parametrize("which", [0, 11, 31])
def test_a_damaged_record_is_passed_over_and_the_others_are_given(
    tmp_path: Path,
    one_by_one: Callable[..., tuple[object, ...]],
    judged: list[int],
    which: int,
    field: str,
) -> None:
    log = filled(tmp_path)
    at, octets = RECORD_FIELDS[field]
    damage(tmp_path / "commitlog" / file_name(0), which * SIZE + at, octets)

    found = outcome(log)

    assert judged
    assert found[2] == 32  # one more is taken in its place
    assert found == one_by_one(log)


@pytest.mark.parametrize("place", [0, 8])
@pytest.mark.parametrize("which", [0, 11, 31])
def test_a_damaged_unit_shows_no_other_record(
    tmp_path: Path, one_by_one: Callable[..., tuple[object, ...]], which: int, place: int
) -> None:
    log = filled(tmp_path)
    path = tmp_path / "consumequeue" / "T" / "3" / file_name(0)
    damage(path, which * UNIT_BYTES + place, b"\0\0\0\7")

    found = outcome(log)

    assert found[2] == 32
    assert found == one_by_one(log)


def test_records_that_are_likely_on_disk_are_left_to_the_limits_for_those(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log._reader.in_memory_bytes = SIZE

    found = outcome(log)

    assert found[2] == LIMITS.disk_count
    assert found[3], "they are far behind"
