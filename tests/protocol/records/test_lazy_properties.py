"""Properties that are parsed with a memory are those that are parsed without."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.protocol.records.lazy_properties import KNOWN_MAX, LaterProperties, PropertyMemo
from flintmq.protocol.records.properties import parse_properties
from support.record_examples import property_strings


@settings(max_examples=200)
@given(st.lists(property_strings(), max_size=4))
def test_every_string_means_the_same_with_a_memory(strings: list[bytes]) -> None:
    memo = PropertyMemo({"MAX_OFFSET": "9"})

    for octets in strings * 2:
        assert memo.parse(octets) == parse_properties(octets) | {"MAX_OFFSET": "9"}


@settings(max_examples=200)
@given(property_strings())
def test_the_unique_id_alone_is_the_one_of_all_properties(octets: bytes) -> None:
    later = LaterProperties(octets, PropertyMemo({}))

    assert later.get("UNIQ_KEY") == parse_properties(octets).get("UNIQ_KEY")


@pytest.mark.parametrize(
    ("octets", "unique_id", "is_parsed"),
    [
        (b"a\x01b\x02UNIQ_KEY\x011F\x02c\x01d\x02", "1F", False),
        (b"UNIQ_KEY\x011F", "1F", False),
        (b"UNIQ_KEY\x011F\x02UNIQ_KEY\x012F\x02", "2F", True),
        (b"MY_UNIQ_KEY\x011F\x02UNIQ_KEY\x012F\x02", "2F", True),
        (b"UNIQ_KEY\x01\x02", None, True),
        (b"a\x01b\x02", None, True),
    ],
)
def test_for_a_plain_unique_id_nothing_is_parsed(
    octets: bytes, unique_id: str | None, is_parsed: bool
) -> None:
    later = LaterProperties(octets, PropertyMemo({}))

    assert later.get("UNIQ_KEY") == unique_id
    assert (later._found is not None) == is_parsed


def test_what_repeats_is_parsed_once() -> None:
    memo = PropertyMemo({})
    strings = [b"TAGS\x01a\x02UNIQ_KEY\x01%d\x02WAIT\x01true\x02" % n for n in range(9)]

    found = [memo.parse(octets) for octets in strings]

    assert [each["UNIQ_KEY"] for each in found] == [str(n) for n in range(9)]
    assert len(memo._known) == 1


def test_messages_do_not_share_their_properties() -> None:
    memo = PropertyMemo({})
    first, second = (memo.parse(b"a\x01b\x02UNIQ_KEY\x01%d" % n) for n in range(2))

    first["a"] = "changed"

    assert second["a"] == "b"


def test_the_memory_is_limited() -> None:
    memo = PropertyMemo({})

    for number in range(KNOWN_MAX + 10):
        octets = b"KEYS\x01%d\x02UNIQ_KEY\x01x\x02" % number
        assert memo.parse(octets) == {"KEYS": str(number), "UNIQ_KEY": "x"}

    assert len(memo._known) == KNOWN_MAX


def later(octets: bytes) -> LaterProperties:
    return LaterProperties(octets, PropertyMemo({"MAX_OFFSET": "9"}))


def test_properties_are_parsed_at_the_first_look_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    parse = PropertyMemo.parse

    def counted(memo: PropertyMemo, octets: bytes) -> dict[str, str]:
        asked.append(octets)
        return parse(memo, octets)

    monkeypatch.setattr(PropertyMemo, "parse", counted)
    properties = later(b"a\x01b\x02")
    assert asked == []

    assert (properties["a"], properties.get("c"), properties.get("c", "d")) == ("b", None, "d")
    assert asked == [b"a\x01b\x02"]


@settings(max_examples=50)
@given(property_strings())
def test_they_are_the_mapping_that_a_dict_of_them_is(octets: bytes) -> None:
    expected = parse_properties(octets) | {"MAX_OFFSET": "9"}
    properties = later(octets)

    assert isinstance(properties, Mapping)
    assert properties == expected
    assert expected == properties
    assert properties == later(octets)
    assert dict(properties) == {**properties} == dict(properties.items()) == expected
    assert (set(properties), len(properties)) == (set(expected), len(expected))
    assert properties.keys() == expected.keys()
    assert sorted(properties.values()) == sorted(expected.values())
    assert properties | {"z": "1"} == expected | {"z": "1"}
    assert {"MAX_OFFSET": "1", "z": "1"} | properties == {"z": "1"} | expected
    assert repr(properties) == repr(dict(properties))
    assert "MAX_OFFSET" in properties
    assert "\x02" not in properties


def test_they_differ_from_what_is_no_mapping_or_another_one() -> None:
    properties = later(b"a\x01b\x02")

    assert properties != {"a": "b"}
    assert properties != [("a", "b"), ("MAX_OFFSET", "9")]


def test_what_is_pickled_is_a_plain_dict() -> None:
    copy = pickle.loads(pickle.dumps(later(b"a\x01b\x02")))

    assert type(copy) is dict
    assert copy == {"a": "b", "MAX_OFFSET": "9"}
