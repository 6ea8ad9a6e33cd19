"""Old files go by age or when the disk fills up, the oldest first, and queues and index follow."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.model.queue import QueueOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.retention import expired_count, percent_used
from support.store.stored import SMALL, START_MS, bodies, draft_of, open_store, read, records, store

HOUR_MS = 3_600_000
CONFIG = StoreConfig()


class FullDisk(Disk):
    """A disk of which a given part is used."""

    percent = 10

    def usage(self, directory: Path) -> tuple[int, int]:
        return self.percent * 1000, (100 - self.percent) * 1000


@pytest.mark.parametrize(
    ("used", "usable", "percent"),
    [(0, 100, 0), (1, 999, 1), (75, 25, 75), (751, 249, 76), (0, 0, 0)],
)
def test_disk_use_is_rounded_up(used: int, usable: int, percent: int) -> None:
    assert percent_used(used, usable) == percent


@pytest.mark.parametrize(
    ("percent", "due", "count"),
    [
        (10, False, 0),  # not the hour
        (10, True, 2),  # the expired ones
        (75, False, 0),
        (76, False, 2),  # at any hour
        (85, False, 2),
        (86, False, 3),  # expired or not
    ],
)
def test_disk_use_and_hour_decide_what_goes(percent: int, due: bool, count: int) -> None:
    now_ms = 100 * HOUR_MS
    finished = [10 * HOUR_MS, 28 * HOUR_MS, 29 * HOUR_MS]

    assert expired_count(finished, CONFIG, percent, now_ms, due=due) == count


def test_no_more_than_ten_files_go_at_once() -> None:
    assert expired_count([0] * 30, CONFIG, 10, 100 * HOUR_MS, due=True) == 10
    assert expired_count([0] * 30, CONFIG, 99, 0, due=False) == 10


def test_a_younger_file_protects_those_behind_it() -> None:
    finished = [0, 99 * HOUR_MS, 0]

    assert expired_count(finished, CONFIG, 10, 100 * HOUR_MS, due=True) == 1


def hourly(directory: Path, disk: Disk | None = None) -> MessageLog:
    """Eight messages, one an hour, two to a file of the log; with another topic among them."""
    log = open_store(directory, SMALL, disk or FullDisk())
    for hour in range(8):
        store(log, b"%d" % hour + bytes(1935), now_ms=START_MS + hour * HOUR_MS, keys=(f"k{hour}",))
    return log


def test_files_older_than_the_limit_go_with_what_points_at_them(tmp_path: Path) -> None:
    log = hourly(tmp_path)

    removed = log.retain(START_MS + (72 + 5) * HOUR_MS, due=True)

    assert removed == 2
    assert (log.min_offset("T", 0), log.max_offset("T", 0)) == (4, 8)
    assert [body[:1] for body in bodies(log)] == [b"4", b"5", b"6", b"7"]
    assert log.lookup.by_key("T", "k1", 32, 0, 2**62).views == []
    assert sorted(path.name for path in (tmp_path / "commitlog").iterdir()) == [
        f"{start:020d}" for start in (8192, 12288)
    ]


def test_the_age_of_a_file_is_that_of_its_last_record(tmp_path: Path) -> None:
    log = hourly(tmp_path)

    assert log.retain(START_MS + (72 + 2) * HOUR_MS - 1, due=True) == 0
    assert log.retain(START_MS + (72 + 2) * HOUR_MS, due=True) == 1


def test_the_last_file_is_never_removed(tmp_path: Path) -> None:
    log = hourly(tmp_path)

    log.retain(START_MS + 10_000 * HOUR_MS, due=True)

    assert [body[:1] for body in bodies(log)] == [b"6", b"7"]
    assert store(log, b"8").queue_offset == 8


def test_answers_given_out_stay_readable(tmp_path: Path) -> None:
    log = hourly(tmp_path)
    found = read(log, 0)

    log.retain(START_MS + 10_000 * HOUR_MS, due=True)

    assert [record.body[:1] for record in records(found)] == [b"%d" % hour for hour in range(8)]


def test_a_queue_that_lost_everything_keeps_its_end(tmp_path: Path) -> None:
    log = open_store(tmp_path, SMALL, FullDisk())
    store(log, topic="quiet")
    for hour in range(4):
        log.append(*draft_of(2000), now_ms=START_MS + hour * HOUR_MS)
    log.write()

    log.retain(START_MS + 10_000 * HOUR_MS, due=True)
    log.close()
    log = open_store(tmp_path)

    assert (log.min_offset("quiet", 0), log.max_offset("quiet", 0)) == (1, 1)
    assert store(log, topic="quiet").queue_offset == 1
    assert log.read("quiet", 0, QueueOffset(1), 32).record_count == 1


def test_files_of_a_queue_go_when_all_they_point_at_is_gone(tmp_path: Path) -> None:
    log = open_store(tmp_path, SMALL, FullDisk())
    for index in range(100):
        log.append(*draft_of(400), now_ms=START_MS + index)
    log.write()
    log.flush()

    log.retain(START_MS + 10_000 * HOUR_MS, due=True)

    names = sorted(path.name for path in (tmp_path / "consumequeue/T/0").iterdir())
    assert names == [f"{start:020d}" for start in range(1800, 2000, 200)]
    assert log.min_offset("T", 0) == 90


def test_files_of_the_index_go_when_all_they_point_at_is_gone(tmp_path: Path) -> None:
    log = open_store(tmp_path, SMALL, FullDisk())
    for index in range(200):
        store(log, b"x" * 100, keys=(f"k{index}",), now_ms=START_MS + index)
    log.flush()
    before = sorted((tmp_path / "index").iterdir())

    log.retain(START_MS + 10_000 * HOUR_MS, due=True)

    after = sorted((tmp_path / "index").iterdir())
    assert len(before) == 4
    assert after == before[2:]
    assert log.lookup.by_key("T", "k199", 32, 0, 2**62).views


def test_extension_files_go_with_the_units_that_point_at_them(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(SMALL, extended_queues=True), FullDisk())
    for index in range(100):
        log.append(*draft_of(400), bit_map=bytes(60), now_ms=START_MS + index)
    log.write()
    before = sorted((tmp_path / "consumequeue_ext/T/0").iterdir())

    log.retain(START_MS + 10_000 * HOUR_MS, due=True)

    after = sorted((tmp_path / "consumequeue_ext/T/0").iterdir())
    assert len(before) == 9
    assert after == before[7:]
    assert log.read("T", 0, QueueOffset(90), 32).record_count == 10


def test_an_overfull_disk_refuses_appends_until_there_is_room(tmp_path: Path) -> None:
    disk = FullDisk()
    log = hourly(tmp_path, disk)
    disk.percent = 91
    log.retain(START_MS)

    with pytest.raises(DiskFailed) as failed:
        store(log)
    kept = bodies(log)
    disk.percent = 90
    log.retain(START_MS)

    assert failed.value.is_full
    assert [body[:1] for body in kept] == [b"6", b"7"]
    assert store(log).queue_offset == 8


@pytest.mark.parametrize(("age_hours", "removed"), [(72, 1), (71, 0)])
def test_without_a_readable_record_the_file_tells_its_age(
    tmp_path: Path, age_hours: int, removed: int
) -> None:
    log = hourly(tmp_path)
    path = tmp_path / "commitlog" / f"{4096:020d}"
    octets = bytearray(path.read_bytes())
    octets[:100] = bytes(100)
    path.write_bytes(octets)
    os.utime(tmp_path / "commitlog" / f"{0:020d}", (START_MS / 1000, START_MS / 1000))

    assert log.retain(START_MS + age_hours * HOUR_MS, due=True) == removed


def test_the_last_minutes_are_kept_when_nothing_has_expired(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(SMALL, retention_hours=0), FullDisk())
    for _ in range(5):
        log.append(*draft_of(2000), now_ms=START_MS)
    log.write()

    assert log.retain(START_MS - 1, due=True) == 0
    assert log.retain(START_MS, due=True) == 2
