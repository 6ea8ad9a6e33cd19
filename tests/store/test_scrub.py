"""A scrub finds every flipped bit that a checksum covers, and writes only what is proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.model.queue import LogOffset
from flintmq.store.message_log import MessageLog
from flintmq.store.scrub import LogDamage, LogScrub
from support.store.recovering import flip
from support.store.stored import SMALL, START_MS, bodies, open_store, store

CHECKED = replace(SMALL, record_checksums=True)
COUNT = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    """A store of several files that stays open while its files change."""
    log = open_store(tmp_path, CHECKED)
    for number in range(COUNT):
        store(log, b"%03d" % number * 20, now_ms=START_MS + number, TAGS="a")
    log.flush()
    yield log
    log.close()


def whole_pass(scrub: LogScrub, bytes_max: int = 1_000) -> list[LogDamage]:
    """One pass over the whole log; what was new in it."""
    found: list[LogDamage] = []
    passes = scrub.passes
    while True:
        part = scrub.begin(bytes_max)
        assert part is not None
        if scrub.passes > passes + 1 or (part.end == scrub.position and not bytes_max):
            return found
        part.run()
        found += scrub.finish(part)
        if scrub.position == part.end:
            return found


def place_of(log: MessageLog, number: int) -> tuple[LogOffset, bytes]:
    """Where a message lies, and its record."""
    entry = log.lookup.entries("T", 0, number, 1)[0]  # type: ignore[arg-type]  # plain number
    view = log._log.read_view(LogOffset(entry[0]), entry[1])
    assert view is not None
    return LogOffset(entry[0]), bytes(view)


@pytest.mark.parametrize("bytes_max", [1, 500, 10_000_000])
def test_a_log_in_order_has_no_damage(log: MessageLog, bytes_max: int) -> None:
    scrub = log.raw.scrub

    assert whole_pass(scrub, bytes_max) == []
    assert scrub.checked_bytes == log.end_offset
    whole_pass(scrub, bytes_max)
    assert scrub.passes == 1
    assert scrub.checked_bytes == 2 * log.end_offset


@pytest.mark.parametrize("number", [0, 17, COUNT - 1])
@pytest.mark.parametrize("inside", [2, 6, 9, 18, 27, 33, 45, 60, 75, 100, -40, -10, -1])
def test_a_flipped_bit_is_found_once_and_healed(
    log: MessageLog, tmp_path: Path, number: int, inside: int
) -> None:
    place, record = place_of(log, number)
    flip(tmp_path, place + inside % len(record), CHECKED)
    scrub = log.raw.scrub

    (damage,) = whole_pass(scrub)
    again = whole_pass(scrub)

    assert (damage.start, damage.stop) == (place, place + len(record))
    assert damage.position == place % CHECKED.commit_log_file_bytes
    assert again == []
    assert list(scrub.damages) == [place]
    assert scrub.why_not(damage, record) is None

    scrub.heal(damage, record)

    assert place_of(log, number)[1] == record
    assert whole_pass(scrub) == []
    assert (scrub.found_count, scrub.healed_count, scrub.damages) == (1, 1, {})
    assert len(bodies(log)) == COUNT


def test_a_torn_page_is_one_damage_and_healed_as_a_whole(log: MessageLog, tmp_path: Path) -> None:
    first, _ = place_of(log, 3)
    last, record = place_of(log, 6)
    stop = last + len(record)
    path = tmp_path / "commitlog" / f"{0:020d}"
    good = path.read_bytes()[first:stop]
    content = bytearray(path.read_bytes())
    content[first + 10 : stop - 5] = bytes(stop - 15 - first)
    path.write_bytes(content)
    scrub = log.raw.scrub

    (damage,) = whole_pass(scrub)

    assert (damage.start, damage.stop) == (first, stop)
    assert scrub.why_not(damage, good) is None
    assert "bytes there, and" in str(scrub.why_not(damage, good[: -len(record)]))


def test_bytes_that_are_not_proven_are_never_written(log: MessageLog, tmp_path: Path) -> None:
    place, record = place_of(log, 5)
    flip(tmp_path, place + 22, CHECKED)  # its queue offset: the header is another now
    scrub = log.raw.scrub
    (damage,) = whole_pass(scrub)
    other = open_store(tmp_path / "other", CHECKED)
    for number in range(COUNT):
        store(other, b"%03d" % number * 20, "U", now_ms=START_MS + number, TAGS="a")
    foreign = other._log.read_view(place, len(record))
    assert foreign is not None
    foreign = bytes(foreign)  # type: ignore[assignment]  # a copy; the store is closed next
    other.close()

    assert scrub.why_not(damage, record) is None
    assert "nothing here says" in str(scrub.why_not(damage, bytes(foreign)))
    assert "no whole record" in str(scrub.why_not(damage, record[:-1] + b"\0"))
    assert "no whole record" in str(scrub.why_not(damage, place_of(log, 6)[1]))
    assert "are damaged" in str(scrub.why_not(damage, b""))


def test_a_place_that_is_in_order_again_is_forgotten(log: MessageLog, tmp_path: Path) -> None:
    place, _ = place_of(log, 5)
    flip(tmp_path, place + 50, CHECKED)
    scrub = log.raw.scrub
    whole_pass(scrub)
    flip(tmp_path, place + 50, CHECKED)

    assert whole_pass(scrub) == []
    assert scrub.damages == {}


def test_a_damaged_filler_is_named(log: MessageLog, tmp_path: Path) -> None:
    path = tmp_path / "commitlog" / f"{0:020d}"
    at = path.read_bytes().rfind(bytes.fromhex("cbd43194"))
    flip(tmp_path, at, CHECKED)

    (damage,) = whole_pass(log.raw.scrub)

    assert (damage.position, damage.stop) == (at - 4, CHECKED.commit_log_file_bytes)


def test_an_empty_log_has_nothing_to_check(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    assert log.raw.scrub.begin(100) is None
    log.close()


def test_a_file_that_goes_while_it_is_read_is_no_damage(log: MessageLog) -> None:
    scrub = log.raw.scrub
    part = scrub.begin(1)
    assert part is not None
    log._log.remove_first()

    part.run()

    assert scrub.finish(part) == []
    assert scrub.position == log._log.min_offset
