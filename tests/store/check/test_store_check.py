"""`check_store` finds every contradiction between the files of a store and names its place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from flintmq.store.check.findings import Severity
from flintmq.store.check.store_check import Exit, check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import Appended, MessageLog
from support.store.real_stores import ALL, unpack_store
from support.store.recovering import files, filled, flip, kill
from support.store.stored import SMALL, START_MS, open_store, store


def changed(path: Path, at: int, octets: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(octets)


def texts(directory: Path, severity: Severity = Severity.WRONG) -> list[str]:
    report = check_store(Disk(), directory, SMALL)
    return [str(finding) for finding in report.findings.kept if finding.severity is severity]


@pytest.mark.parametrize("name", ALL)
def test_real_directories_are_in_order(name: str, tmp_path: Path) -> None:
    directory = unpack_store(name, tmp_path)

    report = check_store(Disk(), directory, StoreConfig())

    assert report.findings.kept == []
    assert report.exit is Exit.CLEAN
    assert report.units == report.records > 100
    assert report.index_entries > 200


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    kill(filled(tmp_path, 30))
    before = files(tmp_path, ".")

    check_store(Disk(), tmp_path, SMALL)

    assert files(tmp_path, ".") == before


def test_a_store_at_work_is_in_order_up_to_its_last_record(tmp_path: Path) -> None:
    log = filled(tmp_path, 30)

    report = check_store(Disk(), tmp_path, SMALL)

    assert report.is_good
    assert report.exit is Exit.OPEN
    assert report.records == 30
    log.close()


def test_a_wrong_unit_is_named(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}"

    changed(path, 3 * 20 + 19, b"\x77")

    assert [text for text in texts(tmp_path) if f"{path} at byte 60" in text]


@pytest.mark.parametrize("field", [7, 11, 19])
def test_every_field_of_a_unit_is_held_against_its_record(field: int, tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}"
    old = path.read_bytes()[40 + field]

    changed(path, 40 + field, bytes([old ^ 1]))

    assert texts(tmp_path)


def test_bytes_behind_the_last_unit_are_told(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = tmp_path / "consumequeue" / "T" / "0" / f"{200:020d}"

    changed(path, 199, b"\x01")

    assert texts(tmp_path) == [f"{path} at byte 199: bytes behind the last unit"]


def test_a_hole_in_the_log_is_lost_and_not_wrong(tmp_path: Path) -> None:
    kill(filled(tmp_path, 30))
    flip(tmp_path, 95)
    open_store(tmp_path).close()

    assert texts(tmp_path) == []
    assert any(f"{0:020d} at byte 0" in text for text in texts(tmp_path, Severity.LOST))


def test_a_missing_queue_is_told(tmp_path: Path) -> None:
    log = filled(tmp_path, 30)
    log._queues.remove_topic("T")
    store(log, b"", "T", now_ms=START_MS + 40_000)
    log._queues.remove_topic("T")
    log.close()
    table = b'{"topicConfigTable":{"T":{"topicName":"T"}}}'
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "topics.json").write_bytes(table)

    assert any("records of the log are not in it" in text for text in texts(tmp_path))


@pytest.mark.parametrize("what", ["entry", "slot", "header"])
def test_a_damaged_index_is_told(what: str, tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = next((tmp_path / "index").iterdir())
    at = {"header": 35, "slot": 40, "entry": 40 + 16 * 4 + 20 * 5}[what]
    old = path.read_bytes()[at]

    changed(path, at, bytes([old ^ 1]))

    assert texts(tmp_path)


def put_again(log: MessageLog, stored: Sequence[tuple[Appended, list[str]]]) -> None:
    """Make the index repeat records, as RocketMQ's does after a crash."""
    log._index._end = stored[0][0].log_offset - 1
    for at, keys in stored:
        log._index.add("T", keys, at.log_offset, at.store_ms)
    log.flush()


def indexed(log: MessageLog, count: int) -> list[tuple[Appended, list[str]]]:
    """Records of three keys each; 21 of them fill an index file."""
    stored = []
    for number in range(count):
        keys = (f"k{number}", f"l{number}", "m")
        stored.append((store(log, keys=keys, now_ms=START_MS + number * 5_000), list(keys)))
    log.flush()
    return stored


