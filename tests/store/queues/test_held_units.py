"""Units of queues wait in memory while their records are in the log: readers see them at once,
a crash loses none, and a disk that refuses them loses none.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.store import message_log
from flintmq.store.check.findings import Severity
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.mending import MEND_INTERVAL_MS
from flintmq.store.message_log import MessageLog
from flintmq.store.queues import queue_set
from support.crash.workload import QuickDisk
from support.store.failing_disk import FailingDisk
from support.store.refusing_disk import RefusingDisk
from support.store.stored import SMALL, START_MS, bodies, draft, open_store, read, store

PER_FILE = SMALL.queue_file_bytes // 20


def fill(log: MessageLog, first: int, stop: int) -> None:
    for number in range(first, stop):
        store(log, b"%d" % number, keys=(f"k{number}",))


def unit_bytes(directory: Path, topic: str = "T", queue_id: int = 0) -> bytes:
    """What the files of a queue have, up to their zeros."""
    paths = sorted(directory.glob(f"consumequeue/{topic}/{queue_id}/*"))
    return b"".join(path.read_bytes() for path in paths).rstrip(b"\0")


def kill(log: MessageLog) -> None:
    """End a store as the death of its process does."""
    log._disk.unlock(log._lock)


def wrong(directory: Path) -> list[str]:
    report = check_store(Disk(), directory, SMALL)
    return [str(found) for found in report.findings.kept if found.severity is Severity.WRONG]


def test_a_turn_writes_the_log_alone_and_readers_see_its_units(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    fill(log, 0, 3)

    assert not (tmp_path / "consumequeue").exists()
    assert bodies(log) == [b"0", b"1", b"2"]
    assert (log.min_offset("T", 0), log.max_offset("T", 0)) == (0, 3)
    log.flush()
    assert len(unit_bytes(tmp_path)) > 2 * 20
    assert bodies(log) == [b"0", b"1", b"2"]


def test_queues_without_a_file_do_not_pile_up(tmp_path: Path) -> None:
    """To make files takes time: hundreds of new queues at once would stop everybody."""
    log = open_store(tmp_path)

    made = []
    for number in range(100):
        store(log, b"first", topic=f"T{number}")
        made.append(len(list(tmp_path.glob("consumequeue/*"))))

    assert all(number + 1 - count < message_log.NEW_QUEUES_MAX for number, count in enumerate(made))


def test_few_are_written_early_and_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_log, "FEW_MAX", 6)
    log = open_store(tmp_path)

    fill(log, 0, 3)  # three units, three keys
    log.flush_few()
    early = unit_bytes(tmp_path)
    fill(log, 3, 7)
    log.flush_few()

    assert len(early) > 2 * 20
    assert unit_bytes(tmp_path) == early
    log.flush()
    assert len(unit_bytes(tmp_path)) > 6 * 20


def test_little_of_many_queues_waits_for_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write for each unit costs more than all else of its message."""
    monkeypatch.setattr(queue_set, "SCATTERED_QUEUES", 3)
    log = open_store(tmp_path)
    for number in range(4):
        store(log, b"first", topic=f"T{number}")

    log.flush(scattered=False)
    log.flush_few()
    before = [log._queues.held_count, len(list(tmp_path.glob("consumequeue/*")))]
    for _ in range(queue_set.SCATTERED_UNITS):
        for number in range(4):
            store(log, b"more", topic=f"T{number}")
    log.flush(scattered=False)

    assert before == [4, 0]
    assert log._queues.held_count == 0
    store(log, b"last", topic="T0")
    plan = log.begin_sync(thorough=True)
    assert plan is not None
    plan.run()
    log.finish_sync(plan)
    assert log._queues.held_count == 0, "a checkpoint covers all"


@pytest.mark.parametrize("flushed", [0, 1, 7, PER_FILE, PER_FILE + 3, 2 * PER_FILE])
def test_written_and_held_units_are_read_as_one_queue(tmp_path: Path, flushed: int) -> None:
    log = open_store(tmp_path)
    fill(log, 0, flushed)
    log.flush()
    fill(log, flushed, 25)
    queue = log._queues.open("T", 0)
    log_offsets = [
        int(queue.units(QueueOffset(offset), 1)[0]["log_offset"]) for offset in range(25)
    ]

    for start in range(25):
        for count in (1, 2, 9, 40):
            units = queue.units(QueueOffset(start), count)
            stop = min(start + count, start - start % PER_FILE + PER_FILE, 25)
            assert units["log_offset"].tolist() == log_offsets[start:stop]
    assert sorted(set(log_offsets)) == log_offsets
    assert bodies(log) == [b"%d" % number for number in range(25)]


