"""With record checksums on, every record has one, and damage that no other check sees is found.

The body of a record has a checksum of its own.  Times, hosts, flags, topic and properties have not:
without the checksum over the whole record, a bit that flips there is served as if nothing was.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import LocalProtocolError, LogMismatch
from flintmq.kernel.layout import STORE_MS_AT
from flintmq.model.java_hash import tags_code
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.record_checksum import (
    CHECKSUM_BYTES,
    has_wrong_checksum,
    looks_checksummed,
)
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.protocol.records.record_scan import scan_records
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.log.log_scan import LogScan
from flintmq.store.message_log import MessageLog
from support.store.recovering import flip, kill
from support.store.stored import BORN, SMALL, START_MS, STORED, bodies, open_store, store

CHECKED = replace(SMALL, record_checksums=True)


def every_record(log: MessageLog) -> list[bytes]:
    found = []
    for _, columns in LogScan(log._disk, log._log.segments, log._log.min_offset):
        view = memoryview(columns.buffer)
        sizes = zip(columns.start.tolist(), columns.size_bytes.tolist(), strict=True)
        found += [bytes(view[start : start + size]) for start, size in sizes]
    return found


def filled(directory: Path) -> MessageLog:
    """Three messages each way into the log; they fill more than one file."""
    log = open_store(directory, CHECKED)
    for number in range(12):
        body = b"%03d" % number * 20
        store(log, body, now_ms=START_MS + number, keys=(f"k{number}",), TAGS="a")
        log.plain.append(
            RecordPattern("T", 1, store_host=STORED),
            body,
            b"TAGS\x01a\x02KEYS\x01k",
            START_MS,
            packed_host(BORN),
            tags_code("a"),
            ["k"],
            START_MS + number,
        )
        log.plain.append_batch(
            RecordPattern("T", 2, store_host=STORED),
            BatchColumns([body, b""], [b"KEYS\x01k\x02", b""], [0, 0]),
            b"TAGS\x01b\x02",
            START_MS,
            packed_host(BORN),
            tags_codes=[tags_code("b")] * 2,
            keys=[["k"], []],
            now_ms=START_MS + number,
        )
        log.write()
    return log


def test_every_record_has_one_whichever_way_it_came(tmp_path: Path) -> None:
    log = filled(tmp_path)

    found = every_record(log)
    log.close()

    assert len(found) == 48
    assert all(map(looks_checksummed, found))
    assert not any(map(has_wrong_checksum, found))
    assert check_store(Disk(), tmp_path, CHECKED).is_good


@pytest.mark.parametrize(
    "inside", [STORE_MS_AT + 7, 47, 55, -CHECKSUM_BYTES - 3, -CHECKSUM_BYTES, -4, -1]
)
def test_a_flip_outside_the_body_is_found_by_recovery_and_check(
    tmp_path: Path, inside: int
) -> None:
    log = filled(tmp_path)
    record = every_record(log)[8]
    place = int.from_bytes(record[28:36])
    kill(log)
    flip(tmp_path, place + inside % len(record), CHECKED)

    report = check_store(Disk(), tmp_path, CHECKED)
    log = open_store(tmp_path, CHECKED)
    complaints = log.complaints
    rest = len(every_record(log))
    log.close()

    assert not report.is_good
    assert any("checksum over the whole" in finding.what for finding in report.findings.kept)
    assert len(complaints) == 1
    assert f"at byte {place % CHECKED.commit_log_file_bytes}" in complaints[0]
    assert rest == 47


def test_a_slave_does_not_take_a_record_with_a_flip_in_its_properties(tmp_path: Path) -> None:
    log = filled(tmp_path / "master")
    record = bytearray(every_record(log)[0])
    log.close()
    slave = open_store(tmp_path / "slave")  # its own setting does not matter

    record[-CHECKSUM_BYTES - 2] ^= 1
    with pytest.raises(LogMismatch, match="header or properties are damaged"):
        slave.raw.append(bytes(record), START_MS)
    record[-CHECKSUM_BYTES - 2] ^= 1

    assert slave.raw.append(bytes(record), START_MS) == len(record)
    slave.close()


def test_the_checksum_counts_against_the_limit_of_properties(tmp_path: Path) -> None:
    large = replace(CHECKED, commit_log_file_bytes=1024 * 1024)
    log = open_store(tmp_path, large)
    pattern = RecordPattern("T", 0, store_host=STORED)

    def parts(size_bytes: int) -> tuple[RecordPattern, bytes, bytes, int, bytes]:
        text = b"a\x01" + b"x" * (size_bytes - 3) + b"\x02"
        return pattern, b"", text, START_MS, packed_host(BORN)

    fits = 32_767 - CHECKSUM_BYTES
    log.append(*parts(fits), now_ms=START_MS)
    with pytest.raises(LocalProtocolError):
        log.append(*parts(fits + 1), now_ms=START_MS)
    assert log.plain.append(*parts(fits), 0, ["k"], START_MS) is not None
    assert log.plain.append(*parts(fits + 1), 0, ["k"], START_MS) is None
    log.write()
    assert not any(map(has_wrong_checksum, every_record(log)))
    log.close()


def test_the_setting_may_change_between_two_starts(tmp_path: Path) -> None:
    for config in (CHECKED, SMALL, CHECKED):
        log = open_store(tmp_path, config)
        store(log, b"one more")
        kill(log)

    log = open_store(tmp_path)

    assert not log.complaints
    assert len(bodies(log)) == 3
    octets = b"".join(every_record(log))
    assert len(scan_records(octets)) == 3
    log.close()
