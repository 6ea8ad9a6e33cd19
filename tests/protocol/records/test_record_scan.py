"""A scan gives for every record what decoding it gives, and stops where decoding would stop."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedRecord
from flintmq.protocol.records.record import (
    Record,
    Version,
    decode_record,
    encode_filler,
    encode_record,
    is_filler,
    is_partial,
    record_size,
)
from flintmq.protocol.records.record_scan import EndKind, RecordColumns, ScanEnd, scan_records
from support.record_examples import (
    BACKWARDS,
    EXAMPLE,
    STORES,
    commit_logs,
    golden_records,
    mutated,
    records,
)

MANY = st.lists(records().map(encode_record), max_size=4).map(b"".join)


def decode_all(buffer: bytes) -> tuple[list[tuple[int, Record]], ScanEnd]:
    """The same as a scan, one record after the other."""
    found: list[tuple[int, Record]] = []
    at = 0
    while at < len(buffer):
        try:
            record = decode_record(buffer, at, verify_crc=False)
        except MalformedRecord as error:
            if "UTF-8" in error.reason:  # a scan does not look at topics
                return found, ScanEnd(EndKind.MALFORMED, at, error.reason)
            if is_filler(buffer, at):
                return found, ScanEnd(EndKind.FILLER, at, "the rest of the file is blank")
            kind = EndKind.PARTIAL if is_partial(buffer, at) else EndKind.MALFORMED
            return found, ScanEnd(kind, at, error.reason)
        found.append((at, record))
        at += record_size(buffer, at)
    return found, ScanEnd(EndKind.WHOLE, at)


def row(columns: RecordColumns, index: int) -> dict[str, object]:
    """One row as the fields of a record, and where its parts are cut from the buffer."""
    values = {
        field.name: getattr(columns, field.name)[index].item()
        for field in dataclasses.fields(columns)
        if field.name not in ("buffer", "end")
    }
    buffer = bytes(columns.buffer)
    for part in ("body", "topic", "properties"):
        start, length = values.pop(f"{part}_start"), values.pop(f"{part}_length")
        values[part] = buffer[start : start + length]
    for host, wide in (("born_host", 16), ("store_host", 32)):
        start = values.pop(f"{host}_start")
        values[host] = buffer[start : start + (20 if values["sys_flag"] & wide else 8)]
    return values


def expected_row(at: int, record: Record) -> dict[str, object]:
    def host(packed: bytes, port: int) -> bytes:
        return packed + port.to_bytes(4, "big", signed=True)

    return {
        "start": at,
        "size_bytes": len(encode_record(record)),
        "is_v2": record.version is Version.V2,
        "body_crc": record.body_crc,
        "queue_id": record.queue_id,
        "flag": record.flag,
        "queue_offset": record.queue_offset,
        "log_offset": record.log_offset,
        "sys_flag": record.sys_flag,
        "born_ms": record.born_ms,
        "born_host": host(record.born_host.packed, record.born_host.port),
        "store_ms": record.store_ms,
        "store_host": host(record.store_host.packed, record.store_host.port),
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
        "body": record.body,
        "topic": record.topic.encode(),
        "properties": record.properties,
    }


def assert_same(buffer: bytes) -> RecordColumns:
    columns = scan_records(buffer)
    found, end = decode_all(buffer)

    for index, (at, record) in enumerate(found):
        assert row(columns, index) == expected_row(at, record)
    if "UTF-8" in end.reason:
        assert len(columns) > len(found)
    else:
        assert len(columns) == len(found)
        assert columns.end == end
    return columns


@settings(max_examples=100, deadline=None)
@given(MANY)
def test_records_of_every_layout_are_scanned_together(buffer: bytes) -> None:
    columns = assert_same(buffer)

    assert columns.end.kind is EndKind.WHOLE


@settings(max_examples=250, deadline=None)
@given(mutated(MANY) | st.binary(max_size=200))
@example(EXAMPLE * 3 + EXAMPLE[:-1])
@example(EXAMPLE + bytes(300))
@example(EXAMPLE + BACKWARDS)
def test_any_bytes_are_scanned_as_they_are_decoded(buffer: bytes) -> None:
    assert_same(buffer)


@pytest.mark.parametrize("length", range(2 * len(EXAMPLE) + 1))
def test_a_tail_that_is_cut_off_is_told_apart(length: int) -> None:
    columns = assert_same((EXAMPLE * 2)[:length])

    whole, rest = divmod(length, len(EXAMPLE))
    assert len(columns) == whole
    assert columns.end.kind is (EndKind.PARTIAL if rest else EndKind.WHOLE)
    assert columns.end.position == whole * len(EXAMPLE)


@pytest.mark.parametrize("size", [8, 90, 91, 500])
def test_a_filler_ends_the_scan(size: int) -> None:
    buffer = EXAMPLE + encode_filler(size).ljust(size, b"\0")

    columns = assert_same(buffer)

    assert (len(columns), columns.end.kind) == (1, EndKind.FILLER)
    assert columns.end.position == len(EXAMPLE)


@pytest.mark.parametrize("at", [0, 4, 38, 84, 90, 92])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_first_bad_record_ends_the_scan_whatever_comes_after(at: int, place: int) -> None:
    buffer = bytearray(EXAMPLE * 3)
    position = place * len(EXAMPLE)
    buffer[position + at : position + at + 2] = b"\xff\xff"

    columns = assert_same(bytes(buffer))

    assert len(columns) == place
    assert columns.end.kind is EndKind.MALFORMED
    assert columns.end.reason


def test_several_bad_records_count_from_the_first() -> None:
    """A later record fails an earlier check: the earlier record still comes first."""
    buffer = bytearray(EXAMPLE * 5)
    buffer[4 * len(EXAMPLE) + 4] = 0  # the magic of the fifth
    buffer[3 * len(EXAMPLE) + 84] = 0xFF  # the body length of the fourth
    buffer[2 * len(EXAMPLE) + 90] = 0xFF  # the topic length of the third
    buffer[1 * len(EXAMPLE) + 93] = 0xFF  # the properties length of the second

    assert len(assert_same(bytes(buffer))) == 1


def test_a_buffer_may_be_any_bytes_like_object() -> None:
    for buffer in (EXAMPLE, bytearray(EXAMPLE), memoryview(b"x" + EXAMPLE)[1:]):
        columns = scan_records(buffer)

        assert row(columns, 0) == expected_row(0, decode_record(EXAMPLE))


def test_nothing_is_scanned_to_no_rows() -> None:
    columns = scan_records(b"")

    assert len(columns) == 0
    assert columns.end == ScanEnd(EndKind.WHOLE, 0)
    assert columns.queue_offset.dtype == np.int64


def test_columns_are_in_native_byte_order() -> None:
    columns = scan_records(EXAMPLE)

    for field in dataclasses.fields(columns):
        if field.name not in ("buffer", "end"):
            assert getattr(columns, field.name).dtype.isnative, field.name


@pytest.mark.parametrize("store", STORES)
def test_real_commit_logs_are_scanned_as_they_are_decoded(store: str) -> None:
    for log in commit_logs(store):
        columns = assert_same(log)

        assert len(columns) > 0
        assert columns.end.kind in (EndKind.FILLER, EndKind.MALFORMED)  # zeros after the last one


def test_golden_records_of_all_brokers_are_scanned_in_one_go() -> None:
    buffer = b"".join(bytes.fromhex(golden["hex"]) for golden in golden_records())

    columns = assert_same(buffer)

    assert len(columns) == len(golden_records())
