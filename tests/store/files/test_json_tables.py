"""A table is there, old or new, after every crash, and looks as RocketMQ wrote it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from flintmq.errors import DiskFailed, StoreRefused
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Table, Tables
from support.crash.recording import RecordingDisk, crash_states
from support.store.real_stores import ALL, PLAIN, manifest, unpack_store
from support.store.refusing_disk import RefusingDisk


def offsets(number: int) -> ConsumerOffsets:
    return ConsumerOffsets(offset_table={"T@g": {0: number}})


def table_at(directory: Path, disk: Disk | None = None) -> Table[ConsumerOffsets]:
    return Table(disk or Disk(), directory / "config" / "consumerOffset.json", ConsumerOffsets)


def saved(directory: Path, *numbers: int) -> Path:
    """Save tables one after the other; the path of the file."""
    table = table_at(directory)
    for number in numbers:
        table.save(offsets(number))
    return directory / "config" / "consumerOffset.json"


# Real tables


@pytest.mark.parametrize("name", ALL)
def test_real_tables_come_back_to_the_byte(name: str, tmp_path: Path) -> None:
    store = unpack_store(name, tmp_path)
    real = Tables(Disk(), store)
    ours = Tables(Disk(), tmp_path / "ours")

    kept = {"topics", "groups", "consumer_offsets", "delay_offsets", "filters"}
    if name.endswith("5.3.3"):
        kept.add("ordered_pops")
    for attribute in kept:  # the others were not used there, or only our broker has them
        loaded = getattr(real, attribute).load()
        assert loaded is not None, attribute
        getattr(ours, attribute).save(loaded)

    written = sorted((tmp_path / "ours" / "config").iterdir())
    assert len(written) == len(kept)
    for path in written:
        assert path.read_bytes() == (store / "config" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", PLAIN)
def test_real_tables_say_what_the_broker_said(name: str, tmp_path: Path) -> None:
    tables = Tables(Disk(), unpack_store(name, tmp_path))
    told = manifest(name)

    topics, groups = tables.topics.load(), tables.groups.load()
    consumed, delayed = tables.consumer_offsets.load(), tables.delay_offsets.load()

    assert topics is not None
    assert groups is not None
    assert consumed is not None
    assert delayed is not None
    queues = {topic: config.read_queue_nums for topic, config in topics.topic_config_table.items()}
    assert (queues["orders"], queues["tasks"], queues["events-utf8"]) == (3, 2, 1)
    assert "golden_retry" in groups.subscription_group_table
    for entry in told["consumer_offsets"]:
        key = f"{entry['topic']}@{entry['group']}"
        assert consumed.offset_table[key][entry["queueId"]] == entry["offset"]
    assert delayed.offset_table[1] == 10


def test_a_real_filter_table_is_read(tmp_path: Path) -> None:
    tables = Tables(Disk(), unpack_store("golden-ext-5.3.3", tmp_path))

    filters = tables.filters.load()

    assert filters is not None
    groups = filters.filter_data_by_topic["filtered"].group_filter_data
    assert {
        group: f.bloom_filter_data and f.bloom_filter_data.bit_pos for group, f in groups.items()
    } == {
        entry["group"]: tuple(entry["bitPositions"])
        for entry in manifest("golden-ext-5.3.3")["filters"]
    }


def test_unknown_fields_survive_a_rewrite(tmp_path: Path) -> None:
    store = unpack_store("golden-5.3.3", tmp_path)
    path = store / "config" / "topics.json"
    text = path.read_text().replace(
        '"order":false,', '"new":{\n\t\t\t\t"x":1\n\t\t\t},\n\t\t\t"order":false,', 1
    )
    text = text.replace('\t"topicConfigTable"', '\t"future":7,\n\t"topicConfigTable"')
    path.write_text(text)
    tables = Tables(Disk(), store)

    loaded = tables.topics.load()
    assert loaded is not None
    path.unlink()
    version = loaded.data_version
    tables.topics.save(msgspec.structs.replace(loaded, data_version=version.next(99)))

    counted = f'"counter":{version.counter}', f'"counter":{version.counter + 1}'
    timed = f'"timestamp":{version.timestamp}', '"timestamp":99'
    assert path.read_text() == text.replace(*counted).replace(*timed)


# Falling back


def test_there_is_no_table_before_the_first_save(tmp_path: Path) -> None:
    assert table_at(tmp_path).load() is None


def test_the_one_before_is_kept_as_backup(tmp_path: Path) -> None:
    path = saved(tmp_path, 1, 2, 3)

    assert table_at(tmp_path).load() == offsets(3)
    assert path.with_name("consumerOffset.json.bak").read_bytes() == offsets(2).to_file()


@pytest.mark.parametrize("content", [None, b"", b" \n", b"{", b"\0" * 50, b"[1]", b"\xff\xfe"])
def test_the_backup_is_taken_when_the_file_cannot_be(tmp_path: Path, content: bytes | None) -> None:
    path = saved(tmp_path, 1, 2)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    table = table_at(tmp_path)

    found = table.load()

    assert found == offsets(1)


@pytest.mark.parametrize("content", [b"{", b"\0" * 50, b"[1]"])
def test_what_is_broken_never_replaces_a_good_backup(tmp_path: Path, content: bytes) -> None:
    path = saved(tmp_path, 1, 2)
    path.write_bytes(content)
    table = table_at(tmp_path)
    table.load()

    table.save(offsets(3))

    assert path.read_bytes() == offsets(3).to_file()
    assert path.with_name("consumerOffset.json.bak").read_bytes() == offsets(1).to_file()


def test_a_broken_table_without_a_good_backup_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path, 1, 2)
    path.write_bytes(b"{")
    path.with_name("consumerOffset.json.bak").write_bytes(b"}")

    with pytest.raises(StoreRefused, match=r"consumerOffset\.json: cannot be read and has no"):
        table_at(tmp_path).load()


def test_empty_files_are_no_tables(tmp_path: Path) -> None:
    path = saved(tmp_path, 1, 2)
    path.write_bytes(b"")
    path.with_name("consumerOffset.json.bak").write_bytes(b"")

    assert table_at(tmp_path).load() is None


# Saving


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    disk = RecordingDisk(tmp_path)
    table = table_at(tmp_path, disk)
    loaded = table.load()
    assert loaded is not None

    table.save(loaded)

    assert disk.notes == []


def test_a_table_only_in_the_backup_is_written_even_unchanged(tmp_path: Path) -> None:
    path = saved(tmp_path, 1, 2)
    path.unlink()
    table = table_at(tmp_path)
    loaded = table.load()
    assert loaded is not None

    table.save(loaded)

    assert path.read_bytes() == offsets(1).to_file()


def test_after_any_crash_the_table_is_the_old_or_the_new(tmp_path: Path) -> None:
    root = tmp_path / "made"
    disk = RecordingDisk(root)
    table = table_at(root, disk)
    for number in range(1, 6):
        table.save(offsets(number))
        disk.acknowledge(number)

    count = 0
    for count, state in enumerate(crash_states(disk.notes, seed=3), 1):
        state.lay_out(root, tmp_path / str(count))
        loaded = table_at(tmp_path / str(count)).load()
        promised = max([0, *(int(str(number)) for number in state.acknowledged)])
        number = loaded.offset_table["T@g"][0] if loaded is not None else 0
        assert number in (promised, promised + 1), state.name

    assert count > 100


@pytest.mark.parametrize("changes_left", [0, 1])
def test_a_refused_save_leaves_the_old_table_and_is_made_up_for(
    tmp_path: Path, changes_left: int
) -> None:
    disk = RefusingDisk()
    table = table_at(tmp_path, disk)
    table.save(offsets(1))
    table.save(offsets(2))
    disk.changes_left = changes_left
    with pytest.raises(DiskFailed):
        table.save(offsets(3))
    between = table_at(tmp_path).load()
    disk.changes_left = None

    table.save(offsets(3))

    assert between == offsets(2)
    assert table_at(tmp_path).load() == offsets(3)
