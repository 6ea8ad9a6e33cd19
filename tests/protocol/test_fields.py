"""Typed headers and extFields say the same, under the rules of a Java peer."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from flintmq.errors import LocalProtocolError, MalformedHeader
from flintmq.protocol.fields import (
    NO_FIELDS,
    Header,
    Int32,
    Int64,
    header_fields,
    read_fields,
    read_header,
    truths_of,
    write_fields,
    write_header,
)
from support.strategies import bent, field_maps, headers_of


class Sample(Header, frozen=True, kw_only=True):
    """One attribute of every kind there is."""

    topic_name: str
    count: Int32
    offset: Int64 = 7
    ready: bool = False
    note: str | None = None
    limit: Int32 | None = None
    forced: bool | None = None
    renamed: str | None = msgspec.field(default=None, name="ODD_NAME")


LEAST: dict[str, Any] = {"topicName": "t", "count": "1"}


def read(**fields: Any) -> Sample:
    return read_header(Sample, Raw(json.dumps(LEAST | fields).encode()))


def test_wire_names_are_camel_case_unless_they_say_otherwise() -> None:
    header = Sample(topic_name="t", count=1, note="n", renamed="r")

    assert header_fields(header) == {
        "topicName": "t",
        "count": "1",
        "offset": "7",
        "ready": "false",
        "note": "n",
        "ODD_NAME": "r",
    }


def test_what_is_none_is_not_written() -> None:
    assert "limit" not in header_fields(Sample(topic_name="t", count=1))


def test_everything_is_written_as_text() -> None:
    header = Sample(topic_name="t", count=-5, ready=True, limit=0, forced=False)

    written = json.loads(bytes(write_header(header)))

    assert written == {
        "topicName": "t",
        "count": "-5",
        "offset": "7",
        "ready": "true",
        "limit": "0",
        "forced": "false",
    }


def test_a_header_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Sample(topic_name="t", count=1).count = 2  # type: ignore[misc]


@pytest.mark.parametrize("value", ["5", 5, "+5", "05", "0000000005", 5.0])
def test_a_number_is_read_however_it_is_spelt(value: object) -> None:
    assert read(count=value).count == 5


@pytest.mark.parametrize(
    "value",
    [
        "five",
        "5 ",
        " 5",
        "5five",
        "0x5",
        "1_0",
        "\u0665",
        "--5",
        "-",
        "NaN",
        "true",
        True,
        5.5,
        "9" * 9999,
    ],
)
def test_what_is_no_number_names_its_field(value: object) -> None:
    with pytest.raises(MalformedHeader) as caught:
        read(count=value)

    assert caught.value.field == "count"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, str(2**31), 10**30, "1" + "0" * 70])
def test_a_number_out_of_range_names_its_field(value: object) -> None:
    with pytest.raises(MalformedHeader) as caught:
        read(count=value)

    assert caught.value.field == "count"


def test_a_number_of_too_many_digits_is_an_error_of_ours() -> None:
    bare = b'{"topicName":"t","count":' + b"9" * 10_000 + b"}"

    with pytest.raises(MalformedHeader):
        read_header(Sample, Raw(bare))


def test_both_ends_of_both_ranges_are_in() -> None:
    for bounds, name in (((-(2**31), 2**31 - 1), "count"), ((-(2**63), 2**63 - 1), "offset")):
        for number in bounds:
            assert getattr(read(**{name: number}), name) == number
            assert getattr(read(**{name: str(number)}), name) == number


@pytest.mark.parametrize("value", [None, "", {}, [], {"a": [1]}])
def test_null_nested_and_empty_count_as_absent_numbers(value: object) -> None:
    assert read(limit=value, offset=value) == read()
    with pytest.raises(MalformedHeader, match="is missing"):
        read(count=value)


@pytest.mark.parametrize("value", ["true", "TRUE", "True", True])
def test_true_in_any_case_is_true(value: object) -> None:
    assert (read(ready=value).ready, read(forced=value).forced) == (True, True)


@pytest.mark.parametrize("value", ["false", "1", 1, "0", 0, "yes", "", False, "t", 1.0])
def test_anything_else_is_false(value: object) -> None:
    """C++ clients write 0 and 1, and a Java peer reads both as false."""
    assert (read(ready=value).ready, read(forced=value).forced) == (False, False)


@pytest.mark.parametrize("value", [5, True, 1.5, -(10**30)])
def test_a_number_or_truth_becomes_text_where_text_is_wanted(value: object) -> None:
    assert read(note=value).note == str(value).replace("True", "true")


def test_the_text_null_is_text_where_text_is_wanted() -> None:
    header = read(note="null", limit="null", forced="NULL", ready="null")

    assert header == read(note="null")


def test_an_empty_text_is_kept() -> None:
    assert read(note="").note == ""


@pytest.mark.parametrize("name", ["topicName", "count"])
def test_a_missing_field_is_named(name: str) -> None:
    fields = {key: value for key, value in LEAST.items() if key != name}

    with pytest.raises(MalformedHeader) as caught:
        read_header(Sample, write_fields(fields))

    assert (caught.value.field, caught.value.reason) == (name, "is missing")


def test_unknown_fields_are_ignored() -> None:
    assert read(zz="1", AccessKey="", deep={"a": [[]]}) == read()


def test_of_two_fields_with_one_name_the_last_wins() -> None:
    twice = Raw(b'{"topicName":"a","count":"1","topicName":"b","count":"2"}')

    assert read_header(Sample, twice) == Sample(topic_name="b", count=2)
    assert read_fields(twice) == {"topicName": "b", "count": "2"}


@pytest.mark.parametrize(
    "fields",
    [
        b'{"topicName":"\xff","count":"1"}',
        b'{"topicName":"\\ud800","count":"1"}',
        b'{"topicName":"t","count":"1","zz":' + b"[" * 100_000,
        b'{"zz":' + b'{"a":' * 100_000,
        b'{"topicName":"t","count":NaN}',
        b"[]",
        b"",
    ],
)
def test_what_is_no_json_of_fields_is_an_error_of_ours(fields: bytes) -> None:
    with pytest.raises(MalformedHeader):
        read_header(Sample, Raw(fields))
    with pytest.raises(MalformedHeader):
        read_fields(Raw(fields))


def test_fields_are_told_as_a_java_peer_shows_them() -> None:
    fields = Raw(b'{"a":5,"b":true,"c":false,"d":"x","e":null,"f":{},"g":[1],"h":1.5}')

    assert read_fields(fields) == {"a": "5", "b": "true", "c": "false", "d": "x", "h": "1.5"}


def test_text_that_utf8_cannot_carry_is_not_written() -> None:
    with pytest.raises(LocalProtocolError):
        write_fields({"a": "\ud800"})
    with pytest.raises(LocalProtocolError):
        write_header(Sample(topic_name="\ud800", count=1))


def test_no_fields_are_an_empty_object() -> None:
    assert read_fields(NO_FIELDS) == {}
    assert bytes(write_fields({})) == bytes(NO_FIELDS)


def test_the_booleans_of_a_header_are_found() -> None:
    class Plain(Header, frozen=True, kw_only=True):
        count: Int32

    truths = truths_of(Sample)

    assert truths is not None
    assert True in truths(Sample(topic_name="t", count=1, forced=True))
    assert True not in truths(Sample(topic_name="t", count=1))
    assert truths_of(Plain) is None


@settings(max_examples=200, deadline=None)
@given(field_maps())
def test_any_text_survives(fields: dict[str, str]) -> None:
    assert read_fields(write_fields(fields)) == fields


@settings(max_examples=200, deadline=None)
@given(headers_of(Sample))
def test_any_header_survives(header: Sample) -> None:
    assert read_header(Sample, write_header(header)) == header


@settings(max_examples=100, deadline=None)
@given(headers_of(Sample).flatmap(lambda h: st.tuples(st.just(h), bent(header_fields(h)))))
def test_other_spellings_of_a_header_are_the_same_header(
    both: tuple[Sample, dict[str, Any]],
) -> None:
    header, spelling = both

    assert read_header(Sample, Raw(msgspec.json.encode(spelling))) == header
