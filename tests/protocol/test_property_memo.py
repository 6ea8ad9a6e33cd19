"""Properties that are parsed with a memory are those that are parsed without."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.protocol.properties import parse_properties
from flintmq.protocol.property_memo import KNOWN_MAX, PropertyMemo
from record_examples import property_strings


@settings(max_examples=200)
@given(st.lists(property_strings(), max_size=4))
def test_every_string_means_the_same_with_a_memory(strings: list[bytes]) -> None:
    memo = PropertyMemo({"MAX_OFFSET": "9"})

    for octets in strings * 2:
        assert memo.parse(octets) == parse_properties(octets) | {"MAX_OFFSET": "9"}


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
