"""The key index gives what RocketMQ's would: the same files for the same keys, the same answers.

Judges: index files of real brokers, to the byte, and a plain model that puts one key at a
time as RocketMQ does.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flintmq.errors import DiskFailed
from flintmq.kernel.python.many_hashes import index_hashes
from flintmq.model.java_hash import java_hash
from flintmq.model.queue import LogOffset
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES
from flintmq.store.index import index_file
from flintmq.store.index.index_file import IndexHeader
from flintmq.store.index.index_repair import index_problems
from flintmq.store.index.key_index import KeyIndex, index_file_name, index_hash
from support.store.real_stores import ALL, setting, stored_messages, unpack_store
from support.store.refusing_disk import RefusingDisk

SLOTS, ENTRIES = 4, 7
NOW_MS = 1_700_000_000_000
EVER = (0, 2**62)


def index_at(
    path: Path, disk: Disk | None = None, shape: tuple[int, int] | None = None
) -> KeyIndex:
    index = KeyIndex(disk or Disk(), path / "index", *(shape or (SLOTS, ENTRIES)))
    assert index.load() == []
    return index


def put(index: KeyIndex, number: int, *keys: str, store_ms: int = NOW_MS) -> None:
    index.add("T", keys, LogOffset(number), store_ms)


def found(index: KeyIndex, key: str, count_max: int = 64) -> list[int]:
    return [int(offset) for offset in index.query("T", key, count_max, *EVER)]


# Real index files


def real_puts(name: str, store: Path) -> list[tuple[str, list[str], LogOffset, int]]:
    """What a real broker put into its index, told from its records."""
    log = b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir()))
    puts = []
    for message in stored_messages(name):
        properties = message["properties"]
        keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
        keys += [key for key in properties.get("KEYS", "").split(" ") if key]
        at = message["commitLogOffset"]
        puts.append(
            (message["topic"], keys, LogOffset(at), struct.unpack_from(">q", log, at + 56)[0])
        )
    return puts


def real_index(name: str, store: Path, slots: int = 100, entries: int = 500) -> KeyIndex:
    index = KeyIndex(Disk(), store / "index", slots, entries)
    assert index.load() == []
    return index


@pytest.mark.parametrize("name", ALL)
def test_every_key_of_a_real_store_is_found(name: str, tmp_path: Path) -> None:
    store = unpack_store(name, tmp_path)
    index = real_index(name, store)
    puts = real_puts(name, store)
    assert (index.shape.slots, index.shape.entries) == (
        setting(name, "maxHashSlotNum"),
        setting(name, "maxIndexNum"),
    )

    wanted: dict[tuple[str, str], list[int]] = {}
    for topic, keys, log_offset, _ in puts:
        for key in keys:
            wanted.setdefault((topic, key), []).insert(0, int(log_offset))

    assert len(wanted) > 50
    for (topic, key), offsets in wanted.items():
        assert index.query(topic, key, 64, *EVER) == offsets[:64]
    assert sum(len(file.entries()) for file in index.files) == sum(len(p[1]) for p in puts)
    assert [index_problems(file) for file in index.files] == [[]] * len(index.files)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("keys_per_flush", [1, 37, 10_000])
def test_the_same_keys_give_the_same_files(name: str, keys_per_flush: int, tmp_path: Path) -> None:
    store = unpack_store(name, tmp_path)
    ours = KeyIndex(Disk(), tmp_path / "ours", 100, 500)
    ours.load()

    for topic, keys, log_offset, store_ms in real_puts(name, store):
        ours.add(topic, keys, log_offset, store_ms)
        if ours.pending_count >= keys_per_flush:
            ours.flush()
    ours.flush()

    theirs = [path.read_bytes() for path in sorted((store / "index").iterdir())]
    assert [path.read_bytes() for path in sorted((tmp_path / "ours").iterdir())] == theirs


@pytest.mark.parametrize("name", ALL)
def test_the_shape_of_a_real_file_is_told_from_the_file(name: str, tmp_path: Path) -> None:
    store = unpack_store(name, tmp_path)

    index = real_index(name, store, slots=5_000_000, entries=20_000_000)

    assert {(file.shape.slots, file.shape.entries) for file in index.files} == {(100, 500)}
    assert (index.shape.slots, index.shape.entries) == (100, 500)


def test_a_size_that_fits_does_not_hide_another_shape(tmp_path: Path) -> None:
    store = unpack_store("golden-5.3.3", tmp_path)

    index = real_index("golden-5.3.3", store, slots=105, entries=499)

    assert {(file.shape.slots, file.shape.entries) for file in index.files} == {(100, 500)}


def test_a_file_of_rocketmqs_size_takes_little_room(tmp_path: Path) -> None:
    index = index_at(tmp_path, shape=(5_000_000, 20_000_000))

    put(index, 0, "k1", "another key far away")
    index.flush()

    facts = index.files[0].path.stat()
    assert facts.st_size == 420_000_040
    assert facts.st_blocks * 512 < 100_000
    with index.files[0].path.open("rb") as file:  # the worked example of the format
        file.seek(40 + 4 * 2_539_445)
        assert file.read(4) == (1).to_bytes(4)
        file.seek(40 + 20_000_000 + 20)
        assert file.read(20) == struct.pack(">iqii", 2_539_445, 0, 0, 0)
    assert found(index_at(tmp_path, shape=(5_000_000, 20_000_000)), "k1") == [0]


# Hashes


def test_the_hash_of_a_key_is_that_of_topic_and_key() -> None:
    assert index_hash("T", "k1") == 2_539_445


def test_the_one_hash_without_a_positive_counts_as_zero() -> None:
    topic, key = "polygenelubricants"[:1], "polygenelubricants"  # hashes to -2^31
    prefix = java_hash(key) & 0xFFFF_FFFF
    assert prefix == 2**31

    hashes = index_hashes([""], np.array([prefix], np.uint32))

    assert hashes.tolist() == [0]
    assert index_hash(topic, key) == abs(java_hash(f"{topic}#{key}"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=20), st.text(max_size=5))
def test_many_hashes_at_once_are_the_hashes_one_by_one(keys: list[str], topic: str) -> None:
    prefix = java_hash(f"{topic}#") & 0xFFFF_FFFF

    hashes = index_hashes(keys, np.full(len(keys), prefix, np.uint32))

    assert hashes.tolist() == [index_hash(topic, key) for key in keys]


# Names


def test_files_are_named_by_local_time_and_sort() -> None:
    names = [index_file_name(NOW_MS + ms) for ms in (0, 1, 999, 86_400_000)]

    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert names == sorted(set(names))
    assert {name[-3:] for name in names} == {"000", "001", "999"}


@pytest.mark.parametrize("store_ms", [-5, 0, 2**62])
def test_a_damaged_time_still_makes_a_name(store_ms: int) -> None:
    assert len(index_file_name(store_ms)) == 17


def test_new_files_sort_behind_old_ones_even_when_the_clock_went_back(tmp_path: Path) -> None:
    index = index_at(tmp_path)

    for number in range(30):
        put(index, number, "key", store_ms=NOW_MS - 60_000 * number)
    index.flush()

    names = [file.path.name for file in index.files]
    assert len(names) == 5
    assert names == sorted(set(names))
    assert index_at(tmp_path).query("T", "key", 64, *EVER) == list(range(29, -1, -1))


# Putting


def test_nothing_is_written_before_a_flush_and_a_query_flushes(tmp_path: Path) -> None:
    index = index_at(tmp_path)

    put(index, 10, "a", "b")
    assert (index.pending_count, list(tmp_path.iterdir())) == (2, [])
    offsets = found(index, "b")

    assert offsets == [10]
    assert index.pending_count == 0
    assert (index.end_log_offset, index.end_store_ms) == (10, NOW_MS)


def test_a_record_that_was_put_is_not_put_again(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    put(index, 10, "a")
    put(index, 10, "a")
    index.flush()
    put(index, 5, "a")
    again = index_at(tmp_path)
    put(again, 10, "a")
    put(again, 11, "a")

    assert found(index, "a") == [10]
    assert found(again, "a") == [11, 10]


def test_a_record_without_keys_leaves_no_trace(tmp_path: Path) -> None:
    index = index_at(tmp_path)

    put(index, 10)
    index.flush()

    assert index.end_log_offset is None
    assert index.files == []


def test_the_keys_of_one_record_may_lie_in_two_files(tmp_path: Path) -> None:
    index = index_at(tmp_path)

    put(index, 1, *"abcde")
    put(index, 2, *"fghij")
    index.flush()

    assert [file.header.entry_count for file in index.files] == [7, 5]
    assert [file.header.begin_log_offset for file in index.files] == [1, 2]
    assert [file.header.end_log_offset for file in index.files] == [2, 2]
    assert all(found(index, key) == [1 if key < "f" else 2] for key in "abcdefghij")


@pytest.mark.parametrize("changes_left", range(7))
def test_a_flush_the_disk_refuses_is_made_up_for(tmp_path: Path, changes_left: int) -> None:
    disk = RefusingDisk()
    index = index_at(tmp_path, disk)
    put(index, 1, *"abc")
    index.flush()
    put(index, 2, *"abcdefgh")

    disk.changes_left = changes_left
    with pytest.raises(DiskFailed):
        index.flush()
    put(index, 3, *"ab")
    disk.changes_left = None
    index.flush()

    for reader in (index, index_at(tmp_path)):
        assert [found(reader, key) for key in "abch"] == [[3, 2, 1], [3, 2, 1], [2, 1], [2]]
        assert [index_problems(file) for file in reader.files] == [[], [], []]


# Asking


def test_a_query_finds_at_most_64_the_newest_first(tmp_path: Path) -> None:
    index = index_at(tmp_path, shape=(3, 1000))
    for number in range(200):
        put(index, number, "hot")

    assert found(index, "hot", 5) == [199, 198, 197, 196, 195]
    assert found(index, "hot", 10_000) == list(range(199, 135, -1))
    assert found(index, "hot", 0) == []
    assert found(index, "cold") == []


def test_a_query_asks_for_a_time(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number in range(30):
        put(index, number, "key", store_ms=NOW_MS + number * 10_000)

    def between(begin: int, end: int) -> list[int]:
        times = NOW_MS + begin * 10_000, NOW_MS + end * 10_000
        return [int(offset) for offset in index.query("T", "key", 64, *times)]

    assert between(0, 100) == list(range(29, -1, -1))
    assert between(8, 11) == [11, 10, 9, 8]
    assert between(30, 40) == []
    assert between(-10, -1) == []


def test_a_chain_is_left_at_the_first_entry_that_is_too_old(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number, second in enumerate((0, 100, 10, 100)):  # the clock went back once
        put(index, number, "key", store_ms=NOW_MS + second * 1000)

    found_from_50 = index.query("T", "key", 64, NOW_MS + 50_000, EVER[1])

    assert found_from_50 == [3]


def test_older_files_are_left_alone_when_one_begins_before_the_time(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number in range(6):
        put(index, number, "key", store_ms=NOW_MS + 100_000)
    put(index, 6, "key", store_ms=NOW_MS)  # a new file, and the clock went back

    assert len(index.query("T", "key", 64, NOW_MS, EVER[1])) == 7
    assert index.query("T", "key", 64, NOW_MS + 50_000, EVER[1]) == []


def test_a_slot_that_points_past_the_last_entry_counts_as_empty(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    put(index, 1, "a")
    index.flush()
    path = index.files[0].path
    slot = (index_hash("T", "a") + 1) % SLOTS
    key = next(key for key in "bcdefgh" if index_hash("T", key) % SLOTS == slot)
    content = bytearray(path.read_bytes())
    content[40 + 4 * slot : 44 + 4 * slot] = (6).to_bytes(4)
    path.write_bytes(content)

    index = index_at(tmp_path)
    put(index, 2, key)

    assert found(index, key) == [2]
    assert index.files[0].entries()["previous"].tolist() == [0, 0]
    assert index.files[0].header.slots_used == 2


def chained(tmp_path: Path) -> tuple[KeyIndex, Path]:
    """An index with one chain of three, and its file."""
    index = index_at(tmp_path, shape=(1, 300))
    for number in range(3):
        put(index, number, "key")
    index.flush()
    return index, index.files[0].path


def edit_entry(path: Path, number: int, at: int, value: int) -> None:
    content = bytearray(path.read_bytes())
    place = INDEX_HEADER_BYTES + 4 + INDEX_ENTRY_BYTES * number + at
    content[place : place + 4] = value.to_bytes(4, signed=True)
    path.write_bytes(content)


def test_a_chain_that_turns_in_a_circle_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, path = chained(tmp_path)
    edit_entry(path, 1, at=16, value=2)  # 1 → 2 → 1 …
    monkeypatch.setattr(index_file, "CHAIN_STEPS_MAX", 1_000)

    assert len(found(index, "key", 64)) == 64
    edit_entry(path, 1, at=0, value=5)
    edit_entry(path, 2, at=0, value=5)
    assert found(index, "key", 64) == [2]


@pytest.mark.parametrize("value", [2, 0, -1, 99])
def test_a_chain_ends_where_it_cannot_go_on(tmp_path: Path, value: int) -> None:
    index, path = chained(tmp_path)

    edit_entry(path, 2, at=16, value=value)

    assert found(index, "key") == [2, 1]


def test_a_negative_time_ends_a_chain(tmp_path: Path) -> None:
    index, path = chained(tmp_path)

    edit_entry(path, 2, at=12, value=-1)

    assert found(index, "key") == [2]


def test_a_file_cut_short_ends_a_chain(tmp_path: Path) -> None:
    index, path = chained(tmp_path)

    path.write_bytes(path.read_bytes()[: INDEX_HEADER_BYTES + 4 + INDEX_ENTRY_BYTES * 2])

    assert found(index, "key") == []
    assert "entry_count=4" in repr(index.files[0])


def test_a_long_chain_is_followed_from_block_to_block(tmp_path: Path) -> None:
    index = index_at(tmp_path, shape=(2, 3_000))
    for number in range(2_000):
        put(index, number, "rare" if number % 500 == 0 else f"other-{number}")

    assert found(index, "rare") == [1_500, 1_000, 500, 0]


# Shortening


def test_old_files_go_but_never_the_last(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number in range(20):
        put(index, number, "key")
    index.flush()

    removed = [index.remove_before(LogOffset(log_min)) for log_min in (5, 6, 100)]

    assert removed == [0, 1, 2]
    assert found(index, "key") == found(index_at(tmp_path), "key") == [19, 18]
    assert index.dirty.drain().directories[0] == tmp_path / "index"


def test_clear_removes_every_file(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    for number in range(20):
        put(index, number, "key")
    index.flush()
    (tmp_path / "index" / "20300101000000000").write_bytes(b"broken")
    index = KeyIndex(Disk(), tmp_path / "index", SLOTS, ENTRIES)
    index.load()
    put(index, 100, "key")

    index.clear()

    assert list((tmp_path / "index").iterdir()) == []
    assert (index.end_log_offset, index.pending_count) == (None, 0)
    put(index, 0, "key")
    assert found(index, "key") == [0]


# The model


@dataclass
class ModelFile:
    """An index file as RocketMQ fills it, one key at a time."""

    header: IndexHeader
    slots: list[int] = field(default_factory=lambda: [0] * SLOTS)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)

    def put(self, key_hash: int, log_offset: int, store_ms: int) -> None:
        header = self.header
        slot = key_hash % SLOTS
        seconds = int((store_ms - header.begin_store_ms) / 1000)
        if header.begin_store_ms <= 0:
            seconds = 0
        self.entries.append((key_hash, log_offset, max(seconds, 0), self.slots[slot]))
        if header.entry_count <= 1:
            header.begin_log_offset, header.begin_store_ms = log_offset, store_ms
        if not self.slots[slot]:
            header.slots_used += 1
        self.slots[slot] = header.entry_count
        header.entry_count += 1
        header.end_log_offset, header.end_store_ms = log_offset, store_ms

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> list[int]:
        offsets = []
        number = self.slots[key_hash % SLOTS]
        while number:
            there, log_offset, seconds, number = self.entries[number - 1]
            time_ms = self.header.begin_store_ms + seconds * 1000
            if there == key_hash and begin_ms <= time_ms <= end_ms:
                offsets.append(log_offset)
            if time_ms < begin_ms:
                break
        return offsets


KEYS = st.lists(st.sampled_from("abcdef"), max_size=9)
STEPS_MS = st.sampled_from([0, 1, 999, 1_000, 5_000, 3_600_000, -2_000])


class IndexModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="flintmq-index-")
        self.disk = Disk()
        self.index = index_at(Path(self.directory.name), self.disk)
        self.files: list[ModelFile] = []
        self.log_end = 0
        self.now_ms = NOW_MS

    def teardown(self) -> None:
        self.disk.close()
        self.directory.cleanup()

    @rule(records=st.lists(KEYS, max_size=6), step_ms=STEPS_MS)
    def put(self, records: Sequence[Sequence[str]], step_ms: int) -> None:
        for keys in records:
            self.now_ms += step_ms
            self.index.add("T", keys, LogOffset(self.log_end), self.now_ms)
            for key in keys:
                self.last_file().put(index_hash("T", key), self.log_end, self.now_ms)
            self.log_end += 10

    def last_file(self) -> ModelFile:
        if not self.files or self.files[-1].header.entry_count >= ENTRIES:
            end = self.files[-1].header if self.files else IndexHeader()
            ms, at = end.end_store_ms, end.end_log_offset
            self.files.append(ModelFile(IndexHeader(ms, ms, at, at)))
        return self.files[-1]

    @rule()
    def reload(self) -> None:
        self.index.flush()
        self.index = index_at(Path(self.directory.name), self.disk)

    @rule(data=st.data())
    def forget_old_files(self, data: st.DataObject) -> None:
        self.index.flush()
        log_min = data.draw(st.integers(0, self.log_end))
        self.index.remove_before(LogOffset(log_min))
        while len(self.files) > 1 and self.files[0].header.end_log_offset < log_min:
            self.files.pop(0)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        """Entries are cut as they are; only a header's time is less exact after that."""
        self.index.flush()
        log_stop = data.draw(st.integers(0, self.log_end))
        assert self.index.cut_from(LogOffset(log_stop)) == log_stop
        for file in self.files:
            kept = sum(entry[1] < log_stop for entry in file.entries)
            if kept < len(file.entries):
                header = file.header
                del file.entries[kept:]
                file.slots = [0] * SLOTS
                for number, entry in enumerate(file.entries, 1):
                    file.slots[entry[0] % SLOTS] = number
                header.slots_used = sum(map(bool, file.slots))
                header.entry_count = kept + 1
                if kept:
                    header.end_log_offset = file.entries[-1][1]
                    last_ms = header.begin_store_ms + file.entries[-1][2] * 1000 + 999
                    header.end_store_ms = min(last_ms, header.end_store_ms)
        self.files = [file for file in self.files if file.entries]

    @rule(key=st.sampled_from("abcdefx"), begin=STEPS_MS, length=STEPS_MS)
    def query(self, key: str, begin: int, length: int) -> None:
        begin_ms = self.now_ms - abs(begin)
        end_ms = begin_ms + abs(length)
        wanted: list[int] = []
        for file in reversed(self.files):
            if begin_ms <= file.header.end_store_ms and end_ms >= file.header.begin_store_ms:
                wanted += file.find(index_hash("T", key), begin_ms, end_ms)
            if file.header.begin_store_ms < begin_ms:
                break

        assert self.index.query("T", key, 64, begin_ms, end_ms) == wanted[:64]

    @invariant()
    def files_agree(self) -> None:
        self.index.flush()
        assert [astuple(file.header) for file in self.index.files] == [
            astuple(file.header) for file in self.files
        ]
        for ours, model in zip(self.index.files, self.files, strict=True):
            content = ours.path.read_bytes()
            assert content[:40] == model.header.pack()
            assert content[40 : 40 + 4 * SLOTS] == struct.pack(f">{SLOTS}i", *model.slots)
            assert ours.entries().tolist() == model.entries
            assert not content[ours.shape.entry_byte(len(model.entries) + 1) :].strip(b"\0")


IndexModel.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestIndexModel = IndexModel.TestCase
