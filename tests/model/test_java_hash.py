"""Hashes are those of Java's ``String.hashCode``, for any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.model.java_hash import java_hash, tags_code


def hash_by_definition(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    folded = 0
    for at in range(0, len(units), 2):
        folded = (31 * folded + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return folded - 2**32 if folded >= 2**31 else folded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("Aa", 2112),
        ("BB", 2112),
        ("T#k1", 2539445),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_known_values(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=20) | st.text(st.characters(max_codepoint=127), max_size=200))
def test_any_text_hashes_as_defined(text: str) -> None:
    assert java_hash(text) == hash_by_definition(text)


@pytest.mark.parametrize("length", [8, 9, 63, 64, 65, 127, 128, 129])
def test_the_largest_characters_do_not_run_over_their_lanes(length: int) -> None:
    text = "\x7f" * length

    assert java_hash(text) == hash_by_definition(text)


def test_a_character_outside_the_first_plane_counts_as_its_two_surrogates() -> None:
    assert java_hash("😀") == java_hash("\ud83d\ude00") == 1772899


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_a_text_can_be_hashed_in_two_parts(first: str, second: str) -> None:
    assert java_hash(second, java_hash(first)) == java_hash(first + second)


def test_no_tag_has_the_code_zero() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919
