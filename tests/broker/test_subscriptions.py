"""The text of a subscription decides, and remembering it cannot be used to fill the memory."""

from __future__ import annotations

import pytest

from flintmq.broker import subscriptions
from flintmq.broker.subscriptions import (
    KEPT_CHARACTERS_MAX,
    predicate_of,
    sql_selection,
    tag_selection,
)
from flintmq.errors import InvalidExpression
from flintmq.model.java_hash import java_hash
from flintmq.store.selection import EVERYTHING


@pytest.mark.parametrize("text", [None, "", "*"])
def test_no_text_and_a_star_want_everything(text: str | None) -> None:
    assert tag_selection(text) is EVERYTHING


def test_tags_become_their_hashes() -> None:
    assert tag_selection("A || TagB").tags_codes == frozenset({java_hash("A"), java_hash("TagB")})
    assert tag_selection(" ").tags_codes == frozenset()


def test_separators_alone_are_refused() -> None:
    with pytest.raises(InvalidExpression):
        tag_selection("||")


def test_the_same_text_gives_the_same_selection() -> None:
    assert tag_selection("A || B") is tag_selection("A || B")
    assert sql_selection("a = 1") is sql_selection("a = 1")


def test_sql_that_does_not_compile_wants_everything() -> None:
    assert sql_selection("a >") is EVERYTHING


def test_long_texts_are_read_but_not_kept() -> None:
    caches = (subscriptions._tag_selection, subscriptions._sql_selection, subscriptions._compiled)
    before = [cache.cache_info().currsize for cache in caches]
    tags = "||".join(f"tag{number}" for number in range(KEPT_CHARACTERS_MAX // 4))
    sql = f"a = '{'x' * KEPT_CHARACTERS_MAX}'"

    selection = tag_selection(tags)
    predicate = predicate_of(sql)

    assert selection.tags_codes is not None
    assert len(selection.tags_codes) == KEPT_CHARACTERS_MAX // 4
    assert predicate.matches({"a": "x" * KEPT_CHARACTERS_MAX})
    assert sql_selection(sql).record is not None
    assert [cache.cache_info().currsize for cache in caches] == before