def entry_byte(number: int) -> int:
    return 40 + 4 * SMALL.index_slots + 20 * number


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(("count", "at"), [(5, 16), (21, 1)])
def test_entries_that_repeat_the_last_record_are_noted_and_not_wrong(
    count: int, at: int, times: int, tmp_path: Path
) -> None:
    log = open_store(tmp_path)
    stored = indexed(log, count)
    for _ in range(times):
        put_again(log, stored[-1:])
    place = stored[-1][0].log_offset
    store(log, b"later", keys=("later",), now_ms=START_MS + 900_000)
    log.close()
    path = max((tmp_path / "index").iterdir())

    assert check_store(Disk(), tmp_path, SMALL).is_good
    told = f"repeats one of the record at {place}: RocketMQ does, after a crash"
    assert texts(tmp_path, Severity.NOTE) == [
        f"{path} at byte {entry_byte(n)}: entry {n} {told}" for n in range(at, at + 3 * times)
    ]


def test_beside_a_repeated_record_a_wrong_time_is_told(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    put_again(log, indexed(log, 5)[-1:])
    log.close()
    path = next((tmp_path / "index").iterdir())

    changed(path, entry_byte(2) + 12, (77).to_bytes(4))

    place = f"{path} at byte {entry_byte(2)}"
    assert texts(tmp_path) == [f"{place}: entry 2: its time should be {START_MS}"]


def test_entries_that_repeat_older_records_are_wrong(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    put_again(log, indexed(log, 21)[-2:])
    log.close()
    path = max((tmp_path / "index").iterdir())

    assert texts(tmp_path) == [
        f"{path} at byte {entry_byte(n)}: entry {n}: is there already, before entries of later"
        " records"
        for n in (1, 2, 3)
    ]


def test_a_repeated_entry_of_another_key_is_wrong(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    ((at, _),) = indexed(log, 5)[-1:]
    put_again(log, [(at, ["other"])])
    log.close()

    assert [text.partition(": ")[2] for text in texts(tmp_path)] == [
        f"entry 16: no record at {at.log_offset} has that key"
    ]


def test_a_checkpoint_from_the_future_is_told(tmp_path: Path) -> None:
    filled(tmp_path, 5).close()

    changed(tmp_path / "checkpoint", 0, (2**50).to_bytes(8))

    assert any("checkpoint at byte 0" in text for text in texts(tmp_path))


def test_a_table_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    filled(tmp_path, 5).close()
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "topics.json").write_bytes(b"{")

    assert any("topics.json" in text for text in texts(tmp_path))


def test_almost_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Not those in what the format keeps no checksum over."""
    filled(tmp_path, 60).close()
    chance = Random(7)
    paths = sorted((tmp_path / "consumequeue").rglob("0000*"))

    missed = 0
    for _ in range(60):
        path = chance.choice(paths)
        content = path.read_bytes()
        at = chance.randrange(len(content))
        changed(path, at, bytes([content[at] ^ 1 << chance.randrange(8)]))
        missed += not texts(tmp_path)
        changed(path, at, content[at : at + 1])

    assert missed == 0


def test_a_queue_that_no_topic_can_have_is_named(tmp_path: Path) -> None:
    log = filled(tmp_path, 30)
    store(log, b"strayed", "T", 999_999_999)
    log.close()

    report = check_store(Disk(), tmp_path, SMALL)

    (note,) = texts(tmp_path, Severity.NOTE)
    assert "queue 999999999 of 'T' is served by no broker" in note
    assert str(tmp_path / "consumequeue" / "T" / "999999999") in note
    assert report.is_good


@pytest.mark.parametrize("step_ms", [2_000, 3_600_000, 400 * 86_400_000])
def test_a_clock_that_was_set_back_is_noted_and_not_wrong(tmp_path: Path, step_ms: int) -> None:
    with closing(open_store(tmp_path)) as log:
        for number in range(3):
            store(log, keys=(f"k{number}",), now_ms=START_MS + number)
        for number in range(3, 6):
            store(log, keys=(f"k{number}",), now_ms=START_MS - step_ms + number)
        log.flush()

    assert texts(tmp_path) == []
    notes = texts(tmp_path, Severity.NOTE)
    assert [note for note in notes if "the clock was set back" in note]
