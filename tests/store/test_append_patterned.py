"""A record that takes the short way lies in the store as one that was appended the usual way."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import BodyTooLarge, DiskFailed
from flintmq.model.java_hash import tags_code
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.append_patterned import AppendedBatch
from flintmq.store.message_log import MessageLog
from support.store.stored import BORN, SMALL, START_MS, STORED, bodies, draft, draft_of, open_store

PATTERN = RecordPattern("T", 3, store_host=STORED)
TEXT = encode_properties({"TAGS": "x", "KEYS": "k"})


def append(log: MessageLog, body: bytes, now_ms: int = START_MS) -> tuple[int, int, int] | None:
    return log.plain.append(
        PATTERN, body, TEXT, START_MS, packed_host(BORN), tags_code("x"), ["k"], now_ms
    )


def append_batch(log: MessageLog, *parts: bytes, queue_id: int = 0) -> AppendedBatch:
    return log.plain.append_batch(
        RecordPattern("T", queue_id, store_host=STORED),
        BatchColumns(parts, [b""] * len(parts), [0] * len(parts)),
        b"",
        START_MS,
        packed_host(BORN),
        tags_codes=list(range(1, len(parts) + 1)),
        keys=[("k",) if body[:1] != b"b" else () for body in parts],
        now_ms=START_MS,
    )


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for name in ("commitlog", "consumequeue", "index")
        for path in sorted((directory / name).rglob("*"))
        if path.is_file()
    }


def test_both_ways_write_the_same_files(tmp_path: Path) -> None:
    short, usual = open_store(tmp_path / "short"), open_store(tmp_path / "usual")
    for number in range(40):  # more than one file of the log
        body = b"body %d" % number
        now_ms = START_MS + number
        placed = append(short, body, now_ms)
        appended = usual.append(
            *draft(body, "T", 3, TAGS="x", KEYS="k"),
            tags_code=tags_code("x"),
            keys=("k",),
            now_ms=now_ms,
        )
        assert placed == (appended.log_offset, appended.queue_offset, appended.size_bytes)
        if number % 3 == 0:
            assert short.write() == usual.write()
    for log in (short, usual):
        log.close()

    assert len(files(tmp_path / "short")) > 3
    assert files(tmp_path / "short") == files(tmp_path / "usual")


def test_a_record_that_is_too_large_is_left_to_the_usual_way(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    assert append(log, bytes(4_096)) is None
    assert not log.has_turn


def test_a_turn_that_holds_enough_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path)
    monkeypatch.setattr(log.plain, "_turn_bytes_max", 100)
    had_room = log.plain.has_room

    append(log, b"body")

    has_room = log.plain.has_room
    log.write()
    assert (had_room, has_room, log.plain.has_room) == (True, False, True)


def test_a_batch_stays_in_one_file(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    log.append(*draft_of(3500), now_ms=START_MS)
    parts = (b"a" * 200, b"b" * 200, b"c" * 200)

    batch = append_batch(log, *parts)
    grown = log.write()

    size = len(draft(parts[0]).octets())
    assert batch.log_offsets == [4096, 4096 + size, 4096 + 2 * size]
    assert (batch.queue_offset, batch.stop) == (1, 4096 + 3 * size)
    assert grown[0].tags_codes == [0, 1, 2, 3]
    assert len(log.lookup.by_key("T", "k", 32, 0, 2**62).views) == 2
    assert [body[:1] for body in bodies(log)] == [b"\0", b"a", b"b", b"c"]


def test_a_batch_that_fits_in_no_file_is_refused_as_a_whole(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    with pytest.raises(BodyTooLarge):
        append_batch(log, *[bytes(1900)] * 3)

    assert log.write() == []


def test_a_batch_with_a_message_too_large_is_refused(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    with pytest.raises(BodyTooLarge):
        append_batch(log, b"small", bytes(SMALL.commit_log_file_bytes))

    assert log.write() == []


def test_a_store_that_refuses_takes_no_batch(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    log._over_full = DiskFailed(str(tmp_path), "write", "full")

    with pytest.raises(DiskFailed):
        append_batch(log, b"body")
