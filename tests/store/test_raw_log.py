"""The log of another broker, taken byte by byte, makes the same files, and nothing else does.

Judges: the store directories of real brokers in ``golden/stores``, and the sessions of real
masters in ``golden/ha``.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from flintmq.errors import LogMismatch
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import TransactionType
from flintmq.protocol.records.record import decode_record
from flintmq.store import raw_columns
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.raw_log import QueueContradiction
from support.replication.ha_sessions import RELEASES, HaSession, ha_session
from support.store.real_stores import ALL, EXTENDED, manifest, setting, unpack_store
from support.store.stored import SMALL, START_MS, draft, open_store, read, records, store

NOW_MS = START_MS


@pytest.fixture(autouse=True, params=["as usual", "by columns"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds for records one by one and for many at once."""
    if request.param == "by columns":
        monkeypatch.setattr(raw_columns, "FEW_BYTES_MAX", 0)
        monkeypatch.setattr(raw_columns, "FEW_MAX", 1)


def take(log: MessageLog, octets: bytes) -> int:
    """Append bytes of another log and write them; tell how many were taken."""
    taken = 0
    while taken < len(octets) and (more := log.raw.append(octets[taken:], NOW_MS)):
        taken += more
    log.write()
    return taken


def take_to_the_end(log: MessageLog, octets: bytes | bytearray) -> None:
    """Append the log of another broker that begins at 0."""
    while log.raw.append(octets[log.end_offset :], NOW_MS):
        log.write()


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def config_like(name: str) -> StoreConfig:
    return StoreConfig(
        commit_log_file_bytes=setting(name, "mappedFileSizeCommitLog"),
        queue_file_bytes=setting(name, "mappedFileSizeConsumeQueue"),
        extension_file_bytes=1024,
        index_slots=100,
        index_entries=500,
        extended_queues=name in EXTENDED,
    )


@pytest.mark.parametrize("step", [997, 32_768])
@pytest.mark.parametrize("name", ALL)
def test_the_log_of_a_real_broker_makes_its_files(tmp_path: Path, name: str, step: int) -> None:
    real = unpack_store(name, tmp_path / "real")
    logs = sorted((real / "commitlog").iterdir())
    octets = b"".join(path.read_bytes() for path in logs)
    start = int(logs[0].name)
    octets = octets[: manifest(name)["commit_log_end"] - start]
    ours = MessageLog.open(tmp_path / "ours", config_like(name), process_id=1)
    if start:
        ours.raw.begin_at(LogOffset(start))

    taken = 0
    for stop in range(step, len(octets) + step, step):
        taken += take(ours, octets[taken:stop])
    ours.close()

    assert taken == len(octets)
    assert files(tmp_path / "ours" / "commitlog") == files(real / "commitlog")
    if name not in EXTENDED:  # a real broker's extension units also hold what filters made of them
        assert files(tmp_path / "ours" / "consumequeue") == files(real / "consumequeue")


def session_config(session: HaSession) -> StoreConfig:
    return StoreConfig(
        commit_log_file_bytes=session.file_bytes,
        queue_file_bytes=2_000,
        index_slots=100,
        index_entries=500,
    )


@pytest.mark.parametrize("release", RELEASES)
def test_a_real_session_makes_the_files_of_the_real_slave(tmp_path: Path, release: str) -> None:
    session = ha_session(release)
    log = open_store(tmp_path, session_config(session))
    start, _ = session.log_from()
    log.raw.begin_at(LogOffset(start))

    waiting = b""
    for _, octets in [*session.frames(0), *session.frames(1)]:
        waiting += octets
        waiting = waiting[take(log, waiting) :]
    log.close()

    assert waiting == b""
    assert log.end_offset == session.end
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "commitlog").iterdir()
    }
    assert found == session.hashes


def test_queues_and_keys_are_those_that_recovery_makes(tmp_path: Path) -> None:
    master = open_store(tmp_path / "master")
    for number in range(60):
        store(master, b"x" * (number * 7), f"T{number % 3}", number % 2, keys=(f"k{number}",))
    half = draft(b"half", "T0", 0, int(TransactionType.PREPARED))
    master.append(*half, now_ms=NOW_MS)
    master.write()
    octets = master.raw.tail(2**30)
    slave = open_store(tmp_path / "slave")

    assert take(slave, octets) == len(octets)

    for number in range(60):
        found = slave.lookup.by_key(f"T{number % 3}", f"k{number}", 10, 0, 2**62)
        assert [decode_record(view).body for view in found.views] == [b"x" * (number * 7)]
    slave.close()
    queues = files(tmp_path / "slave" / "consumequeue")
    shutil.rmtree(tmp_path / "slave" / "consumequeue")
    open_store(tmp_path / "slave").close()
    assert files(tmp_path / "slave" / "consumequeue") == queues
    master.close()
    assert files(tmp_path / "master" / "commitlog") == files(tmp_path / "slave" / "commitlog")
    assert files(tmp_path / "master" / "consumequeue") == queues


