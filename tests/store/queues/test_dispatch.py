"""A record adds to its queue and to the index exactly what RocketMQ would add."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.model.queue import QueueOffset
from flintmq.model.sys_flag import TransactionType
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.queues.dispatch import Grown, keys_of
from flintmq.store.queues.selection import Selection
from support.store.stored import SMALL, START_MS, code_of, draft, open_store, store


def test_keys_are_the_unique_id_and_then_the_parts_of_the_keys() -> None:
    assert keys_of({"KEYS": "a  b c", "UNIQ_KEY": "u"}) == ["u", "a", "b", "c"]
    assert keys_of({"KEYS": " "}) == []
    assert keys_of({"UNIQ_KEY": "u"}) == ["u"]
    assert keys_of({}) == []


@pytest.mark.parametrize(
    ("topic", "properties", "code"),
    [
        ("T", {"TAGS": "TagA"}, 2598919),
        ("T", {}, 0),
        ("T", {"TAGS": "TagA", "DELAY": "3"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA", "DELAY": "3"}, 1_700_000_010_001),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA", "DELAY": "99"}, 1_700_007_200_001),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA", "DELAY": "0"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA", "DELAY": "x"}, 2598919),
        ("SCHEDULE_TOPIC_XXXX", {"TAGS": "TagA"}, 2598919),
    ],
)
def test_the_code_is_the_tag_or_in_the_schedule_topic_the_time_of_delivery(
    topic: str, properties: dict[str, str], code: int
) -> None:
    assert code_of(StoreConfig(), topic, properties, 1_700_000_000_001) == code


def test_the_unit_of_a_record_is_that_of_the_worked_example(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for size in (919, 105):
        log.append(*draft(bytes(size - 92)), now_ms=START_MS)
    log.append(*draft(b"hi", "T", 3, TAGS="TagA"), tags_code=2598919, now_ms=START_MS)

    log.write()
    log.flush()

    unit = (tmp_path / "consumequeue/T/3" / f"{0:020d}").read_bytes()[:20]
    assert unit.hex() == "0000000000000400" + "00000068" + "000000000027a807"


def test_a_turn_tells_which_queues_grew_and_with_which_tags(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log)
    for queue_id, code in ((0, 1), (1, 2), (0, 3)):
        log.append(*draft(b"", "T", queue_id), tags_code=code, now_ms=START_MS)

    grown = log.write()

    assert grown == [
        Grown("T", 0, QueueOffset(1), QueueOffset(3), [1, 3]),
        Grown("T", 1, QueueOffset(0), QueueOffset(1), [2]),
    ]


def test_a_queue_knows_where_its_last_record_ends(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for queue_id in (0, 0, 1):
        log.append(*draft(b"abc", "T", queue_id), now_ms=START_MS)

    log.write()

    size_bytes = len(draft(b"abc").octets())
    stops = {queue.queue_id: queue.log_stop for queue in log._queues}
    assert stops == {0: 2 * size_bytes, 1: 3 * size_bytes}


def test_a_half_of_a_transaction_is_stored_but_in_no_queue(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    half = draft(b"half", "T", 0, TransactionType.PREPARED)

    appended = log.append(*half, keys=("k",), now_ms=START_MS)
    grown = log.write()

    record = log.lookup.record_at(appended.log_offset)
    assert grown == []
    assert record is not None
    assert (record.body, record.queue_offset) == (b"half", 0)
    assert len(log.lookup.by_key("T", "k", 32, 0, 2**62).views) == 1


def test_a_rolled_back_record_is_not_found_by_its_key(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    log.append(*draft(b"", "T", 0, TransactionType.ROLLBACK), keys=("k",), now_ms=START_MS)
    log.write()

    assert log.lookup.by_key("T", "k", 32, 0, 2**62).views == []


def test_a_committed_record_takes_the_next_offset(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log)
    log.append(*draft(b"", "T", 0, TransactionType.PREPARED), now_ms=START_MS)

    appended = log.append(*draft(b"", "T", 0, TransactionType.COMMIT), now_ms=START_MS)

    assert appended.queue_offset == 1


def test_a_delayed_message_carries_its_time_of_delivery(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    topic = "SCHEDULE_TOPIC_XXXX"

    log.append(*draft(b"", topic, 2), tags_code=7, delay_level=3, now_ms=START_MS + 1)
    grown = log.write()
    log.flush()

    assert grown[0].tags_codes == [1_700_000_010_001]
    unit = (tmp_path / "consumequeue" / topic / "2" / f"{0:020d}").read_bytes()[:20]
    assert int.from_bytes(unit[12:]) == 1_700_000_010_001


def test_extended_queues_hold_addresses_and_readers_still_see_the_tag(tmp_path: Path) -> None:
    log = open_store(tmp_path, replace(SMALL, extended_queues=True))
    for tag, bit_map in (("A", b""), ("B", b"\x01\x02"), ("A", b"\x03")):
        log.append(
            *draft(tag.encode(), TAGS=tag),
            tags_code=ord(tag),
            bit_map=bit_map,
            now_ms=START_MS,
        )
    grown = log.write()

    found = log.read("T", 0, QueueOffset(0), 32, wanted=Selection(frozenset({ord("A")})))
    by_bits = log.read(
        "T",
        0,
        QueueOffset(0),
        32,
        wanted=Selection(bit_map=lambda bits, store_ms: not bits and store_ms == START_MS),
    )
    units = (tmp_path / "consumequeue/T/0" / f"{0:020d}").read_bytes()[:60]
    assert grown[0].tags_codes == [ord("A"), ord("B"), ord("A")]
    assert [units[at + 12 : at + 20].hex() for at in (0, 20, 40)] == [
        "8000000000000000",
        "8000000000000014",
        "800000000000002a",
    ]
    assert found.record_count == 2
    assert by_bits.record_count == 1