def test_held_units_that_follow_on_are_one_write_per_file(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    fill(log, 0, PER_FILE + 2)
    disk.written.clear()

    log.flush()

    assert disk.written[:2] == [("0", 0, 20 * PER_FILE), ("0", 0, 20 * 2)]
    log.flush()
    assert len([place for place, _, _ in disk.written if place == "0"]) == 2


def test_a_process_that_dies_loses_no_unit(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    fill(log, 0, 4)
    plan = log.begin_sync(thorough=True)
    assert plan is not None
    plan.run()
    log.finish_sync(plan)
    fill(log, 4, PER_FILE + 5)
    store(log, b"new", "N")
    assert len(unit_bytes(tmp_path)) <= 4 * 20
    kill(log)

    log = open_store(tmp_path)

    assert bodies(log) == [b"%d" % number for number in range(PER_FILE + 5)]
    assert bodies(log, "N") == [b"new"]
    assert store(log, b"next").queue_offset == PER_FILE + 5
    log.close()
    assert wrong(tmp_path) == []


def test_a_store_that_is_closed_has_written_all_units(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    fill(log, 0, 5)
    held = log._queues.open("T", 0).units(QueueOffset(0), 5).tobytes()

    log.close()

    assert unit_bytes(tmp_path) == held.rstrip(b"\0")
    assert not (tmp_path / "abort").exists()
    assert wrong(tmp_path) == []


def test_a_checkpoint_speaks_of_no_unit_that_is_held(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    fill(log, 0, 5)
    disk_units = unit_bytes(tmp_path)

    plan = log.begin_sync(thorough=True)

    assert plan is not None
    assert disk_units == b""
    assert len(unit_bytes(tmp_path)) > 4 * 20
    plan.run()
    log.finish_sync(plan)
    assert log._parts.checkpoint.queues_ms == START_MS


def test_no_checkpoint_is_made_while_units_cannot_be_written(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    fill(log, 0, 5)
    disk.number, disk.fails_in = errno.ENOSPC, "consumequeue"

    plan = log.begin_sync(thorough=True)

    assert plan is not None  # of the log alone
    plan.run()
    assert log.finish_sync(plan) == log.end_offset
    assert log._parts.checkpoint.queues_ms == 0
    assert not log.round.left


@pytest.mark.parametrize("torn_bytes", [0, 13, 20, 1000])
@pytest.mark.parametrize("changes", range(4))  # two files: two created, two written
def test_a_disk_that_refuses_units_stops_appends_and_loses_none(
    tmp_path: Path, changes: int, torn_bytes: int
) -> None:
    disk = RefusingDisk()
    log = open_store(tmp_path, SMALL, disk)
    fill(log, 0, PER_FILE + 2)
    everything = [b"%d" % number for number in range(PER_FILE + 2)]
    disk.changes_left, disk.torn_bytes = changes, torn_bytes

    assert not log.flush()

    assert bodies(log) == everything
    with pytest.raises(DiskFailed):
        store(log, b"refused")
    disk.changes_left = None
    assert store(log, b"taken", now_ms=START_MS + MEND_INTERVAL_MS).queue_offset == PER_FILE + 2
    assert log.why_not is None
    assert bodies(log) == [*everything, b"taken"]
    log.close()
    assert wrong(tmp_path) == []


def test_a_store_that_cannot_write_its_units_is_not_closed_cleanly(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    fill(log, 0, 3)
    disk.number, disk.fails_in = errno.ENOSPC, "consumequeue"

    with pytest.raises(DiskFailed):
        log.close()

    assert (tmp_path / "abort").exists()
    log = open_store(tmp_path)
    assert bodies(log) == [b"0", b"1", b"2"]


def test_many_units_are_written_before_anyone_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_log, "HELD_MAX", 5)
    log = open_store(tmp_path)

    fill(log, 0, 4)
    assert unit_bytes(tmp_path) == b""
    fill(log, 4, 5)

    assert len(unit_bytes(tmp_path)) > 4 * 20
    assert log._queues.held_count == 0


def test_units_of_a_deleted_topic_are_forgotten(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    fill(log, 0, 5)

    log.delete_topic("T")
    log.flush()

    assert not (tmp_path / "consumequeue" / "T").exists()
    assert store(log, b"again").queue_offset == 0
    assert bodies(log) == [b"again"]
    kill(log)
    log = open_store(tmp_path)
    assert bodies(log) == [b"again"]


def test_retention_keeps_the_last_file_while_later_units_are_held(tmp_path: Path) -> None:
    class FullDisk(QuickDisk):
        def usage(self, directory: Path) -> tuple[int, int]:
            return 100, 0

    log = open_store(tmp_path, SMALL, FullDisk())
    fill_bytes = b"x" * 300
    for _ in range(PER_FILE):
        store(log, fill_bytes)
    log.flush()
    for _ in range(2 * PER_FILE):
        store(log, fill_bytes)

    assert log.retain(START_MS) > 0

    assert len(list((tmp_path / "consumequeue/T/0").iterdir())) == 1
    first = log.min_offset("T", 0)
    assert first > PER_FILE
    assert len(bodies(log)) == 3 * PER_FILE - first
    log.flush()
    assert len(bodies(log)) == 3 * PER_FILE - first
    log.close()
    assert wrong(tmp_path) == []


def test_a_turn_that_fails_leaves_held_units_as_they_were(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_store(tmp_path, SMALL, disk)
    fill(log, 0, 3)
    disk.number, disk.fails_in = errno.ENOSPC, "commitlog"
    log.append(*draft(b"lost"), now_ms=START_MS)
    with pytest.raises(DiskFailed):
        log.write()
    disk.number = 0

    assert store(log, b"3", now_ms=START_MS + MEND_INTERVAL_MS).queue_offset == 3

    assert bodies(log) == [b"0", b"1", b"2", b"3"]
    assert read(log, 3).record_count == 1


def test_units_of_delayed_messages_are_written_with_their_turn(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    octets = draft(b"later", SCHEDULE_TOPIC, 2, DELAY="3")

    log.append(*octets, delay_level=3, now_ms=START_MS)
    log.write()

    unit = unit_bytes(tmp_path, SCHEDULE_TOPIC, 2)[:20]
    assert int.from_bytes(unit[12:]) == START_MS + 10_000
    assert log._queues.held_count == 0
