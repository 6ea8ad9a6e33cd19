"""A read gives the records, the status and the next offset that a RocketMQ broker would give,
and shows no record that is not what its unit says.

Statuses and next offsets are those of the table and the worked examples in the description of
the store.
"""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.model.queue import QueueOffset
from flintmq.store.files.store_config import StoreConfig, TransferLimits
from flintmq.store.message_log import MessageLog
from flintmq.store.queues import queue_reader as reading
from flintmq.store.queues.queue_reader import GetStatus, ReadResult
from flintmq.store.queues.selection import Selection
from support.store.stored import (
    SMALL,
    START_MS,
    bodies,
    draft,
    draft_of,
    open_store,
    read,
    records,
    store,
)

ROOMY = StoreConfig(
    commit_log_file_bytes=1 << 20, queue_file_bytes=40_000, index_slots=16, index_entries=64
)


def fill(log: MessageLog, count: int, topic: str = "T", size_bytes: int = 100) -> None:
    """Messages whose bodies are all zeros, in one turn."""
    for _ in range(count):
        log.append(*draft_of(size_bytes, topic), now_ms=START_MS)
    log.write()


def outcome(found: ReadResult) -> tuple[GetStatus, int, int, int]:
    return found.status, found.next_offset, found.min_offset, found.max_offset


def offsets(found: ReadResult) -> list[int]:
    return [record.queue_offset for record in records(found)]


def all_offsets(log: MessageLog) -> list[int]:
    """What a consumer gets that reads from the start to the end."""
    taken: list[int] = []
    offset = 0
    while offset < log.max_offset("T", 0):
        found = read(log, offset)
        taken += offsets(found)
        assert found.next_offset > offset
        offset = found.next_offset
    return taken


def log_file(directory: Path, start: int = 0) -> Path:
    return directory / "commitlog" / f"{start:020d}"


