"""A tag subscription selects by hash at the broker and by text at the consumer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidExpression
from flintmq.filter.tags import parse_tags
from flintmq.model.java_hash import java_hash


@pytest.mark.parametrize("text", [None, "", "*"])
def test_nothing_and_a_star_mean_everything(text: str | None) -> None:
    subscription = parse_tags(text)

    assert subscription.text == "*"
    assert subscription.takes_all
    assert subscription.matches_code(0)
    assert subscription.matches_code(java_hash("any"))
    assert subscription.matches_tag("any")
    assert subscription.matches_tag(None)


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("TagA", {"TagA"}),
        ("TagA||TagB", {"TagA", "TagB"}),
        (" TagA  ||\tTagB\n", {"TagA", "TagB"}),
        ("TagA || TagA", {"TagA"}),
        ("TagA||", {"TagA"}),
        ("||TagA", {"TagA"}),
        ("TagA|| ||TagB", {"TagA", "TagB"}),
        ("a|b", {"a|b"}),
        ("a|||b", {"a", "|b"}),
        ("two words", {"two words"}),
        ("TagA || *", {"TagA", "*"}),
        (" * ", {"*"}),
        ("\u3000x\u3000", {"\u3000x\u3000"}),  # trimmed are only characters up to the blank
    ],
)
def test_tags_stand_between_separators(text: str, tags: set[str]) -> None:
    subscription = parse_tags(text)

    assert subscription.text == text
    assert subscription.tags == tags
    assert subscription.codes == {java_hash(tag) for tag in tags}
    assert not subscription.takes_all


@pytest.mark.parametrize("text", ["||", "||||", "||||||"])
def test_separators_alone_are_refused(text: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse_tags(text)

    assert refused.value.column == 1


@pytest.mark.parametrize("text", [" ", "|| ", " || "])
def test_blanks_match_nothing_at_the_broker_and_all_at_the_consumer(text: str) -> None:
    subscription = parse_tags(text)

    assert subscription.tags == frozenset()
    assert not subscription.matches_code(0)
    assert not subscription.matches_code(java_hash("TagA"))
    assert subscription.matches_tag("TagA")


def test_the_code_of_a_tag_is_its_java_hash() -> None:
    assert parse_tags("TagA").codes == {2598919}


def test_colliding_tags_pass_the_broker_and_not_the_consumer() -> None:
    subscription = parse_tags("Aa")

    assert subscription.matches_code(java_hash("BB"))
    assert not subscription.matches_tag("BB")
    assert subscription.matches_tag("Aa")


def test_a_message_without_a_tag_does_not_match_a_tag() -> None:
    subscription = parse_tags("TagA")

    assert not subscription.matches_code(0)
    assert not subscription.matches_tag(None)
    assert not subscription.matches_tag("")


def test_a_code_that_is_not_known_matches() -> None:
    assert parse_tags("TagA").matches_code(None)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(min_codepoint=0x21, exclude_characters="|"), min_size=1))
def test_a_tag_matches_its_own_code_in_every_width(tag: str) -> None:
    subscription = parse_tags(f"other || {tag}")
    code = java_hash(tag)

    assert subscription.matches_tag(tag)
    assert subscription.matches_code(code)
    assert subscription.matches_code(code & 0xFFFF_FFFF)  # the low 32 bits count
    assert subscription.matches_code(code + (7 << 32))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="|a* \t", max_size=8) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        subscription = parse_tags(text)
    except InvalidExpression:
        assert set(text) == {"|"}
    else:
        assert all(tag and tag.strip(" \t") == tag for tag in subscription.tags)
