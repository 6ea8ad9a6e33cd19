"""A record is read only if every byte of it has its place, and is written again as it was."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError, MalformedRecord
from flintmq.kernel.layout import (
    LOG_OFFSET_AT,
    MAGIC_AT,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
)
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX, parse_properties
from flintmq.protocol.records.record import (
    RECORD_BYTES_MAX,
    Record,
    Version,
    crc_of,
    decode_record,
    encode_filler,
    encode_record,
    is_filler,
    is_partial,
    record_size,
    store_time_ms,
)
from support.record_examples import BACKWARDS, EXAMPLE, mutated, records

V6_HOST = Host.parse("[2001:db8::1]:10911")


def changed(record: Record, **fields: Any) -> Record:
    return msgspec.structs.replace(record, **fields)


def with_number(at: int, value: int, layout: str = ">i") -> bytes:
    """The worked example with another number at one place."""
    octets = bytearray(EXAMPLE)
    struct.pack_into(layout, octets, at, value)
    return bytes(octets)


def test_the_worked_example_is_read_field_by_field() -> None:
    assert decode_record(EXAMPLE) == Record(
        version=Version.V1,
        body_crc=0x58932AAC,
        queue_id=3,
        flag=0,
        queue_offset=QueueOffset(5),
        log_offset=LogOffset(1024),
        sys_flag=0,
        born_ms=1_700_000_000_000,
        born_host=Host.parse("10.0.0.2:40000"),
        store_ms=1_700_000_000_001,
        store_host=Host.parse("10.0.0.1:10911"),
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        body=b"hi",
        topic="T",
        properties=b"TAGS\x01TagA\x02",
    )
    assert len(EXAMPLE) == 104 == record_size(EXAMPLE, 0)
    assert parse_properties(decode_record(EXAMPLE).properties) == {"TAGS": "TagA"}


def test_the_worked_example_is_written_byte_by_byte() -> None:
    assert encode_record(decode_record(EXAMPLE)) == EXAMPLE


@settings(max_examples=300, deadline=None)
@given(records(), st.binary(max_size=9), st.binary(max_size=9))
def test_what_is_written_is_read_wherever_it_is(
    record: Record, before: bytes, after: bytes
) -> None:
    octets = encode_record(record)
    buffer = before + octets + after

    for form in (buffer, bytearray(buffer), memoryview(buffer)):
        assert decode_record(form, len(before)) == record
    assert record_size(buffer, len(before)) == len(octets)
    assert store_time_ms(buffer, len(before)) == record.store_ms


@settings(max_examples=100, deadline=None)
@given(records())
def test_fields_with_a_fixed_place_are_in_it(record: Record) -> None:
    octets = encode_record(record)

    assert struct.unpack_from(">I", octets, MAGIC_AT) == (record.version,)
    assert struct.unpack_from(">q", octets, QUEUE_OFFSET_AT) == (record.queue_offset,)
    assert struct.unpack_from(">q", octets, LOG_OFFSET_AT) == (record.log_offset,)
    assert struct.unpack_from(">i", octets, SYS_FLAG_AT) == (record.sys_flag,)


@settings(max_examples=100, deadline=None)
@given(records(), st.integers(0, 400))
def test_a_record_that_is_cut_off_is_refused(record: Record, length: int) -> None:
    octets = encode_record(record)
    part = octets[: min(length, len(octets) - 1)]

    with pytest.raises(MalformedRecord):
        decode_record(part)
    assert is_partial(part, 0)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200) | mutated(records().map(encode_record)), st.booleans())
def test_any_bytes_are_a_record_or_refused(octets: bytes, verify_crc: bool) -> None:
    try:
        record = decode_record(octets, verify_crc=verify_crc)
    except MalformedRecord:
        return

    again = encode_record(record)
    assert octets.startswith(again)
    assert record_size(octets, 0) == len(again)


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        EXAMPLE[:90],
        with_number(0, 103),
        with_number(0, 105),
        with_number(0, 90),
        with_number(0, 0),
        with_number(0, -1),
        with_number(0, 2**31 - 1),
        with_number(MAGIC_AT, 0),
        with_number(MAGIC_AT, 0xCBD43194, ">I"),
        with_number(MAGIC_AT, Version.V2, ">I"),
        with_number(SYS_FLAG_AT, BORN_HOST_V6),
        with_number(SYS_FLAG_AT, STORE_HOST_V6),
        with_number(84, -1),
        with_number(84, 3),
        with_number(84, 2**31 - 1),
        with_number(90, 0, ">B"),
        with_number(90, 2, ">B"),
        with_number(90, 0x80, ">B"),
        with_number(92, 9, ">h"),
        with_number(92, 11, ">h"),
        with_number(92, -10, ">h"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(octets: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_record(octets, verify_crc=False)


def test_a_negative_length_does_not_lead_back_into_the_body() -> None:
    """Three bytes back from the topic, the body says how long properties would have to be."""
    with pytest.raises(MalformedRecord, match="topic"):
        decode_record(BACKWARDS, verify_crc=False)


def test_a_refusal_says_where() -> None:
    with pytest.raises(MalformedRecord) as caught:
        decode_record(EXAMPLE + bytes(200), len(EXAMPLE))

    assert caught.value.position == len(EXAMPLE)


def test_a_topic_that_is_no_text_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="UTF-8"):
        decode_record(with_number(91, 0xFF, ">B"))


def test_an_announced_size_takes_no_memory() -> None:
    octets = with_number(0, RECORD_BYTES_MAX)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRecord):
            decode_record(octets)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 100_000


def test_a_record_over_the_limit_is_refused() -> None:
    octets = bytes(with_number(0, RECORD_BYTES_MAX + 1)) + bytes(RECORD_BYTES_MAX)

    with pytest.raises(MalformedRecord, match="no record has"):
        decode_record(octets)


def test_a_body_that_was_changed_is_refused_unless_asked_otherwise() -> None:
    octets = with_number(88, 0x48, ">B")

    with pytest.raises(MalformedRecord, match="checksum"):
        decode_record(octets)
    assert decode_record(octets, verify_crc=False).body == b"Hi"


def test_a_checksum_of_zero_means_not_computed_only_where_that_is_accepted() -> None:
    octets = with_number(8, 0)

    with pytest.raises(MalformedRecord, match="checksum"):
        decode_record(octets)
    assert decode_record(octets, zero_crc_accepted=True).body == b"hi"
    with pytest.raises(MalformedRecord, match="checksum"):
        decode_record(with_number(8, 1), zero_crc_accepted=True)


def test_an_empty_body_has_the_checksum_zero() -> None:
    assert crc_of(b"") == 0
    assert crc_of(b"hi") == 0x58932AAC


def test_each_wide_host_takes_twelve_bytes_more_and_v2_one() -> None:
    narrow = decode_record(EXAMPLE)
    born = changed(narrow, born_host=V6_HOST, sys_flag=BORN_HOST_V6)
    store = changed(narrow, store_host=V6_HOST, sys_flag=STORE_HOST_V6)
    both = changed(born, store_host=V6_HOST, sys_flag=BORN_HOST_V6 | STORE_HOST_V6)

    assert [len(encode_record(record)) for record in (born, store, both)] == [116, 116, 128]
    assert len(encode_record(changed(narrow, version=Version.V2))) == 105
    assert struct.unpack_from(">q", encode_record(both), 68) == (1_700_000_000_001,)


def test_the_smallest_record_is_as_small_as_said() -> None:
    smallest = changed(decode_record(EXAMPLE), body=b"", body_crc=0, topic="", properties=b"")

    assert len(encode_record(smallest)) == RECORD_BYTES_MIN
    assert decode_record(encode_record(smallest)) == smallest


@pytest.mark.parametrize(
    "fields",
    [
        {"queue_id": 2**31},
        {"flag": -(2**31) - 1},
        {"body_crc": -1},
        {"queue_offset": 2**63},
        {"born_ms": 2**63},
        {"sys_flag": BORN_HOST_V6},
        {"store_host": V6_HOST},
        {"topic": "x" * 128},
        {"topic": "x" * 32_768, "version": Version.V2},
        {"topic": "\ud83d"},
        {"properties": bytes(PROPERTIES_BYTES_MAX + 1)},
        {"body": bytes(RECORD_BYTES_MAX)},
    ],
)
def test_what_the_format_cannot_hold_is_not_written(fields: dict[str, Any]) -> None:
    record = changed(decode_record(EXAMPLE), **fields)

    with pytest.raises(LocalProtocolError):
        encode_record(record)


def test_the_largest_lengths_fit() -> None:
    largest = changed(
        decode_record(EXAMPLE), topic="x" * 127, properties=b"p" * PROPERTIES_BYTES_MAX
    )
    wider = changed(largest, topic="x" * 255, version=Version.V2)

    assert decode_record(encode_record(largest)) == largest
    assert decode_record(encode_record(wider)) == wider


def test_a_filler_is_told_from_records() -> None:
    filler = encode_filler(500)

    assert filler == bytes.fromhex("000001f4cbd43194")
    assert is_filler(b"x" + filler, 1)
    assert record_size(filler, 0) == 500
    assert not is_filler(EXAMPLE, 0)
    assert not is_filler(filler[:7], 0)
    assert not is_filler(bytes.fromhex("00000007cbd43194"), 0)


def test_what_can_be_no_record_is_not_half_of_one() -> None:
    assert is_partial(EXAMPLE[:5], 0)
    assert not is_partial(EXAMPLE, 0)
    assert not is_partial(bytes(50), 0)
    assert not is_partial(with_number(0, RECORD_BYTES_MAX + 1), 0)
