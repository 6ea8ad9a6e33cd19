"""A record drafted and then stamped has the bytes of the same record written at once."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError
from flintmq.model.host import Host
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.checksum import crc32
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX
from flintmq.protocol.records.record import (
    CRC_MASK,
    RECORD_BYTES_MAX,
    Record,
    Version,
    decode_record,
    encode_record,
)
from flintmq.protocol.records.record_draft import (
    RecordPattern,
    draft_record,
    packed_host,
    stamp_record,
)
from support.record_examples import INT32, INT64, records

HOST = Host.parse("10.0.0.1:10911")


def draft(record: Record, **other: Any) -> bytearray:
    fields: dict[str, Any] = {
        "topic": record.topic,
        "body": record.body,
        "properties": record.properties,
        "queue_id": record.queue_id,
        "born_ms": record.born_ms,
        "born_host": record.born_host,
        "store_host": record.store_host,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
    }
    return draft_record(**(fields | other))


@settings(max_examples=200, deadline=None)
@given(records(), st.integers(0, 20))
def test_a_stamped_draft_is_the_whole_record(record: Record, at: int) -> None:
    record = msgspec.structs.replace(record, version=Version.V1)
    buffer = bytearray(at) + draft(record)

    stamp_record(buffer, at, record.queue_offset, record.log_offset, record.store_ms)

    assert bytes(buffer[:at]) == bytes(at)
    assert bytes(buffer[at:]) == encode_record(record)


@settings(max_examples=100, deadline=None)
@given(records())
def test_an_unstamped_draft_has_its_late_fields_zero(record: Record) -> None:
    drafted = decode_record(draft(record))

    assert (drafted.queue_offset, drafted.log_offset, drafted.store_ms) == (0, 0, 0)


@settings(max_examples=100, deadline=None)
@given(records(), INT32)
def test_the_bits_for_wide_hosts_are_the_drafts_own_affair(record: Record, sys_flag: int) -> None:
    drafted = decode_record(draft(record, sys_flag=sys_flag))

    assert drafted.sys_flag & ~48 == sys_flag & ~48
    assert drafted.born_host == record.born_host
    assert drafted.store_host == record.store_host


@settings(max_examples=50, deadline=None)
@given(records(), INT64, INT64, INT64)
def test_a_record_can_be_stamped_again(record: Record, queue: int, log: int, now_ms: int) -> None:
    buffer = draft(record)
    stamp_record(buffer, 0, 1, 2, 3)

    stamp_record(memoryview(buffer), 0, queue, log, now_ms)

    stamped = decode_record(buffer)
    assert stamped.queue_offset == QueueOffset(queue)
    assert stamped.log_offset == LogOffset(log)
    assert stamped.store_ms == now_ms


@pytest.mark.parametrize(
    ("topic", "version"),
    [("x" * 127, Version.V1), ("x" * 128, Version.V2), ("é" * 64, Version.V2)],
)
def test_only_a_topic_too_long_for_v1_makes_a_v2_record(topic: str, version: Version) -> None:
    drafted = draft_record(topic, b"", b"", queue_id=0, born_ms=0, born_host=HOST, store_host=HOST)

    assert decode_record(drafted).version is version
    assert decode_record(drafted).topic == topic


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "x" * 32_768},
        {"topic": "\ud83d"},
        {"properties": bytes(PROPERTIES_BYTES_MAX + 1)},
        {"body": bytes(RECORD_BYTES_MAX)},
        {"queue_id": 2**31},
        {"born_ms": 2**63},
    ],
)
def test_what_the_format_cannot_hold_is_not_drafted(fields: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "topic": "T",
        "body": b"",
        "properties": b"",
        "queue_id": 0,
        "born_ms": 0,
        "born_host": HOST,
        "store_host": HOST,
    }

    with pytest.raises(LocalProtocolError):
        draft_record(**(good | fields))


def pattern_of(record: Record) -> RecordPattern:
    return RecordPattern(
        record.topic,
        queue_id=record.queue_id,
        born_host=Host(bytes(len(record.born_host.packed)), 0),
        store_host=record.store_host,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
    )


@settings(max_examples=200, deadline=None)
@given(records())
def test_a_pattern_writes_the_whole_record_at_once(record: Record) -> None:
    record = msgspec.structs.replace(record, version=Version.V1, prepared_offset=0)

    octets = pattern_of(record).record(
        record.body,
        record.properties,
        record.born_ms,
        packed_host(record.born_host),
        record.queue_offset,
        record.log_offset,
        record.store_ms,
    )

    assert octets == encode_record(record)


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
    record = msgspec.structs.replace(record, version=Version.V1, prepared_offset=0)
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
