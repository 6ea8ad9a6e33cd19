"""The checksum over a whole record is RocketMQ's, and no flip of a bit escapes it.

What RocketMQ 5.3.3 does (`CommitLog`, `MessageExtEncoder`, `MessageDecoder.createCrc32`): 20 bytes
are kept free at the end of the properties, after a separator where one is missing.  When offsets
and store time are known, CRC-32 of all bytes before them, without its top bit, is written there
with its digits in reverse.  A checksum that came with a message is removed before.  Judge: a record
that a 5.3.3 broker wrote with ``enabledAppendPropCRC=true``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintmq.errors import MalformedRecord
from flintmq.protocol.records.record import decode_record
from flintmq.protocol.records.record_checksum import (
    CHECKSUM_BYTES,
    ROOM,
    checksummed,
    checksummed_all,
    has_wrong_checksum,
    looks_checksummed,
    unlike_checksummed,
    with_room,
    wrong_checksums,
)
from flintmq.protocol.records.record_scan import scan_records

GOLDEN = Path(__file__).parents[2] / "golden" / "records.jsonl"


def real_records() -> list[bytes]:
    rows = map(json.loads, GOLDEN.read_text().splitlines())
    return [bytes.fromhex(row["hex"]) for row in rows if row["kind"].startswith("property-crc")]


def test_a_record_of_a_real_broker_has_the_checksum_that_we_write() -> None:
    found = real_records()

    assert found
    for record in found:
        bare = record[:-CHECKSUM_BYTES] + ROOM
        assert checksummed(bare) == record
        assert checksummed_all(bare * 3, [len(record)] * 3) == record * 3
        assert not has_wrong_checksum(record)
        properties = decode_record(record).properties
        assert with_room(properties) == properties[:-CHECKSUM_BYTES] + ROOM


def test_a_flip_of_any_bit_is_found() -> None:
    record = real_records()[0]
    for bit in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            decode_record(flipped)
        except MalformedRecord:
            continue  # its sizes, its magic or its body said so
        assert has_wrong_checksum(flipped), bit


def test_many_records_are_checked_at_once() -> None:
    good = real_records()[0]
    bad = bytearray(good)
    bad[25] ^= 1  # the queue offset
    plain = next(
        bytes.fromhex(row["hex"])
        for row in map(json.loads, GOLDEN.read_text().splitlines())
        if row["broker"] == "4.9.7" and "-v6" not in row["kind"]
    )

    columns = scan_records(good + plain + bad + good)

    assert wrong_checksums(columns).tolist() == [False, False, True, False]
    assert wrong_checksums(scan_records(b"")).tolist() == []


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        (b"", b""),
        (b"TAGS\x01a", b"TAGS\x01a\x02"),
        (b"TAGS\x01a\x02", b"TAGS\x01a\x02"),
        (b"__CRC32#\x010123456789\x02TAGS\x01a\x02", b"TAGS\x01a\x02"),
        (b"TAGS\x01a\x02__CRC32#\x010123456789\x02", b"TAGS\x01a\x02"),
        (b"my__CRC32#\x011\x02", b"my__CRC32#\x011\x02"),
        (b"TAGS\x01__CRC32#\x02", b"TAGS\x01__CRC32#\x02"),
    ],
)
def test_there_is_room_behind_the_properties_and_no_other_checksum(
    properties: bytes, kept: bytes
) -> None:
    assert with_room(properties) == kept + ROOM


@pytest.mark.parametrize(
    "properties",
    [
        b"TAGS\x01a\x02__CRC32#\x010123456789\x02",
        b"a\x01__CRC32#\x010123456789\x02",
        b"a\x01__CRC32#\x010123456789",
        b"a\x01__CRC33#\x010123456789\x02",
    ],
)
def test_what_a_client_sends_is_never_taken_for_a_checksum(properties: bytes) -> None:
    """A peer could else make its own message look damaged at the next recovery."""
    assert not looks_checksummed(unlike_checksummed(properties))


def test_other_properties_stay_as_they_came() -> None:
    for properties in (b"", b"TAGS\x01a", b"TAGS\x01a\x02", b"x" * 40):
        assert unlike_checksummed(properties) == properties
