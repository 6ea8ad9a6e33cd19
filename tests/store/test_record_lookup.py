"""Records are found by place, by key and by time, and never one that is not exactly there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import decode_record
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.consume_queue import Bound
from flintmq.store.record_lookup import is_whole
from support.store.stored import SMALL, START_MS, draft, draft_of, open_store, read, store

EVER = (0, 2**62)


def found_bodies(log: MessageLog, key: str, count_max: int = 32, topic: str = "T") -> list[bytes]:
    matches = log.lookup.by_key(topic, key, count_max, *EVER)
    return [decode_record(view).body for view in matches.views]


# By place


def test_a_record_is_found_where_it_was_put(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"first")

    appended = store(log, b"second", TAGS="x")

    record = log.lookup.record_at(appended.log_offset)
    view = log.lookup.record_view(appended.log_offset)
    assert record is not None
    assert view is not None
    assert (record.body, record.queue_offset) == (b"second", 1)
    assert len(view) == appended.size_bytes


@pytest.mark.parametrize("place", [-1, 1, 50, 94, 190, 191, 4096, 2**62, -(2**63)])
def test_where_no_record_starts_none_is_found(tmp_path: Path, place: int) -> None:
    log = open_store(tmp_path)
    store(log, b"abc")
    store(log, b"def")

    assert log.lookup.record_view(LogOffset(place)) is None
    assert log.lookup.record_at(LogOffset(place)) is None


def test_a_record_inside_a_body_is_not_taken_for_one(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    inner = draft(b"forged").octets()

    store(log, inner)

    at = bytes(read(log).views[0]).index(inner)
    assert log.lookup.record_view(LogOffset(at)) is None


def test_after_the_first_file_is_gone_there_is_no_record_at_zero(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for _ in range(3):
        log.append(*draft_of(2000), now_ms=START_MS)
    log.write()

    log._log.remove_first()

    assert log.lookup.record_view(LogOffset(0)) is None
    assert log.lookup.record_view(LogOffset(4096)) is not None


def test_a_damaged_body_is_not_given_as_a_record(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"precious")
    path = tmp_path / "commitlog" / f"{0:020d}"
    octets = bytearray(path.read_bytes())
    octets[octets.index(b"precious")] ^= 1
    path.write_bytes(octets)

    assert log.lookup.record_at(LogOffset(0)) is None
    assert log.lookup.record_view(LogOffset(0)) is not None


def test_a_part_of_the_log_is_whole_until_a_byte_of_it_changes(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for body in (b"a" * 1900, b"b" * 1900, b"c" * 500):
        store(log, body)
    assert is_whole(log._log, LogOffset(0), log.end_offset)
    path = tmp_path / "commitlog" / f"{4096:020d}"
    octets = bytearray(path.read_bytes())
    octets[200] ^= 1
    path.write_bytes(octets)

    assert not is_whole(log._log, LogOffset(0), log.end_offset)
    assert is_whole(log._log, LogOffset(0), LogOffset(4096))


# By key


def test_a_record_is_found_by_each_of_its_keys_at_once(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    store(log, b"order", keys=("id-1", "k1", "k2"))

    assert found_bodies(log, "k1") == found_bodies(log, "k2") == found_bodies(log, "id-1")
    assert found_bodies(log, "k1") == [b"order"]
    assert found_bodies(log, "k3") == []
    assert found_bodies(log, "k1", topic="U") == []


def test_records_come_in_the_order_of_the_log_and_the_newest_are_kept(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for index in range(10):
        store(log, b"%d" % index, keys=("k",))

    assert found_bodies(log, "k", 3) == [b"7", b"8", b"9"]


def test_a_record_with_two_entries_for_a_key_is_found_once(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"first", keys=("k",))

    store(log, b"second", keys=("k", "k"))

    assert found_bodies(log, "k") == [b"first", b"second"]


def test_a_query_keeps_to_its_time(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for index in range(10):
        store(log, b"%d" % index, keys=("k",), now_ms=START_MS + 10_000 * index)

    matches = log.lookup.by_key("T", "k", 32, START_MS + 20_000, START_MS + 45_000)

    assert [decode_record(view).body for view in matches.views] == [b"2", b"3", b"4"]


def test_a_query_tells_how_far_the_index_has_come(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, keys=("k",), now_ms=START_MS)
    last = store(log, keys=("k",), now_ms=START_MS + 7)

    matches = log.lookup.by_key("T", "other", 32, *EVER)

    assert (matches.indexed_to, matches.indexed_ms) == (last.log_offset, START_MS + 7)


def test_records_that_are_gone_are_left_out(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for index in range(3):
        store(log, b"%d" % index + bytes(1935), keys=("k",))

    log._log.remove_first()

    assert [body[:1] for body in found_bodies(log, "k")] == [b"2"]


# By time


def test_offsets_by_time_are_those_of_the_description(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for time_ms in (100, 200, 200, 200, 300):
        store(log, now_ms=time_ms)

    def both(time_ms: int) -> tuple[int, int]:
        lower = log.lookup.offset_by_time("T", 0, time_ms, Bound.LOWER)
        return lower, log.lookup.offset_by_time("T", 0, time_ms, Bound.UPPER)

    assert both(200) == (1, 3)
    assert both(250) == (4, 3)
    assert both(50) == (0, 0)
    assert both(100) == (0, 0)
    assert both(300) == (4, 4)
    assert both(301) == (5, 4)
    assert log.lookup.offset_by_time("U", 0, 200, Bound.LOWER) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60).map(sorted), st.integers(-1, 31))
def test_offsets_by_time_are_what_a_plain_search_finds(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], time_ms: int
) -> None:
    log = open_store(tmp_path_factory.mktemp("store"))
    for stored_ms in times:
        log.append(*draft(b"x"), now_ms=stored_ms)
    log.write()

    lower = log.lookup.offset_by_time("T", 0, time_ms, Bound.LOWER)
    upper = log.lookup.offset_by_time("T", 0, time_ms, Bound.UPPER)

    log.close()
    assert lower == sum(stored_ms < time_ms for stored_ms in times)
    assert upper == max(sum(stored_ms <= time_ms for stored_ms in times) - 1, 0)


def test_store_times_of_a_queue_are_told(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for time_ms in (100, 200):
        store(log, now_ms=time_ms)

    assert log.lookup.earliest_store_ms("T", 0) == 100
    assert log.lookup.store_ms("T", 0, QueueOffset(1)) == 200
    assert log.lookup.store_ms("T", 0, QueueOffset(2)) is None
    assert log.lookup.store_ms("T", 0, QueueOffset(-1)) is None
    assert log.lookup.store_ms("U", 0, QueueOffset(0)) is None
    assert log.lookup.earliest_store_ms("U", 0) is None


def test_a_lost_record_does_not_lead_a_search_by_time_astray(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for time_ms in range(0, 1000, 100):
        store(log, now_ms=time_ms)
    size_bytes = log.end_offset // 10
    path = tmp_path / "commitlog" / f"{0:020d}"
    octets = bytearray(path.read_bytes())
    octets[4 * size_bytes : 6 * size_bytes] = bytes(2 * size_bytes)
    path.write_bytes(octets)

    assert log.lookup.offset_by_time("T", 0, 300, Bound.LOWER) == 3
    assert log.lookup.offset_by_time("T", 0, 600, Bound.LOWER) == 6
    assert log.lookup.store_ms("T", 0, QueueOffset(4)) is None


# By queue entry


def test_entries_of_a_queue_lead_to_their_records(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    appended = [store(log, body) for body in (b"a", b"bc", b"def")]

    entries = log.lookup.entries("T", 0, QueueOffset(1), 10)

    assert [(each.log_offset, each.size_bytes) for each in entries] == [
        (each.log_offset, each.size_bytes) for each in appended[1:]
    ]
    assert log.lookup.entries("T", 0, QueueOffset(3), 10) == []
    assert log.lookup.entries("T", 0, QueueOffset(-1), 10) == []
    assert log.lookup.entries("T", 0, QueueOffset(0), 0) == []
    assert log.lookup.entries("other", 0, QueueOffset(0), 10) == []


def test_a_message_is_old_when_too_much_was_stored_after_it(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(SMALL, in_memory_bytes=1_000))
    store(log, b"x" * 500)

    young = log.lookup.is_old("T", 0, QueueOffset(0))
    store(log, b"x" * 500)

    assert not young
    assert log.lookup.is_old("T", 0, QueueOffset(0))
    assert not log.lookup.is_old("T", 0, QueueOffset(1))
    assert not log.lookup.is_old("T", 0, QueueOffset(2))
    assert not log.lookup.is_old("other", 0, QueueOffset(0))
