"""Bit positions and bit maps are those of RocketMQ: both can read each other's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.filter.bloom import bloom_filter, murmur3_low64
from flintmq.filter.sql_eval import compile_sql

GOLDEN = json.loads((Path(__file__).parent / "golden" / "bit_maps.json").read_text())

SHAPE = bloom_filter()


def test_the_shape_follows_from_errors_and_count() -> None:
    assert (SHAPE.hash_count, SHAPE.bit_count) == (3, 112)
    assert (bloom_filter(10, 128).hash_count, bloom_filter(10, 128).bit_count) == (4, 616)
    assert (bloom_filter(1, 1).hash_count, bloom_filter(1, 1).bit_count) == (7, 16)


@pytest.mark.parametrize(
    ("octets", "low64"),
    [
        (b"", 0x0000000000000000),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"hello, world", 0x342FAC623A5EBC8E),
        (b"19 Jan 2038 at 3:14:07 AM", 0xB89E5988B737AFFC),
        (b"The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
    ],
)
def test_the_hash_gives_the_published_values(octets: bytes, low64: int) -> None:
    assert murmur3_low64(octets) == low64


@pytest.mark.parametrize("entry", GOLDEN["filters"], ids=lambda entry: entry["group"])
def test_positions_are_those_a_broker_stored(entry: dict[str, object]) -> None:
    assert list(SHAPE.positions(f"{entry['group']}#{entry['topic']}")) == entry["bitPositions"]


def test_bit_maps_are_those_a_broker_wrote() -> None:
    filters = [
        (compile_sql(entry["expression"]), entry["bitPositions"]) for entry in GOLDEN["filters"]
    ]

    for message in GOLDEN["messages"]:
        stored = bytes.fromhex(message["bitMap"])
        marked = [positions for predicate, positions in filters if predicate.matches(message)]
        assert SHAPE.bit_map(marked) == stored
        for predicate, positions in filters:
            assert SHAPE.may_match(stored, positions) == predicate.matches(message)


def test_a_bit_map_of_another_size_rules_nothing_out() -> None:
    positions = SHAPE.positions("group#topic")

    assert SHAPE.may_match(b"", positions)
    assert SHAPE.may_match(bytes(13), positions)
    assert not SHAPE.may_match(bytes(14), positions)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(), max_size=8))
def test_what_was_marked_is_found(texts: list[str]) -> None:
    marked = [SHAPE.positions(text) for text in texts]

    bit_map = SHAPE.bit_map(marked)

    assert len(bit_map) == 14
    assert all(0 <= position < 112 for positions in marked for position in positions)
    assert all(SHAPE.may_match(bit_map, positions) for positions in marked)
