"""A property string is read by the rules every RocketMQ client reads it by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError
from flintmq.protocol.records.properties import (
    PROPERTIES_BYTES_MAX,
    encode_properties,
    format_properties,
    parse_properties,
    split_unique_id,
)
from support.record_examples import property_strings

NAMES = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
VALUES = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1)
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=6)


def parse_by_definition(text: str) -> dict[str, str]:
    """The rules as they are written down, one character after the other."""
    found = {}
    for piece in text.split("\x02"):
        mark = piece.find("\x01")
        if len(piece) >= 3 and mark >= 1 and mark != len(piece) - 1:
            found[piece[:mark]] = piece[mark + 1 :]
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("a\x01b\x02\x02c\x01d\x02", {"a": "b", "c": "d"}),
        ("a\x01\x02c\x01d\x02", {"c": "d"}),
        ("\x01b\x02c\x01d\x02", {"c": "d"}),
        ("ab\x02c\x01d\x02", {"c": "d"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x01\x01\x02", {"a": "\x01"}),
        ("a\x011\x02a\x012\x02", {"a": "2"}),
        ("a\x011\x02a\x01\x02", {"a": "1"}),
        ("名\x01值", {"名": "值"}),
    ],
)
def test_reading(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == parse_properties(text.encode()) == expected


@settings(max_examples=300, deadline=None)
@given(property_strings() | st.binary(max_size=40))
def test_any_bytes_are_read_as_defined(octets: bytes) -> None:
    assert parse_properties(octets) == parse_by_definition(octets.decode("utf-8", "replace"))


@settings(max_examples=200, deadline=None)
@given(PROPERTIES, st.booleans())
def test_what_is_written_is_read_again(properties: dict[str, str], trailing: bool) -> None:
    text = format_properties(properties, trailing_separator=trailing)

    assert parse_properties(text) == properties
    assert encode_properties(properties, trailing_separator=trailing) == text.encode()


def test_the_trailing_separator_depends_on_the_version() -> None:
    properties = {"a": "1", "b": "2"}

    assert format_properties(properties) == "a\x011\x02b\x012\x02"
    assert format_properties(properties, trailing_separator=False) == "a\x011\x02b\x012"
    assert format_properties({}, trailing_separator=False) == ""


@pytest.mark.parametrize(
    "properties",
    [{"a\x02": "b"}, {"a": "b\x02"}, {"a\x01": "b"}, {"x": "y", "a": "\x02", "b": "c"}],
)
def test_what_would_be_torn_apart_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError):
        format_properties(properties)


def test_what_does_not_fit_a_record_is_refused() -> None:
    encode_properties({"a": "x" * (PROPERTIES_BYTES_MAX - 3)})

    with pytest.raises(LocalProtocolError):
        encode_properties({"a": "x" * (PROPERTIES_BYTES_MAX - 2)})
    with pytest.raises(LocalProtocolError):
        encode_properties({"a": "\ud83d"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A\x011\x02UNIQ_KEY\x012\x02B\x013\x02", ("A\x011\x02", "2", "B\x013\x02")),
        ("UNIQ_KEY\x012\x02", ("", "2", "")),
        ("UNIQ_KEY\x012", ("", "2", "")),
        ("A\x011\x02UNIQ_KEY\x01", ("A\x011\x02", "", "")),
        ("UNIQ_KEY\x012\x02UNIQ_KEY\x013\x02", None),
        ("UNIQ_KEY\x012\x02A\x01UNIQ_KEY\x013\x02", None),
        ("XUNIQ_KEY\x011\x02", None),
        ("UNIQ_KEYX\x011\x02", None),
        ("", None),
    ],
)
def test_a_string_is_split_at_its_one_unique_id(
    text: str, expected: tuple[str, str, str] | None
) -> None:
    found = split_unique_id(text.encode())

    assert found == (None if expected is None else tuple(part.encode() for part in expected))


@settings(max_examples=200, deadline=None)
@given(property_strings())
def test_what_is_around_the_unique_id_means_the_same_without_it(octets: bytes) -> None:
    found = split_unique_id(octets)
    if found is None:
        return
    before, unique_id, after = found
    expected = parse_properties(octets)

    assert expected.pop("UNIQ_KEY", "") == unique_id.decode("utf-8", "replace")
    assert parse_properties(before + after) == expected
