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
    remove_property,
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
    ("before", "after"),
    [
        ("A\x011\x02POP_CK\x012\x02B\x013\x02", "A\x011\x02B\x013\x02"),
        ("POP_CK\x012\x02", ""),
        ("POP_CK\x012", ""),
        ("POP_CK\x012\x02POP_CK\x013\x02A\x011", "A\x011"),
        ("A\x011\x02POP_CK\x012", "A\x011\x02"),
        ("XPOP_CK\x011\x02A\x01POP_CK\x01\x02", "XPOP_CK\x011\x02A\x01POP_CK\x01\x02"),
        ("POP_CKX\x011\x02POP_CK\x02", "POP_CKX\x011\x02POP_CK\x02"),
    ],
)
def test_only_whole_pieces_are_removed(before: str, after: str) -> None:
    assert remove_property(before.encode(), "POP_CK") == after.encode()


@settings(max_examples=200, deadline=None)
@given(property_strings(), st.sampled_from(["TAGS", "KEYS", "k", "X.", "TAGS\n"]))
def test_removing_takes_the_name_and_nothing_else(octets: bytes, name: str) -> None:
    expected = parse_properties(octets)
    expected.pop(name, None)

    assert parse_properties(remove_property(octets, name)) == expected
