"""A property found in many records at once is the one that parsing each of them finds."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flintmq.model.java_hash import tags_code
from flintmq.protocol.records import property_scan
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.property_scan import Spans, property_spans, tags_codes
from flintmq.protocol.records.record import decode_record, encode_record
from flintmq.protocol.records.record_scan import RecordColumns, scan_records
from support.record_examples import EXAMPLE, STORES, commit_logs, property_strings

NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "k", "ab", "SEVENTH", "EIGHTH_8", "é", "SEVENTEEN_LETTERS")
LONG = "A_NAME_LONGER_THAN_MOST_STRINGS_" * 4


def columns_of(strings: list[bytes], body: bytes = b"hi") -> RecordColumns:
    example_record = decode_record(EXAMPLE)
    octets = [
        encode_record(msgspec.structs.replace(example_record, body=body, properties=string))
        for string in strings
    ]
    columns = scan_records(b"".join(octets))
    assert len(columns) == len(strings)
    return columns


def values(columns: RecordColumns, spans: Spans) -> list[str | None]:
    buffer = bytes(columns.buffer)
    return [
        None if length < 0 else buffer[start : start + length].decode("utf-8", "replace")
        for start, length in zip(spans.start.tolist(), spans.length.tolist(), strict=True)
    ]


def assert_same(columns: RecordColumns, strings: list[bytes], names: tuple[str, ...]) -> None:
    parsed = [parse_properties(string) for string in strings]

    found = property_spans(columns, *names)

    for name, spans in zip(names, found, strict=True):
        assert values(columns, spans) == [properties.get(name) for properties in parsed], name
    if "TAGS" in names:
        codes = tags_codes(columns, found[names.index("TAGS")])
        assert codes.tolist() == [tags_code(properties.get("TAGS")) for properties in parsed]


@settings(max_examples=300, deadline=None)
@given(st.lists(property_strings(NAMES) | st.binary(max_size=30), max_size=6))
@example([b""])
@example([b"TAGS\x01a"])
@example([b"TAGS\x01a\x02"])
@example([b"", b"TAGS\x01a\x02", b""])
@example([b"XTAGS\x011\x02TAGS\x012\x02TAGSX\x013\x02"])
@example([b"X\x01TAGS\x011\x02Y\x01\x01TAGS\x012"])
@example([b"TAGS\x011\x02TAGS\x012\x02TAGS\x01\x02", b"TAGS\x01"])
@example([b"TAGS\x011\x02\x02TAGS\x02TAGS\x01\x01\x02"])
@example([b"k\x01v", b"k\x01", b"k", b"\x01", b"\x02", b"\x02k\x01v\x02\x02"])
@example([b"UNIQ_KEY\x01" + b"A" * 56, b"UNIQ_KEZ\x01A", b"UNIQ_KEY\x02", b"UNIQ_KEY"])
def test_found_as_parsed(strings: list[bytes]) -> None:
    assert_same(columns_of(strings), strings, NAMES)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(property_strings(NAMES), st.integers(0, 3000)), max_size=8))
def test_strings_of_very_different_length_do_not_disturb_each_other(
    made: list[tuple[bytes, int]],
) -> None:
    strings = [string + b"pad\x01" + b"p" * padding for string, padding in made]

    assert_same(columns_of(strings), strings, NAMES)


@settings(max_examples=50, deadline=None)
@given(property_strings(), property_strings())
def test_what_looks_like_a_property_in_a_body_is_none(body: bytes, string: bytes) -> None:
    strings = [string, b"", string]

    assert_same(columns_of(strings, body=body + b"\x02TAGS\x01body"), strings, NAMES)


@pytest.mark.parametrize("rows_bytes", [1, 100, 1000])
def test_strings_are_searched_in_parts(rows_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(property_scan, "ROWS_BYTES", rows_bytes)
    strings = [b"KEYS\x01k%d\x02TAGS\x01t%d" % (n, n % 3) for n in range(50)]

    assert_same(columns_of(strings), strings, NAMES)


def test_a_name_longer_than_every_string_is_in_none() -> None:
    strings = [b"TAGS\x01a\x02", LONG[:16].encode()]

    assert_same(columns_of(strings), strings, (LONG, LONG[:16], "TAGS"))


def test_a_long_name_is_compared_to_its_end() -> None:
    near = LONG[:-1] + "x"
    strings = [f"{LONG}\x01v\x02".encode(), f"{near}\x01v\x02".encode(), f"{LONG}x\x01v".encode()]

    assert_same(columns_of(strings), strings, (LONG,))


def test_a_name_that_goes_on_like_the_rows_is_not_read_past_their_end() -> None:
    """Between two rows of this string stands the low byte of its length."""
    string = b"A" * 30
    endless = "A" * 30 + "\x1e" + "A" * 30 + "\x1e" + "A" * 30

    assert_same(columns_of([string]), [string], (endless, "A" * 20, "A"))


@pytest.mark.parametrize("longer", range(5))
def test_what_follows_the_last_separator_is_not_looked_at(longer: int) -> None:
    """Beyond the last row is a copy of it, which here starts as a tag would."""
    strings = [b"x\x01" + b"y" * (40 + longer) + b"\x02", b"k\x01v\x02"]

    assert_same(columns_of(strings, body=b"TAGS\x01" * 20), strings, NAMES)


def test_one_long_string_does_not_make_all_rows_wide() -> None:
    widths = np.array([32_768, *range(50, 300), 5_000, 9_000])

    groups = list(property_scan._groups(widths))

    assert sorted(np.concatenate([rows for rows, _ in groups]).tolist()) == list(range(len(widths)))
    assert all((widths[rows] <= width).all() for rows, width in groups)
    copied_bytes = sum(len(rows) * width for rows, width in groups)
    assert copied_bytes <= 2 * widths.sum() + property_scan.NARROW_BYTES * len(widths)


def test_the_first_string_may_be_wider_than_all_before_it() -> None:
    """The row of a short first record would begin before the buffer does."""
    strings = [b"TAGS\x01a\x02", b"TAGS\x01b\x02x\x01" + b"y" * 200]

    assert_same(columns_of(strings), strings, NAMES)


@pytest.mark.parametrize(
    "tag",
    ["a", "x" * 64, "x" * 65, "x" * 500, "étiquette", "😀", "x" * 63 + "é", "\x00\x00a", "~" * 64],
)
def test_tags_of_every_kind_have_their_code(tag: str) -> None:
    strings = [f"TAGS\x01{tag}\x02".encode(), b"TAGS\x01TagA\x02", b"KEYS\x01k\x02"]
    columns = columns_of(strings)
    (tags,) = property_spans(columns, "TAGS")

    codes = tags_codes(columns, tags)

    assert codes.tolist() == [tags_code(tag), 2598919, 0]


def test_no_records_have_no_properties() -> None:
    columns = scan_records(b"")

    (tags,) = property_spans(columns, "TAGS")

    assert len(tags.start) == len(tags.length) == len(tags_codes(columns, tags)) == 0
    assert property_spans(columns_of([b"TAGS\x01a"])) == []


@pytest.mark.parametrize("name", ["", "a\x01b", "\x01", "a\x02"])
def test_what_can_be_no_name_is_a_mistake_of_the_caller(name: str) -> None:
    with pytest.raises(AssertionError):
        property_spans(columns_of([b""]), name)


@pytest.mark.parametrize("store", STORES)
def test_properties_of_real_records_are_found(store: str) -> None:
    for log in commit_logs(store):
        columns = scan_records(log)
        strings = [
            log[start : start + length]
            for start, length in zip(
                columns.properties_start.tolist(), columns.properties_length.tolist(), strict=True
            )
        ]

        assert_same(
            columns, strings, ("TAGS", "KEYS", "UNIQ_KEY", "CLUSTER", "REAL_TOPIC", "price")
        )