def some_log(tmp_path: Path) -> bytes:
    """The log of a store with two queues and several files."""
    log = open_store(tmp_path / "some")
    for number in range(40):
        store(log, bytes([number]) * 150, "T", number % 2)
    octets = log.raw.tail(2**30)
    log.close()
    return octets


def test_a_log_cut_at_any_byte_goes_on_from_its_last_whole_record(tmp_path: Path) -> None:
    octets = some_log(tmp_path)
    log = open_store(tmp_path / "copy")

    for cut in range(1, len(octets) + 1):
        end = int(log.end_offset)
        taken = take(log, octets[end:cut])
        assert log.end_offset == end + taken <= cut

    assert log.end_offset == len(octets)
    assert log.raw.tail(2**30) == octets
    log.close()


PROTECTED = [*range(16), *range(20, 36), *range(84, 88), 90, 101]
"""Bytes of a record that other bytes vouch for: size, magic, checksum, queue, queue offset, place,
length and body."""


@pytest.mark.parametrize("at", PROTECTED)
def test_a_flipped_bit_in_what_the_format_protects_is_found(tmp_path: Path, at: int) -> None:
    octets = bytearray(some_log(tmp_path))
    log = open_store(tmp_path / "copy")
    first = int.from_bytes(octets[:4])
    second = int.from_bytes(octets[first : first + 4])
    octets[first + second + at] ^= 4  # in the third record

    with pytest.raises(LogMismatch):
        take_to_the_end(log, octets)

    assert log.end_offset == first + second
    log.close()


def test_a_file_of_another_size_is_told_from_the_start(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    with pytest.raises(LogMismatch, match="mappedFileSizeCommitLog must be the same"):
        log.raw.begin_at(LogOffset(SMALL.commit_log_file_bytes + 1))

    log.close()


def test_a_filler_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    octets = some_log(tmp_path)
    larger = StoreConfig(
        commit_log_file_bytes=2 * SMALL.commit_log_file_bytes,
        queue_file_bytes=200,
        index_slots=16,
        index_entries=64,
    )
    log = open_store(tmp_path / "copy", larger)

    with pytest.raises(LogMismatch, match="a filler that does not end with its file"):
        take_to_the_end(log, octets)

    log.close()


def test_a_young_slave_has_queues_that_begin_late(tmp_path: Path) -> None:
    octets = some_log(tmp_path)
    start = SMALL.commit_log_file_bytes
    log = open_store(tmp_path / "copy")
    log.raw.begin_at(LogOffset(start))

    assert take(log, octets[start:]) == len(octets) - start

    first = decode_record(octets, start)
    assert log.min_offset("T", first.queue_id) == first.queue_offset > 0
    assert log.max_offset("T", first.queue_id) == 20
    log.close()
    again = open_store(tmp_path / "copy")
    assert again.min_offset("T", first.queue_id) == first.queue_offset
    found = records(read(again, int(first.queue_offset)))
    assert found[0].queue_offset == first.queue_offset
    again.close()


def test_a_queue_offset_that_does_not_follow_is_taken_only_by_who_is_sure(tmp_path: Path) -> None:
    """A topic that was deleted and created again on the master begins at 0 once more."""
    log = open_store(tmp_path)
    for number in range(3):
        store(log, bytes([number]))
    again = draft(b"again").octets(0, int(log.end_offset), NOW_MS)

    with pytest.raises(QueueContradiction, match="queue offset 0 of T/0, where 3 follows"):
        log.raw.append(again, NOW_MS)
    assert not log.has_turn

    assert log.raw.append(again, NOW_MS, is_sure=True) == len(again)
    log.write()

    assert [record.body for record in records(read(log))] == [b"again"]
    log.close()


def test_who_is_sure_of_a_gap_gets_a_queue_with_a_hole(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"first")
    later = draft(b"later").octets(3, int(log.end_offset), NOW_MS)

    assert log.raw.append(later, NOW_MS, is_sure=True) == len(later)
    log.write()

    assert log.max_offset("T", 0) == 4
    assert [record.body for record in records(read(log, 3))] == [b"later"]
    log.close()
