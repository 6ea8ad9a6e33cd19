"""An index file that a crash or a fault left is told from a good one, and mended.

Judge: every state a crash could leave of a workload must, after a cut at what was synced and
after putting the rest again, answer like an index that never crashed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import CorruptRecord
from flintmq.model.queue import LogOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import INDEX_HEADER_STRUCT
from flintmq.store.index import index_file
from flintmq.store.index.index_file import IndexFile, IndexShape
from flintmq.store.index.index_repair import cut_index_file, index_problems, open_index_file
from flintmq.store.index.key_index import KeyIndex
from support.crash.recording import RecordingDisk, crash_states

NOW_MS = 1_700_000_000_000
SHAPE = IndexShape(slots=300, entries=70)  # slots and entries cover several sectors

RECORDS = [
    (LogOffset(n * 10), [f"id-{n}", *(["hot"] if n % 3 == 0 else []), *(["two"] * (n % 2))])
    for n in range(90)
]


def put_all(index: KeyIndex, start: int = 0, stop: int = 10_000) -> None:
    for log_offset, keys in RECORDS:
        if start <= log_offset < stop:
            index.add("T", keys, log_offset, NOW_MS + log_offset * 100)


def new_index(directory: Path, disk: Disk | None = None) -> KeyIndex:
    index = KeyIndex(disk or Disk(), directory / "index", SHAPE.slots, SHAPE.entries)
    index.load()
    return index


def answers(index: KeyIndex) -> dict[str, list[LogOffset]]:
    keys = {key for _, record_keys in RECORDS for key in record_keys}
    return {key: index.query("T", key, 64, 0, 2**62) for key in sorted(keys)}


def filled(directory: Path) -> KeyIndex:
    index = new_index(directory)
    put_all(index)
    index.flush()
    return index


def edit(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def edit_header(path: Path, **changes: int) -> None:
    names = ("begin_ms", "end_ms", "begin_log", "end_log", "slots_used", "entry_count")
    fields = dict(zip(names, INDEX_HEADER_STRUCT.unpack(path.read_bytes()[:40]), strict=True))
    edit(path, 0, INDEX_HEADER_STRUCT.pack(*(fields | changes).values()))


def first_of(directory: Path) -> Path:
    return min((directory / "index").iterdir())


# Crashes


def test_after_any_crash_a_cut_and_the_rest_of_the_log_make_the_index_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_file, "CHUNK_ENTRIES", 13)
    root = tmp_path / "made"
    disk = RecordingDisk(root)
    index = new_index(root, disk)
    for stop in range(60, 900, 120):
        put_all(index, stop=stop - 60)
        index.flush()
        put_all(index, stop=stop)
        index.flush()
        if stop % 240 == 60:
            index.dirty.sync(disk)
            disk.acknowledge(stop)  # everything before it is in the index for good
    wanted = answers(filled(tmp_path / "wanted"))

    count = 0
    for count, state in enumerate(crash_states(disk.notes, seed=7, per_point=6), 1):
        place = tmp_path / str(count)
        state.lay_out(root, place)
        safe = LogOffset(max([0, *(int(str(offset)) for offset in state.acknowledged)]))
        crashed = new_index(place)
        again = crashed.cut_from(safe)
        assert again <= safe, state.name
        put_all(crashed, start=again)
        assert answers(crashed) == wanted, state.name
        assert [index_problems(file) for file in crashed.files] == [[]] * 3, state.name

    assert count > 300


def test_a_cut_changes_nothing_the_second_time(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    index = new_index(tmp_path, disk)
    put_all(index)
    index.flush()
    index.cut_from(LogOffset(555))
    noted = len(disk.notes)

    again = index.cut_from(LogOffset(555))

    assert again == 555
    assert len(disk.notes) == noted


# Faults


@pytest.mark.parametrize("chunk_entries", [3, 1_000])
def test_a_cut_goes_back_to_the_last_whole_record_before_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_entries: int
) -> None:
    monkeypatch.setattr(index_file, "CHUNK_ENTRIES", chunk_entries)
    index = filled(tmp_path)
    last = index.files[-1]
    before, damaged = last.entries()["log_offset"][8:10].tolist()
    edit(last.path, SHAPE.entry_byte(10), bytes(20))

    index = new_index(tmp_path)
    again = index.cut_from(LogOffset(890))

    assert before <= damaged < 890
    assert again == before  # it may have had a key where the damage is
    put_all(index, start=again)
    assert answers(index) == answers(filled(tmp_path / "wanted"))
    assert [index_problems(file) for file in index.files] == [[], [], []]


def test_damage_behind_the_only_record_puts_everything_again(tmp_path: Path) -> None:
    index = new_index(tmp_path)
    put_all(index, stop=30)
    index.flush()
    edit(index.files[0].path, SHAPE.entry_byte(2), b"\xff")

    again = index.cut_from(LogOffset(900))

    assert (again, index.files) == (0, [])


def test_damage_to_the_first_entry_costs_the_file(tmp_path: Path) -> None:
    index = filled(tmp_path)
    second = index.files[1].path
    edit(second, SHAPE.entry_byte(1), b"\xff" * 4)

    index = KeyIndex(Disk(), tmp_path / "index", SHAPE.slots, SHAPE.entries)
    complaints = index.load()
    again = index.cut_from(LogOffset(900))

    assert complaints == [f"{second} at byte 0: header and first entry contradict each other"]
    assert index.broken == []
    assert len(index.files) == 1
    put_all(index, start=again)
    assert answers(index) == answers(filled(tmp_path / "wanted"))


def test_when_the_first_file_is_broken_everything_is_put_again(tmp_path: Path) -> None:
    filled(tmp_path)
    first_of(tmp_path).write_bytes(b"short")
    index = KeyIndex(Disk(), tmp_path / "index", SHAPE.slots, SHAPE.entries)

    complaints = index.load()
    again = index.cut_from(LogOffset(900))

    assert [complaint.split(": ")[1] for complaint in complaints] == ["too short for an index file"]
    assert (again, index.files, list((tmp_path / "index").iterdir())) == (0, [], [])


def test_names_that_are_no_times_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "index" / "notes.txt").write_bytes(b"")
    index = KeyIndex(Disk(), tmp_path / "index", SHAPE.slots, SHAPE.entries)

    complaints = index.load()

    assert complaints == [f"{tmp_path}/index/notes.txt: no index file"]
    assert len(index.files) == 3


@pytest.mark.parametrize(
    ("changes", "slots", "complaint"),
    [
        ({"entry_count": -3}, 300, "header and first entry contradict each other"),
        ({"entry_count": 71}, 300, "header and first entry contradict each other"),
        ({"begin_log": 7}, 300, "header and first entry contradict each other"),
        ({"begin_log": 7}, 301, "whose number of slots cannot be told"),
        ({"entry_count": 2**31 - 1}, 301, "whose number of slots cannot be told"),
        ({"end_log": 7}, 301, "whose number of slots cannot be told"),
    ],
)
def test_a_header_that_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, int], slots: int, complaint: str
) -> None:
    filled(tmp_path)
    path = first_of(tmp_path)
    edit_header(path, **changes)

    with pytest.raises(CorruptRecord, match=complaint):
        open_index_file(Disk(), path, IndexShape(slots, SHAPE.entries))


@pytest.mark.parametrize(
    "changes", [{"end_log": 7}, {"entry_count": 20}, {"entry_count": 1}, {"entry_count": 0}]
)
def test_a_header_that_a_crash_may_leave_is_told(tmp_path: Path, changes: dict[str, int]) -> None:
    filled(tmp_path)
    path = first_of(tmp_path)
    edit_header(path, **changes)

    _, complaint = open_index_file(Disk(), path, SHAPE)

    assert complaint == f"{path}: header, slots and last entry contradict each other"


def test_a_file_without_entries_is_taken_when_its_size_is_likely(tmp_path: Path) -> None:
    path = tmp_path / "20260101000000000"
    path.write_bytes(bytes(SHAPE.file_bytes))

    file, complaint = open_index_file(Disk(), path, SHAPE)

    assert (file.is_empty, file.room, complaint) == (True, 69, "")
    assert index_problems(file) == []
    with pytest.raises(CorruptRecord, match="cannot be told"):
        open_index_file(Disk(), path, IndexShape(1, 1))


@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (36, (20).to_bytes(4), "the header ends at "),
        (32, (3).to_bytes(4), "3 slots are said to be used"),
        (40 + 4 * 7, (3).to_bytes(4), "slot 7 has the wrong entry"),
        (SHAPE.entry_byte(30), b"\xff", "entry 30 has a negative hash"),
        (SHAPE.entry_byte(30) + 4, bytes(8), "entry 30 lies before its predecessor in the log"),
        (SHAPE.entry_byte(30) + 12, b"\xff", "entry 30 has a negative time"),
        (SHAPE.entry_byte(30) + 16, (5).to_bytes(4), "entry 30 is chained to the wrong entry"),
    ],
)
def test_every_fault_of_a_file_is_told(tmp_path: Path, at: int, data: bytes, problem: str) -> None:
    index = filled(tmp_path)
    path = index.files[0].path
    assert index_problems(index.files[0]) == []

    edit(path, at, data)
    header = index.files[0].header
    if at < 40:
        header = type(header)(*INDEX_HEADER_STRUCT.unpack(path.read_bytes()[:40]))

    problems = index_problems(IndexFile(Disk(), path, SHAPE, header))

    assert any(told.startswith(f"{path}: {problem}") for told in problems)


def test_a_cut_inside_a_record_s_keys_forgets_the_whole_record(tmp_path: Path) -> None:
    index = filled(tmp_path)
    file = index.files[0]
    keys_of_30 = [entry for entry in file.entries().tolist() if entry[1] == 30]

    again = cut_index_file(file, LogOffset(30))

    assert len(keys_of_30) == 3
    assert again == 30
    assert file.header.end_log_offset == 20
    assert file.entries()["log_offset"].max() == 20
