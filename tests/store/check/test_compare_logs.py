"""Two logs are compared byte for byte, and what differs is named by file, place and message."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from flintmq.kernel.layout import BODY_AT
from flintmq.model.queue import LogOffset
from flintmq.protocol.replication.ha_frames import Piece
from flintmq.store.check.compare_logs import LogComparison, Read, Verdict, compare_store
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.message_log import MessageLog
from support.store.recovering import filled, flip
from support.store.stored import SMALL, open_store, store

FILE_BYTES = SMALL.commit_log_file_bytes


class OtherLog:
    """The log of a running broker that begins somewhere, as its HA port gives it."""

    def __init__(self, directory: Path, end: int, start: int = 0) -> None:
        paths = sorted((directory / "commitlog").iterdir())
        self.octets = bytearray(b"".join(path.read_bytes() for path in paths)[:end])
        self.start = start

    def read(self, start: LogOffset | None) -> Generator[Piece]:
        end = len(self.octets)
        at = max(end - end % FILE_BYTES if start is None else start, 1)
        yield Piece(LogOffset(at), b"")  # one that may come before the data
        while self.start <= at < end:
            stop = min(at + 700, end, at - at % FILE_BYTES + FILE_BYTES)
            yield Piece(LogOffset(at), bytes(self.octets[at:stop]))
            at = stop
        while True:
            yield Piece(LogOffset(at), b"")


def compared(directory: Path, read: Read) -> LogComparison:
    end = check_store(Disk(), directory, SMALL).log_end
    assert end is not None
    return compare_store(Disk(), directory, SMALL, end, read)


@pytest.fixture
def log(tmp_path: Path) -> MessageLog:
    """Sixty messages in several files, closed."""
    log = filled(tmp_path, 60)
    log.close()
    return log


def test_equal_logs_are_equal(log: MessageLog, tmp_path: Path) -> None:
    end = log.end_offset

    found = compared(tmp_path, OtherLog(tmp_path, end).read)

    assert (found.verdict, found.start, found.stop) == (Verdict.EQUAL, 0, end)
    assert (found.end, found.other_end) == (end, end)
    assert found.is_same


def test_a_log_that_lacks_the_newest_is_shorter_and_one_with_more_is_longer(
    log: MessageLog, tmp_path: Path
) -> None:
    end = int(log.end_offset)
    other = OtherLog(tmp_path, end - 700)
    more = OtherLog(tmp_path, end)
    more.octets += b"\1" * 50

    longer, shorter = compared(tmp_path, other.read), compared(tmp_path, more.read)

    assert (longer.verdict, longer.other_end, longer.is_same) == (Verdict.LONGER, end - 700, True)
    assert (shorter.verdict, shorter.end, shorter.is_same) == (Verdict.SHORTER, end, True)
    assert shorter.stop == end


@pytest.mark.parametrize("files_gone", [1, 2])
def test_what_retention_took_from_the_broker_is_not_compared(
    log: MessageLog, tmp_path: Path, files_gone: int
) -> None:
    start = files_gone * FILE_BYTES
    found = compared(tmp_path, OtherLog(tmp_path, log.end_offset, start).read)

    assert (found.verdict, found.start) == (Verdict.EQUAL, start)


def test_logs_without_a_common_byte_are_apart(log: MessageLog, tmp_path: Path) -> None:
    other = OtherLog(tmp_path, log.end_offset)
    other.octets += bytes(5 * FILE_BYTES)
    other.start = 4 * FILE_BYTES

    found = compared(tmp_path, other.read)

    assert (found.verdict, found.is_same) == (Verdict.APART, False)


@pytest.mark.parametrize(
    ("inside", "is_here", "what"),
    [
        (100, False, "message 5 of 'T'/0, which is damaged at the broker"),
        (100, True, "damaged in the directory; the broker has message 5 of 'T'/0"),
        (63, False, "message 5 of 'T'/0 differs in store_ms"),
        (27, False, "message 5 of 'T'/0, where the broker has message 4 of 'T'/0"),
    ],
)
def test_a_record_that_differs_is_named_on_both_sides(
    log: MessageLog, tmp_path: Path, inside: int, is_here: bool, what: str
) -> None:
    other = OtherLog(tmp_path, log.end_offset)
    at = other.octets.find(b"010" * 20) - BODY_AT + inside  # message 10 of all, 5 of T
    if is_here:
        flip(tmp_path, at)
    else:
        other.octets[at] ^= 1

    found = compared(tmp_path, other.read)

    assert (found.verdict, found.different_bytes) == (Verdict.DIFFERENT, 1)
    (difference,) = found.differences
    assert difference.log_offset == at
    assert difference.position == at % FILE_BYTES
    assert f"{at - at % FILE_BYTES:020d}" in str(difference)
    assert f": {what}; 1 bytes differ" in str(difference)


def test_the_first_record_of_a_log_is_named_too(log: MessageLog, tmp_path: Path) -> None:
    flip(tmp_path, 100)

    found = compared(tmp_path, OtherLog(tmp_path, log.end_offset).read)  # the same flip: equal
    other = OtherLog(tmp_path, log.end_offset)
    other.octets[100] ^= 1
    (difference,) = compared(tmp_path, other.read).differences

    assert found.verdict is Verdict.EQUAL
    assert "damaged in the directory; the broker has message 0 of 'T'/0" in str(difference)


def test_logs_that_have_diverged_are_told_by_their_first_records(tmp_path: Path) -> None:
    ends = []
    for name in ("one", "other"):
        log = open_store(tmp_path / name)
        for number in range(40):
            store(log, b"same" if number < 7 else name.encode() + b"%d" % number)
        ends.append(log.end_offset)
        log.close()

    found = compared(tmp_path / "one", OtherLog(tmp_path / "other", ends[1]).read)

    assert found.verdict is Verdict.DIFFERENT
    assert len(found.differences) == 10
    assert "message 7 of 'T'/0" in str(found.differences[0])
