"""A consume queue is a list of units that survives reopening, whatever was cut or refused.

Judges: the queues of real brokers, a plain list as a model, and a disk that refuses.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flintmq.errors import CorruptRecord, DiskFailed
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import FILL_UNIT, UNIT_BYTES, UNIT_STRUCT, queue_directory
from flintmq.store.queues.consume_queue import (
    GAP_UNITS_MAX,
    Bound,
    ConsumeQueue,
    found_queues,
    is_fill,
)
from support.store.real_stores import ALL, PLAIN, manifest, setting, stored_messages, unpack_store
from support.store.refusing_disk import RefusingDisk

Unit = tuple[int, int, int]

FILE_UNITS = 5
FILL: Unit = (0, 0x7FFFFFFF, 0)


def queue_at(path: Path, disk: Disk | None = None) -> ConsumeQueue:
    queue = ConsumeQueue(disk or Disk(), path / "T" / "0", "T", 0, FILE_UNITS * UNIT_BYTES)
    queue.load()
    return queue


def packed(units: Sequence[Unit]) -> bytes:
    return b"".join(UNIT_STRUCT.pack(*unit) for unit in units)


def unit(number: int) -> Unit:
    """A unit for record ``number``: 10 bytes each."""
    return (number * 10, 10, number)


def append(queue: ConsumeQueue, units: Sequence[Unit], first: int | None = None) -> None:
    first = queue.max_offset if first is None else first
    queue.write(QueueOffset(first), packed(units))
    queue.advance(QueueOffset(first + len(units)), LogOffset(units[-1][0] + units[-1][1]))


def all_units(queue: ConsumeQueue) -> list[Unit]:
    found: list[Unit] = []
    at = queue.min_offset
    while at < queue.max_offset:
        units = queue.units(at, 1_000_000)
        assert len(units)
        found += units.tolist()
        at = QueueOffset(at + len(units))
    return found


def facts(queue: ConsumeQueue) -> tuple[Any, ...]:
    return queue.min_offset, queue.max_offset, queue.log_stop, all_units(queue)


# Real queues


@pytest.mark.parametrize("name", ALL)
def test_every_unit_of_a_real_store_is_read(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path) / "consumequeue"
    disk = Disk()
    wanted: dict[tuple[str, int], list[Unit]] = {}
    for message in stored_messages(name):
        code = message.get("tagsCodeField", tags_code(message["properties"].get("TAGS")))
        units = wanted.setdefault((message["topic"], message["queueId"]), [])
        assert message["queueOffset"] == len(units)
        units.append((message["commitLogOffset"], message["storeSize"], code))

    found: dict[tuple[str, int], list[Unit]] = {}
    for topic, queue_id in found_queues(disk, root):
        path = queue_directory(root, topic, queue_id)
        file_bytes = setting(name, "mappedFileSizeConsumeQueue")
        queue = ConsumeQueue(disk, path, topic, queue_id, file_bytes)
        assert queue.load() == []
        found[topic, queue_id] = all_units(queue)
        if topic == "SCHEDULE_TOPIC_XXXX":  # these hold the time of delivery
            found[topic, queue_id] = [
                (at, size, wanted[topic, queue_id][n][2])
                for n, (at, size, _) in enumerate(found[topic, queue_id])
            ]

    assert found == wanted


@pytest.mark.parametrize("name", PLAIN)
def test_a_real_queue_written_again_is_the_same_to_the_byte(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path) / "consumequeue"
    real = ConsumeQueue(Disk(), root / "orders" / "0", "orders", 0, 1000)
    real.load()

    ours = ConsumeQueue(Disk(), tmp_path / "ours", "orders", 0, 1000)
    append(ours, all_units(real))

    theirs = sorted((root / "orders" / "0").iterdir())
    assert [path.name for path in theirs] == sorted(p.name for p in (tmp_path / "ours").iterdir())
    for path in theirs:
        assert (tmp_path / "ours" / path.name).read_bytes() == path.read_bytes()
    assert [real.min_offset, real.max_offset] == next(
        [queue["minOffset"], queue["maxOffset"]]
        for queue in manifest(name)["queues"]
        if (queue["topic"], queue["queueId"]) == ("orders", 0)
    )


# Writing and reading


def test_a_new_queue_is_empty_and_makes_no_files(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)

    assert facts(queue) == (0, 0, 0, [])
    assert len(queue.units(QueueOffset(0), 10)) == 0
    assert list(tmp_path.iterdir()) == []


def test_written_units_are_seen_only_after_the_turn(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)

    queue.write(QueueOffset(0), packed([unit(0), unit(1)]))
    before = facts(queue)
    queue.advance(QueueOffset(2), LogOffset(20))

    assert before == (0, 0, 0, [])
    assert facts(queue) == (0, 2, 20, [unit(0), unit(1)])


def test_a_turn_is_one_write_per_file(tmp_path: Path) -> None:
    disk = RefusingDisk()
    queue = queue_at(tmp_path, disk)
    append(queue, [unit(0)])
    disk.changes_left = 1
    append(queue, [unit(1), unit(2)])
    disk.changes_left = 3  # the rest of one file, the next file, its part

    append(queue, [unit(n) for n in range(3, 9)])

    assert disk.changes_left == 0
    assert all_units(queue) == [unit(n) for n in range(9)]


def test_a_read_never_crosses_a_file(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(12)])

    sizes = [len(queue.units(QueueOffset(start), 100)) for start in (0, 3, 5, 9, 10, 11, 12, 99)]

    assert sizes == [5, 2, 5, 1, 2, 1, 0, 0]
    assert len(queue.units(QueueOffset(-1), 5)) == 0
    assert len(queue.units(QueueOffset(3), 1)) == 1


def test_a_queue_that_begins_late_is_filled_up_to_its_first_unit(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)

    append(queue, [unit(7)], first=7)

    assert facts(queue) == (7, 8, 80, [unit(7)])
    assert [path.name for path in (tmp_path / "T" / "0").iterdir()] == [f"{100:020d}"]
    content = (tmp_path / "T" / "0" / f"{100:020d}").read_bytes()
    assert content == FILL_UNIT * 2 + packed([unit(7)]) + bytes(40)
    assert facts(queue_at(tmp_path)) == facts(queue)


def test_a_hole_is_filled_so_that_later_units_keep_their_place(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(0), unit(1)])

    append(queue, [unit(12)], first=12)

    assert facts(queue) == (0, 13, 130, [unit(0), unit(1), *[FILL] * 10, unit(12)])
    assert is_fill(queue.units(QueueOffset(5), 5)).all()
    assert facts(queue_at(tmp_path)) == facts(queue)


def test_a_hole_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(0)])

    with pytest.raises(CorruptRecord, match="far past the end of the queue at 1"):
        queue.write(QueueOffset(GAP_UNITS_MAX + 2), packed([unit(1)]))

    assert facts(queue) == (0, 1, 10, [unit(0)])


def test_units_can_be_written_again_in_place(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(7)])

    queue.write(QueueOffset(3), packed([unit(30), unit(40), unit(50)]))

    assert facts(queue)[:2] == (0, 7)
    assert [u[2] for u in all_units(queue)] == [0, 1, 2, 30, 40, 50, 6]


# Turns that fail


@pytest.mark.parametrize("torn_bytes", [0, 30, 60])
@pytest.mark.parametrize("changes_left", range(4))
def test_a_turn_the_disk_refuses_leaves_no_trace(
    tmp_path: Path, changes_left: int, torn_bytes: int
) -> None:
    disk = RefusingDisk()
    queue = queue_at(tmp_path, disk)
    append(queue, [unit(0), unit(1)])
    before = facts(queue)

    disk.changes_left, disk.torn_bytes = changes_left, torn_bytes
    with pytest.raises(DiskFailed):
        append(queue, [unit(n) for n in range(2, 13)])
    disk.changes_left = 0
    if changes_left or torn_bytes:
        with pytest.raises(DiskFailed):
            queue.undo()
    disk.changes_left = None
    queue.undo()

    assert facts(queue) == facts(queue_at(tmp_path)) == before
    append(queue, [unit(2)])
    assert facts(queue_at(tmp_path)) == (0, 3, 30, [unit(0), unit(1), unit(2)])


def test_a_new_queue_that_failed_has_no_files(tmp_path: Path) -> None:
    disk = RefusingDisk()
    queue = queue_at(tmp_path, disk)
    disk.changes_left = 2
    with pytest.raises(DiskFailed):
        append(queue, [unit(7)], first=7)

    disk.changes_left = None
    queue.undo()

    assert facts(queue) == (0, 0, 0, [])
    assert list((tmp_path / "T" / "0").iterdir()) == []
    append(queue, [unit(0)])
    assert facts(queue_at(tmp_path)) == (0, 1, 10, [unit(0)])


def test_a_file_that_could_not_be_made_is_made_the_next_time(tmp_path: Path) -> None:
    disk = RefusingDisk()
    queue = queue_at(tmp_path, disk)
    append(queue, [unit(n) for n in range(5)])
    disk.changes_left = 0
    with pytest.raises(DiskFailed):
        append(queue, [unit(5)])
    disk.changes_left = None
    queue.undo()

    append(queue, [unit(5)])

    assert facts(queue_at(tmp_path))[1] == 6


# Loading what is damaged


def test_units_behind_a_hole_of_zeros_are_not_seen_and_go_with_truncate(tmp_path: Path) -> None:
    append(queue_at(tmp_path), [unit(n) for n in range(9)])
    path = tmp_path / "T" / "0" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[40:60] = bytes(20)
    path.write_bytes(content)

    queue = queue_at(tmp_path)
    seen = facts(queue)
    queue.truncate(queue.max_offset)

    assert seen == facts(queue) == facts(queue_at(tmp_path)) == (0, 2, 20, [unit(0), unit(1)])
    assert path.read_bytes() == packed([unit(0), unit(1)]) + bytes(60)
    assert not path.with_name(f"{100:020d}").exists()


def test_load_says_which_files_are_wrong(tmp_path: Path) -> None:
    append(queue_at(tmp_path), [unit(n) for n in range(20)])
    directory = tmp_path / "T" / "0"
    (directory / f"{100:020d}").unlink()
    (directory / f"{400:020d}").write_bytes(b"short")
    (directory / "notes.txt").write_bytes(b"")
    queue = ConsumeQueue(Disk(), directory, "T", 0, 100)

    complaints = queue.load()

    assert [complaint.removeprefix(f"{directory}/") for complaint in complaints] == [
        "00000000000000000200: a file before it is missing",
        "00000000000000000300: a file before it is missing",
        "00000000000000000400: 5 bytes instead of 100",
        "notes.txt: no file starts there",
    ]
    assert facts(queue) == (0, 5, 50, [unit(n) for n in range(5)])
    assert queue.is_broken


def test_files_that_do_not_continue_the_queue_go_with_truncate(tmp_path: Path) -> None:
    append(queue_at(tmp_path), [unit(n) for n in range(20)])
    directory = tmp_path / "T" / "0"
    (directory / f"{100:020d}").unlink()
    queue = queue_at(tmp_path)

    queue.truncate(queue.max_offset)

    assert [path.name for path in directory.iterdir()] == [f"{0:020d}"]
    append(queue, [unit(5)])
    assert facts(queue_at(tmp_path)) == (0, 6, 60, [unit(n) for n in range(6)])


def test_files_without_a_first_one_are_strays_and_clear_removes_them(tmp_path: Path) -> None:
    append(queue_at(tmp_path), [unit(n) for n in range(10)])
    directory = tmp_path / "T" / "0"
    (directory / f"{0:020d}").write_bytes(b"")
    queue = ConsumeQueue(Disk(), directory, "T", 0, 100)

    complaints = queue.load()
    queue.clear()

    assert len(complaints) == 2
    assert facts(queue) == (0, 0, 0, [])
    assert list(directory.iterdir()) == []


def test_load_complains_when_files_follow_the_end(tmp_path: Path) -> None:
    append(queue_at(tmp_path), [unit(n) for n in range(20)])
    path = tmp_path / "T" / "0" / f"{100:020d}"
    path.write_bytes(bytes(100))
    queue = ConsumeQueue(Disk(), tmp_path / "T" / "0", "T", 0, 100)

    complaints = queue.load()

    assert complaints == [f"{tmp_path}/T/0: units end at 5, yet more files follow"]
    assert queue.max_offset == 5
    assert queue.is_broken


def test_the_end_is_found_before_the_files_that_are_read_first(tmp_path: Path) -> None:
    append(queue_at(tmp_path), [unit(n) for n in range(25)])
    for start in (100, 200, 300, 400):
        (tmp_path / "T" / "0" / f"{start:020d}").write_bytes(bytes(100))

    queue = queue_at(tmp_path)

    assert facts(queue) == (0, 5, 50, [unit(n) for n in range(5)])


def test_a_negative_offset_or_a_size_of_zero_ends_the_queue(tmp_path: Path) -> None:
    for bad in ((-1, 10, 0), (30, 0, 0), (30, -5, 0)):
        directory = tmp_path / str(bad)
        append(queue_at(directory), [unit(0), bad, unit(2)])

        assert queue_at(directory).max_offset == 1


def test_a_file_cut_short_behind_our_back_has_no_units_and_holds_nobody_up(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(7)])
    (tmp_path / "T" / "0" / f"{100:020d}").write_bytes(b"")

    queue.correct_min(LogOffset(55))

    assert len(queue.units(QueueOffset(5), 10)) == 0
    assert repr(queue) == "<ConsumeQueue T/0 [7, 7)>"


# Shortening


def test_truncate_cuts_units_and_the_files_behind(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(14)])

    queue.truncate(QueueOffset(6))

    assert facts(queue) == facts(queue_at(tmp_path)) == (0, 6, 60, [unit(n) for n in range(6)])
    assert not queue.is_broken
    assert len(list((tmp_path / "T" / "0").iterdir())) == 2


def test_an_emptied_queue_loses_its_files(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(1, 14)])

    queue.truncate(QueueOffset(0))

    assert facts(queue) == (0, 0, 0, [])
    assert list((tmp_path / "T" / "0").iterdir()) == []


def test_an_emptied_queue_that_began_late_keeps_its_place(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(10, 14)], first=10)

    queue.truncate(QueueOffset(10))

    assert facts(queue) == facts(queue_at(tmp_path)) == (10, 10, 0, [])
    append(queue, [unit(10)])
    assert facts(queue_at(tmp_path)) == (10, 11, 110, [unit(10)])


def test_the_smallest_offset_follows_the_start_of_the_log_past_the_first_file(
    tmp_path: Path,
) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(14)])

    seen = []
    for log_min in (0, 1, 10, 65, 110, 130, 131):
        queue.correct_min(LogOffset(log_min))
        seen.append(queue.min_offset)

    assert seen == [0, 1, 1, 7, 11, 13, 14]


def test_the_smallest_offset_is_never_a_fill_unit(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(0)])
    append(queue, [unit(12)], first=12)

    queue.correct_min(LogOffset(1))

    assert queue.min_offset == 12


def test_files_go_when_all_their_records_are_gone_but_the_last_file_stays(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(14)])

    removed = [queue.remove_files_before(LogOffset(log_min)) for log_min in (40, 41, 99, 9_999)]

    assert removed == [0, 1, 1, 0]
    assert queue.min_offset == queue.max_offset == 14
    assert [path.name for path in (tmp_path / "T" / "0").iterdir()] == [f"{200:020d}"]
    append(queue, [unit(1_000)])
    assert facts(queue)[:2] == (14, 15)
    assert all_units(queue) == [unit(1_000)]


def test_the_file_with_the_end_stays_even_when_an_empty_one_follows(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(0), unit(1)])
    queue.write(QueueOffset(2), packed([unit(n) for n in range(2, 7)]))
    queue.undo()

    removed = queue.remove_files_before(LogOffset(999))

    assert removed == 0
    assert facts(queue) == (2, 2, 20, [])
    append(queue, [unit(100)])
    assert queue_at(tmp_path).max_offset == 3


def test_a_file_that_ends_with_a_hole_stays_while_one_of_its_records_lives(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(0), unit(1)])
    append(queue, [unit(7)], first=7)

    removed = [queue.remove_files_before(LogOffset(log_min)) for log_min in (5, 10, 11)]

    assert removed == [0, 0, 1]
    assert queue.min_offset == 7


# Syncing


def test_a_sync_covers_files_and_the_directories_that_are_new(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(7)])
    directory = tmp_path / "T" / "0"

    taken = queue.dirty.drain()
    after = queue.dirty.drain()

    assert taken.files == (directory / f"{0:020d}", directory / f"{100:020d}")
    assert taken.directories == (directory, tmp_path / "T", tmp_path)
    assert after.files == after.directories == ()


# Offset by time


def times(offsets: dict[int, int | None]) -> Any:
    """Store times by log offset."""
    return lambda log_offset, size: offsets[log_offset]


@pytest.mark.parametrize(
    ("time_ms", "lower", "upper"),
    [(0, 2, 2), (100, 2, 2), (101, 3, 2), (200, 3, 5), (201, 6, 5), (300, 6, 12), (301, 13, 12)],
)
def test_an_offset_is_found_by_time(tmp_path: Path, time_ms: int, lower: int, upper: int) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(n) for n in range(13)])
    queue.correct_min(LogOffset(20))
    stored = {n * 10: 100 if n < 3 else 200 if n < 6 else 300 for n in range(2, 13)}

    found = [queue.offset_by_time(time_ms, bound, times(dict(stored))) for bound in Bound]

    assert found == [lower, upper]


def test_records_that_cannot_be_read_are_passed_over_by_time(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)
    append(queue, [unit(0), unit(1)])
    append(queue, [unit(9), unit(10), unit(11)], first=9)
    stored = {0: 100, 10: None, 90: None, 100: 200, 110: None}

    lower = [queue.offset_by_time(t, Bound.LOWER, times(dict(stored))) for t in (99, 100, 101, 201)]
    upper = [queue.offset_by_time(t, Bound.UPPER, times(dict(stored))) for t in (99, 100, 199, 201)]

    assert lower == [0, 0, 10, 12]
    assert upper == [0, 0, 0, 10]


def test_an_empty_queue_answers_its_end_for_any_time(tmp_path: Path) -> None:
    queue = queue_at(tmp_path)

    assert [queue.offset_by_time(5, bound, times({})) for bound in Bound] == [0, 0]


# Many queues


def test_queues_are_found_by_their_directories(tmp_path: Path) -> None:
    for name in ("a/0", "a/12", "b/3", "b/x", "b/007"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").write_bytes(b"")

    assert list(found_queues(Disk(), tmp_path)) == [("a", 0), ("a", 12), ("b", 3)]
    assert list(found_queues(Disk(), tmp_path / "none")) == []


def test_ten_thousand_queues_hold_no_descriptors(tmp_path: Path) -> None:
    disk = Disk(open_files_max=8)
    queues = [ConsumeQueue(disk, tmp_path / str(n), "T", n, 100) for n in range(10_000)]
    for queue in queues[::500]:
        append(queue, [unit(queue.queue_id)])

    assert all(all_units(queue) == [unit(queue.queue_id)] for queue in queues[::500])
    assert len(disk._descriptors) <= 8
    assert not any(hasattr(part, "__dict__") for part in (queues[0], queues[0]._row))


# The model


class QueueModel(RuleBasedStateMachine):
    """A queue beside a list.  ``self.first`` is the offset of the list's first item."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="flintmq-queue-")
        self.disk = RefusingDisk()
        self.queue = queue_at(Path(self.directory.name), self.disk)
        self.units: list[Unit] = []
        self.first = 0
        self.log_end = 0
        self.log_min = 0

    def teardown(self) -> None:
        self.disk.close()
        self.directory.cleanup()

    @property
    def stop(self) -> int:
        return self.first + len(self.units)

    def fresh(self, count: int) -> list[Unit]:
        fresh = [(self.log_end + 10 * n, 10, n) for n in range(count)]
        self.log_end += 10 * count
        return fresh

    @rule(count=st.integers(1, 12), others=st.integers(0, 3))
    def turn(self, count: int, others: int) -> None:
        self.queue.flush()
        self.log_end += others * 10
        fresh = self.fresh(count)
        append(self.queue, fresh)
        self.units += fresh

    @rule(gap=st.integers(1, 12), count=st.integers(1, 3))
    def turn_after_a_hole(self, gap: int, count: int) -> None:
        self.queue.flush()
        first = self.stop + gap
        fresh = self.fresh(count)
        append(self.queue, fresh, first=first)
        if self.units or self.first:
            self.units += [FILL] * gap + fresh
        else:
            self.first = first
            self.units = fresh

    @rule(count=st.integers(1, 12), changes=st.integers(0, 4), torn=st.integers(0, 50))
    def failed_turn(self, count: int, changes: int, torn: int) -> None:
        self.queue.flush()
        self.disk.changes_left, self.disk.torn_bytes = changes, torn
        fresh = self.fresh(count)
        with suppress(DiskFailed):
            self.queue.write(self.queue.max_offset, packed(fresh))
        self.disk.changes_left = None
        self.queue.undo()

    @precondition(lambda self: self.units)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.queue.flush()
        low = max(self.first, self.queue.first_offset)
        stop = data.draw(st.integers(low, self.stop))
        self.queue.truncate(QueueOffset(stop))
        del self.units[stop - self.first :]
        if stop == 0:
            self.first = 0

    @rule(count=st.integers(1, 12))
    def held_turn(self, count: int) -> None:
        fresh = self.fresh(count)
        stop = QueueOffset(self.stop + count)
        self.queue.hold(bytearray(packed(fresh)), stop, LogOffset(self.log_end))
        self.units += fresh

    @rule(changes=st.none() | st.integers(0, 4), torn=st.integers(0, 50))
    def flush(self, changes: int | None, torn: int) -> None:
        self.disk.changes_left, self.disk.torn_bytes = changes, torn
        with suppress(DiskFailed):
            self.queue.flush()
        self.disk.changes_left = None

    @rule(data=st.data(), remove=st.booleans())
    def log_shrinks(self, data: st.DataObject, remove: bool) -> None:
        self.log_min = 10 * data.draw(st.integers(self.log_min // 10, self.log_end // 10))
        if remove:
            self.queue.remove_files_before(LogOffset(self.log_min))
        else:
            self.queue.correct_min(LogOffset(self.log_min))
        self.forget()

    def forget(self) -> None:
        while self.units and (self.units[0] == FILL or self.units[0][0] < self.log_min):
            self.units.pop(0)
            self.first += 1

    @rule()
    def reload(self) -> None:
        self.queue.flush()
        self.queue = queue_at(Path(self.directory.name), self.disk)
        self.queue.correct_min(LogOffset(self.log_min))
        self.forget()

    @invariant()
    def agrees(self) -> None:
        assert (self.queue.min_offset, self.queue.max_offset) == (self.first, self.stop)
        assert all_units(self.queue) == self.units
        real = [u for u in self.units if u != FILL]
        if real:
            assert self.queue.log_stop == real[-1][0] + real[-1][1]


QueueModel.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestQueueModel = QueueModel.TestCase
