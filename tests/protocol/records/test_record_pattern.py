"""A record that a pattern writes has the bytes of the same record encoded field by field."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError
from flintmq.kernel.checksum import crc32
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX
from flintmq.protocol.records.record import (
    CRC_MASK,
    RECORD_BYTES_MAX,
    Record,
    Version,
    decode_record,
    encode_record,
)
from flintmq.protocol.records.record_pattern import TAILS_MAX, RecordPattern, packed_host
from support.record_examples import INT32, records

HOST = Host.parse("10.0.0.1:10911")


def pattern_of(record: Record, **other: Any) -> RecordPattern:
    fields: dict[str, Any] = {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "born_is_v6": record.born_host.is_v6,
        "store_host": record.store_host,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
    }
    return RecordPattern(**(fields | other))


def written(pattern: RecordPattern, record: Record) -> bytes:
    return pattern.record(
        record.body,
        record.properties,
        record.born_ms,
        packed_host(record.born_host),
        record.queue_offset,
        record.log_offset,
        record.store_ms,
    )


@settings(max_examples=200, deadline=None)
@given(records())
def test_a_pattern_writes_the_whole_record_at_once(record: Record) -> None:
    record = msgspec.structs.replace(record, version=Version.V1)
    pattern = pattern_of(record)

    octets = written(pattern, record)

    assert octets == encode_record(record)
    assert len(octets) == pattern.checked_size(record.body, record.properties, record.born_ms)


@settings(max_examples=100, deadline=None)
@given(records(), INT32)
def test_the_bits_for_wide_hosts_are_the_patterns_own_affair(record: Record, sys_flag: int) -> None:
    found = decode_record(written(pattern_of(record, sys_flag=sys_flag), record))

    assert found.sys_flag & ~48 == sys_flag & ~48
    assert found.born_host == record.born_host
    assert found.store_host == record.store_host


@pytest.mark.parametrize(
    ("topic", "version"),
    [("x" * 127, Version.V1), ("x" * 128, Version.V2), ("é" * 64, Version.V2)],
)
def test_only_a_topic_too_long_for_v1_makes_a_v2_record(topic: str, version: Version) -> None:
    pattern = RecordPattern(topic, 0, store_host=HOST)

    found = decode_record(pattern.record(b"", b"", 0, packed_host(HOST), 0, 0, 0))

    assert found.version is version
    assert found.topic == topic


def test_a_pattern_keeps_few_sizes_of_properties_and_writes_all() -> None:
    pattern = RecordPattern("T", 0, store_host=HOST)

    for size_bytes in (*range(TAILS_MAX + 2), 0):
        text = bytes(size_bytes)
        record = decode_record(pattern.record(b"", text, 0, packed_host(HOST), 0, 0, 0))
        assert record.properties == text


@pytest.mark.parametrize(
    "fields",
    [{"topic": "x" * 32_768}, {"topic": "\ud83d"}, {"queue_id": 2**31}, {"prepared_offset": 2**63}],
)
def test_what_the_format_cannot_hold_makes_no_pattern(fields: dict[str, Any]) -> None:
    good: dict[str, Any] = {"topic": "T", "queue_id": 0, "store_host": HOST}

    with pytest.raises(LocalProtocolError):
        RecordPattern(**(good | fields))


@pytest.mark.parametrize(
    ("body", "properties", "born_ms"),
    [
        (b"", bytes(PROPERTIES_BYTES_MAX + 1), 0),
        (bytes(RECORD_BYTES_MAX), b"", 0),
        (b"", b"", 2**63),
    ],
)
def test_what_the_format_cannot_hold_has_no_size(
    body: bytes, properties: bytes, born_ms: int
) -> None:
    with pytest.raises(LocalProtocolError):
        RecordPattern("T", 0, store_host=HOST).checked_size(body, properties, born_ms)


@settings(max_examples=50, deadline=None)
@given(
    records(),
    st.one_of(
        st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9), INT32), min_size=1),
        st.lists(
            st.tuples(st.binary(min_size=5, max_size=5), st.binary(min_size=3, max_size=3), INT32),
            min_size=1,
        ),
    ),
)
def test_a_pattern_writes_many_records_side_by_side(
    record: Record, parts: list[tuple[bytes, bytes, int]]
) -> None:
    record = msgspec.structs.replace(record, version=Version.V1)
    pattern = pattern_of(record)
    sizes = [pattern.fixed_bytes + len(body) + len(text) + 3 for body, text, _ in parts]

    octets = pattern.records(
        BatchColumns(*zip(*parts, strict=True)),
        b"end",
        record.born_ms,
        packed_host(record.born_host),
        7,
        list(accumulate(sizes[:-1], initial=1_000)),
        record.store_ms,
    )

    at = 0
    for index, (body, properties, flag) in enumerate(parts):
        expected = msgspec.structs.replace(
            record,
            body=body,
            body_crc=crc32(body) & CRC_MASK,
            properties=properties + b"end",
            flag=flag,
            queue_offset=QueueOffset(7 + index),
            log_offset=LogOffset(1_000 + at),
        )
        one = encode_record(expected)
        assert octets[at : at + len(one)] == one
        at += len(one)
    assert at == len(octets)
