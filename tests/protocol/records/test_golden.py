"""Every record real brokers wrote decodes to what Java read and encodes to the same bytes."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

import pytest

from flintmq.model.message import ReceivedMessage
from flintmq.model.sys_flag import COMPRESSED
from flintmq.protocol.records.properties import encode_properties, parse_properties
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.record import (
    Record,
    decode_record,
    encode_record,
    is_filler,
    record_size,
)
from support.record_examples import (
    STORES,
    commit_logs,
    golden_records,
    record_positions,
    stored_messages,
)

OF_THE_RECORD = {
    "topic",
    "queue_id",
    "queue_offset",
    "log_offset",
    "flag",
    "sys_flag",
    "born_ms",
    "store_ms",
    "reconsume_times",
    "prepared_offset",
}
OF_THE_MESSAGE = {"tags", "message_id", "offset_message_id"}
BY_MANIFEST = {
    "topic": "topic",
    "queueId": "queue_id",
    "queueOffset": "queue_offset",
    "commitLogOffset": "log_offset",
    "flag": "flag",
    "storedSysFlag": "sys_flag",
    "bornTimestamp": "born_ms",
    "storeTimestamp": "store_ms",
    "reconsumeTimes": "reconsume_times",
    "preparedTransactionOffset": "prepared_offset",
}


def only_message(octets: bytes) -> ReceivedMessage:
    received = decode_messages(octets, broker="broker-a")
    assert received.fault is None
    (message,) = received.messages
    return message


def name_of(row: dict[str, Any]) -> str:
    return f"{row['kind']}, {row['client']} to {row['broker']}"


@pytest.mark.parametrize("row", golden_records(), ids=name_of)
def test_a_record_says_what_it_is_known_to_say(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])
    expected = dict(row["expected"])

    record, message = decode_record(octets), only_message(octets)

    for field in expected.keys() & OF_THE_RECORD:
        assert getattr(record, field) == expected.pop(field), field
    for field in expected.keys() & OF_THE_MESSAGE:
        assert getattr(message, field) == expected.pop(field), field
    assert parse_properties(record.properties) == expected.pop("properties")
    assert record_size(octets, 0) == expected.pop("size_bytes", len(octets))
    assert len(record.body) == expected.pop("stored_body_length", len(record.body))
    assert len(message.body) == expected.pop("body_length", len(message.body))
    assert list(message.keys) == expected.pop("keys", list(message.keys))
    digest = sha1(message.body, usedforsecurity=False).hexdigest()
    assert digest == expected.pop("body_sha1", digest)
    assert not expected, "fields this test does not know"


@pytest.mark.parametrize("row", golden_records(), ids=name_of)
def test_a_record_is_written_again_to_the_byte(row: dict[str, Any]) -> None:
    octets = bytes.fromhex(row["hex"])

    assert encode_record(decode_record(octets)) == octets


@pytest.mark.parametrize("row", golden_records(), ids=name_of)
def test_the_trailing_separator_tells_the_broker(row: dict[str, Any]) -> None:
    """4.9 leaves it out, 5.x writes it; names that occur twice cannot be written again."""
    stored = decode_record(bytes.fromhex(row["hex"])).properties
    properties = parse_properties(stored)
    trailing = row["broker"].startswith("5.")

    assert stored.endswith(b"\x02") == trailing
    if stored.count(b"\x02") + (not trailing) == len(properties):
        assert encode_properties(properties, trailing_separator=trailing) == stored


def test_the_selection_shows_every_kind_of_both_brokers() -> None:
    kinds = {
        broker: {row["kind"] for row in golden_records() if row["broker"] == broker}
        for broker in ("4.9.7", "5.3.3")
    }
    both = {
        "tags",
        "keys",
        "several-keys",
        "unicode-properties",
        "compressed-body",
        "batch",
        "delayed-delivered",
        "schedule-topic",
        "retry",
        "dead-letter",
        "transaction-committed",
        "half",
        "op",
    }

    assert kinds["4.9.7"] >= both
    assert kinds["5.3.3"] >= both | {"timer"}


@pytest.mark.parametrize("store", STORES)
def test_every_record_of_a_real_store_is_read_and_written_again(store: str) -> None:
    known = stored_messages(store)

    for log in commit_logs(store):
        for at in record_positions(log):
            record = decode_record(log, at)
            octets = encode_record(record)
            expected = known.pop(record.log_offset)
            assert log.startswith(octets, at)
            assert len(octets) == expected["storeSize"]
            assert_record(record, expected)
            assert_message(only_message(octets), expected)

    assert not known, "records the manifest knows and the log does not show"


def assert_record(record: Record, expected: dict[str, Any]) -> None:
    for wire_name, name in BY_MANIFEST.items():
        if wire_name in expected:
            assert getattr(record, name) == expected[wire_name], name
    assert parse_properties(record.properties) == expected["properties"]


def assert_message(message: ReceivedMessage, expected: dict[str, Any]) -> None:
    assert sha1(message.body, usedforsecurity=False).hexdigest() == expected["bodySha1"]
    assert message.sys_flag & COMPRESSED == 0
    if "msgId" in expected:
        assert message.message_id == expected["msgId"]
        assert message.offset_message_id == expected["offsetMsgId"]
        assert message.tags == expected["tags"]
        assert list(message.keys) == (expected["keys"] or "").split()


@pytest.mark.parametrize("store", ["golden-4.9.7", "golden-5.3.3"])
def test_every_full_file_of_a_real_store_ends_with_a_filler(store: str) -> None:
    for log in commit_logs(store)[:-1]:
        *_, last = record_positions(log)
        at = last + record_size(log, last)

        assert is_filler(log, at)
        assert record_size(log, at) == len(log) - at