def change(path: Path, at: int, octets: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(octets)


# Where an offset leads


def test_a_queue_that_does_not_exist_sends_to_the_start(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    found = read(log, 7)

    assert outcome(found) == (GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)


@pytest.mark.parametrize("offset", [0, 3])
def test_an_empty_queue_sends_to_the_start(tmp_path: Path, offset: int) -> None:
    log = open_store(tmp_path)
    log._queues.open("T", 0)

    found = read(log, offset)

    assert outcome(found) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


def queue_from_two_to_five(directory: Path) -> MessageLog:
    """Five messages, of which the first two went with their file of the log."""
    log = open_store(directory)
    for _ in range(2):
        log.append(*draft_of(2000), now_ms=START_MS)
    for _ in range(3):
        log.append(*draft_of(100), now_ms=START_MS)
    log.write()
    log._log.remove_first()
    log._queues.retain_from(log._log.min_offset)
    return log


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (1, GetStatus.OFFSET_TOO_SMALL, 2),
        (-1, GetStatus.OFFSET_TOO_SMALL, 2),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (9, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (2**62, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (2, GetStatus.FOUND, 5),
        (4, GetStatus.FOUND, 5),
    ],
)
def test_an_offset_outside_the_queue_is_sent_to_its_nearer_end(
    tmp_path: Path, offset: int, status: GetStatus, next_offset: int
) -> None:
    log = queue_from_two_to_five(tmp_path)

    found = read(log, offset)

    assert outcome(found) == (status, next_offset, 2, 5)


def test_an_offset_over_the_end_goes_to_the_end_even_if_the_queue_starts_at_zero(
    tmp_path: Path,
) -> None:
    log = open_store(tmp_path)
    fill(log, 3)

    assert outcome(read(log, 9)) == (GetStatus.OFFSET_OVERFLOW_BADLY, 3, 0, 3)


def test_units_that_cannot_be_read_send_to_the_next_file_of_the_queue(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    fill(log, 15)
    log.flush()
    os.truncate(tmp_path / "consumequeue/T/0" / f"{0:020d}", 60)

    found = read(log, 4)

    assert outcome(found) == (GetStatus.OFFSET_FOUND_NULL, 10, 0, 15)


# How much a read gives


def test_a_read_gives_thirty_two_records_from_memory_however_many_are_asked_for(
    tmp_path: Path,
) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 100)

    found = read(log, 0, 1000)

    assert (found.status, found.record_count, found.next_offset) == (GetStatus.FOUND, 32, 32)
    assert offsets(found) == list(range(32))
    assert offsets(read(log, 32, 5)) == list(range(32, 37))


@pytest.mark.parametrize("count_max", [1, 0, -1])
def test_one_record_is_the_least_a_read_gives(tmp_path: Path, count_max: int) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 3)

    found = read(log, 1, count_max)

    assert (offsets(found), found.next_offset) == ([1], 2)


def test_bytes_in_memory_are_limited(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(ROOMY, transfer=TransferLimits(memory_bytes=350)))
    fill(log, 10)

    found = read(log)

    assert (found.record_count, found.size_bytes, found.next_offset) == (3, 300, 3)


def test_a_limit_that_is_met_exactly_is_not_over(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(ROOMY, transfer=TransferLimits(memory_bytes=300)))
    fill(log, 10)

    assert read(log).record_count == 3


def test_a_record_over_every_limit_is_given_alone(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(ROOMY, transfer=TransferLimits(memory_bytes=10)))
    fill(log, 3)

    assert offsets(read(log)) == [0]
    assert offsets(log.read("T", 0, QueueOffset(1), 32, bytes_max=1)) == [1]


def test_the_bytes_a_reader_asks_for_are_a_limit(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 10)

    assert log.read("T", 0, QueueOffset(0), 32, bytes_max=399).record_count == 3


def test_no_reader_can_ask_for_more_than_an_answer_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_BYTES_MAX", 300)
    log = open_store(tmp_path, ROOMY)
    fill(log, 10)

    assert log.read("T", 0, QueueOffset(0), 32, bytes_max=10_000).record_count == 3


def test_old_records_are_given_in_smaller_portions(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(ROOMY, in_memory_bytes=5_000))
    fill(log, 100)

    old, new = read(log, 0), read(log, 60)

    assert (old.record_count, old.is_far_behind) == (8, True)
    assert (new.record_count, new.is_far_behind) == (32, False)


def test_bytes_on_disk_are_limited(tmp_path: Path) -> None:
    config = replace(ROOMY, in_memory_bytes=0, transfer=TransferLimits(disk_bytes=250))
    log = open_store(tmp_path, config)
    fill(log, 100)

    assert read(log).record_count == 2


def test_a_read_may_run_from_old_records_into_newer_ones(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(ROOMY, in_memory_bytes=9_500))
    fill(log, 100)

    found = read(log)

    assert found.record_count == 32  # five old ones, then those in memory count


def test_limits_can_be_raised_for_one_reader(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 300)

    wide = TransferLimits(1 << 20, 1000, 1 << 20, 1000)
    found = log.read("T", 0, QueueOffset(0), 1000, limits=wide)

    assert (found.record_count, found.next_offset) == (300, 300)
    assert len(found.views) == 1


def test_a_read_stays_inside_one_file_of_the_queue(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    fill(log, 25)

    assert offsets(read(log, 7)) == [7, 8, 9]
    assert offsets(read(log, 10)) == list(range(10, 20))


# Side by side


def test_records_side_by_side_share_one_view(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 5)

    assert [len(view) for view in read(log).views] == [500]


def test_records_of_other_queues_lie_between(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    for topic in ("T", "T", "U", "T", "U"):
        fill(log, 1, topic)

    found = read(log)

    assert [len(view) for view in found.views] == [200, 100]
    assert offsets(found) == [0, 1, 2]


def test_a_read_crosses_files_of_the_log(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for _ in range(4):
        log.append(*draft_of(2000), now_ms=START_MS)
    log.write()

    found = read(log)

    assert [len(view) for view in found.views] == [4000, 4000]
    assert offsets(found) == [0, 1, 2, 3]


def test_an_answer_stays_readable_after_its_file_was_removed(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for body in (b"a" * 1900, b"b" * 1900, b"c" * 1900):
        store(log, body)
    found = read(log)

    log._log.remove_first()

    assert [record.body[:1] for record in records(found)] == [b"a", b"b", b"c"]


# What is wanted


def test_a_tag_filter_passes_over_what_it_does_not_want(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    for index in range(20):
        store(log, b"", TAGS="ABC"[index % 3])

    wanted = Selection(frozenset({ord("A"), ord("C")}))
    found = log.read("T", 0, QueueOffset(0), 32, wanted=wanted)

    assert offsets(found) == [index for index in range(20) if index % 3 != 1]
    assert found.next_offset == 20


def test_a_full_batch_stops_right_behind_its_last_record(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    for index in range(20):
        store(log, b"", TAGS="AB"[index % 2])

    found = log.read("T", 0, QueueOffset(1), 3, wanted=Selection(frozenset({ord("A")})))

    assert (offsets(found), found.next_offset) == ([2, 4, 6], 7)


def test_no_more_than_eight_hundred_units_are_looked_at(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 1000)

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(frozenset({5})))

    assert outcome(found) == (GetStatus.NO_MATCHED_MESSAGE, 800, 0, 1000)


def test_who_asks_for_more_records_has_more_units_looked_at(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 1000)

    found = log.read("T", 0, QueueOffset(0), 900, wanted=Selection(frozenset({5})))

    assert found.next_offset == 900


def test_only_the_low_half_of_the_code_is_compared(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    log.append(*draft(TAGS="A"), tags_code=(1 << 40) + 65, now_ms=START_MS)
    log.write()

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(frozenset({65})))

    assert found.record_count == 1


def test_a_negative_hash_is_found(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    store(log, b"", TAGS="polygenelubricants")

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(frozenset({-(2**31)})))

    assert found.record_count == 1


def test_a_message_without_a_tag_has_the_code_zero(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    store(log, b"no tag", KEYS="TAGS")

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(frozenset({0})))

    assert found.record_count == 1


def test_a_record_filter_sees_whole_records(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    for index in range(10):
        store(log, bytes([index]) * index, price=str(index))
    seen: list[int] = []

    def is_cheap(record: memoryview) -> bool:
        seen.append(len(record))
        return bytes(record).endswith(b"price\x013\x02")

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(record=is_cheap))

    assert offsets(found) == [3]
    assert found.next_offset == 10
    assert seen == [int.from_bytes(bytes(view[:4])) for view in _each(log)]


def _each(log: MessageLog) -> list[memoryview]:
    return [read(log, offset, 1).views[0] for offset in range(log.max_offset("T", 0))]


def test_nothing_wanted_by_the_record_filter_is_no_match(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 10)

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(record=lambda _: False))

    assert outcome(found) == (GetStatus.NO_MATCHED_MESSAGE, 10, 0, 10)


def test_a_reader_far_behind_is_told_even_if_nothing_matched(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(ROOMY, in_memory_bytes=1_000))
    fill(log, 100)

    found = log.read("T", 0, QueueOffset(0), 50, wanted=Selection(frozenset({5})))
    at_the_end = log.read("T", 0, QueueOffset(95), 50, wanted=Selection(frozenset({5})))

    assert found.next_offset == 100
    assert not found.is_far_behind
    assert not at_the_end.is_far_behind


# Damage


@pytest.mark.parametrize(
    ("at", "octets"),
    [
        (0, struct.pack(">i", 99)),  # size
        (4, b"\xda\xa3\x20\xa6"),  # magic
        (12, struct.pack(">i", 1)),  # queue id
        (20, struct.pack(">q", 7)),  # queue offset
        (28, struct.pack(">q", 7)),  # place in the log
    ],
)
def test_a_record_that_is_not_what_its_unit_says_is_not_shown(
    tmp_path: Path, at: int, octets: bytes
) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 5)
    change(log_file(tmp_path), 200 + at, octets)

    found, alone = read(log), read(log, 2, 1)

    assert offsets(found) == [0, 1, 3, 4]
    assert found.next_offset == 5
    assert [len(view) for view in found.views] == [200, 200]
    assert (alone.status, alone.next_offset, offsets(alone)) == (GetStatus.FOUND, 4, [3])


@pytest.mark.parametrize(
    "unit",
    [
        (200, 99, 0),
        (200, 101, 0),
        (200, 5, 0),
        (200, 2**31 - 1, 0),
        (201, 100, 0),
        (300, 100, 0),
        (2**40, 100, 0),
        (0, 2**31 - 1, 0),  # a fill unit
    ],
)
def test_a_unit_that_points_elsewhere_shows_nothing(
    tmp_path: Path, unit: tuple[int, int, int]
) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 5)
    log.flush()
    queue_file = tmp_path / "consumequeue/T/0" / f"{0:020d}"
    change(queue_file, 2 * 20, struct.pack(">qiq", *unit))

    assert all_offsets(log) == [0, 1, 3, 4]


def test_a_unit_at_the_very_end_of_a_file_shows_nothing(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for _ in range(3):
        log.append(*draft_of(2000), now_ms=START_MS)
    log.write()
    log.flush()
    queue_file = tmp_path / "consumequeue/T/0" / f"{0:020d}"
    change(queue_file, 1 * 20, struct.pack(">qiq", 4090, 5, 0))

    assert all_offsets(log) == [0, 2]


def test_nothing_behind_the_end_of_the_log_is_shown(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 3)
    log.flush()
    torn = draft_of(100).octets(1, 300, START_MS)
    change(log_file(tmp_path), 300, torn)
    change(tmp_path / "consumequeue/T/0" / f"{0:020d}", 20, struct.pack(">qiq", 300, 100, 0))

    assert all_offsets(log) == [0, 2]


def test_a_read_stops_before_a_hole_and_the_next_one_passes_it(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 5)
    log.flush()
    queue_file = tmp_path / "consumequeue/T/0" / f"{0:020d}"
    change(queue_file, 2 * 20, struct.pack(">qiq", 0, 2**31 - 1, 0))

    before, after = read(log, 0), read(log, 2)

    assert (offsets(before), before.next_offset) == ([0, 1], 2)
    assert (offsets(after), after.next_offset) == ([3, 4], 5)


def test_a_lost_record_alone_answers_like_a_removed_one(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    fill(log, 3)
    change(log_file(tmp_path), 200, bytes(100))

    found = read(log, 2)

    assert outcome(found) == (GetStatus.MESSAGE_WAS_REMOVING, 3, 0, 3)
    assert found.views == []


def test_records_of_a_file_that_is_gone_are_skipped(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for body in (b"a" * 1950, b"b" * 1950, b"c", b"d"):
        store(log, body)
    log._log.remove_first()  # and the queue was not told

    found = read(log)

    assert [record.body for record in records(found)] == [b"c", b"d"]
    assert found.next_offset == 4


def test_units_of_a_file_that_is_gone_and_nothing_else_say_removed(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for body in (b"a" * 1950, b"b" * 1950):
        store(log, body)
    store(log, b"other", topic="U")
    log._log.remove_first()

    assert outcome(read(log)) == (GetStatus.MESSAGE_WAS_REMOVING, 2, 0, 2)


def test_a_damaged_tag_code_does_not_pass_for_another_tag(tmp_path: Path) -> None:
    log = open_store(tmp_path, ROOMY)
    for tag in ("A", "B", "A"):
        store(log, tag.encode(), TAGS=tag)
    log.flush()
    queue_file = tmp_path / "consumequeue/T/0" / f"{0:020d}"
    change(queue_file, 1 * 20 + 12, struct.pack(">q", ord("A")))

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(frozenset({ord("A")})))

    assert [record.body for record in records(found)] == [b"A", b"A"]


def test_a_long_queue_is_read_from_start_to_end(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    sent = [f"{index}".encode() for index in range(137)]
    for body in sent:
        log.append(*draft(body), now_ms=START_MS)
        log.append(*draft(b"x" * 50, "U"), now_ms=START_MS)
    log.write()

    assert bodies(log) == sent
    assert SMALL.queue_file_bytes == 200
