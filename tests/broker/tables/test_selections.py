"""The text of a subscription decides, and remembering it cannot be used to fill the memory."""

from __future__ import annotations

import pytest

from flintmq.broker.limits.text_cache import TextCache
from flintmq.broker.tables.selections import (
    TAGS_CHARACTERS_MAX,
    TAGS_MAX,
    predicate_of,
    sql_selection,
    tag_selection,
)
from flintmq.errors import ExpressionTooLarge, InvalidExpression
from flintmq.filter import sql_eval
from flintmq.model.java_hash import java_hash
from flintmq.store.queues.selection import EVERYTHING


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


def test_a_text_is_compiled_once_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_sql = sql_eval.compile_sql

    def counted(text: str) -> sql_eval.SqlPredicate:
        compiled.append(text)
        return compile_sql(text)

    monkeypatch.setattr(sql_eval, "compile_sql", counted)
    good, bad = f"a = '{'x' * 9_000}'", "a = 5 OR " * 200

    for _ in range(3):
        assert predicate_of(good).matches({"a": "x" * 9_000})
        assert sql_selection(bad) is EVERYTHING
        with pytest.raises(InvalidExpression):
            predicate_of(bad)

    assert compiled == [good, bad]


def test_more_tags_than_a_subscription_may_have_are_refused_unread() -> None:
    most = "||".join(f"t{number}" for number in range(TAGS_MAX))

    selection = tag_selection(most)

    assert selection.tags_codes is not None
    assert len(selection.tags_codes) == TAGS_MAX
    for text in (most + "||one", "x" * (TAGS_CHARACTERS_MAX + 1)):
        with pytest.raises(ExpressionTooLarge):
            tag_selection(text)


def test_sql_over_the_limits_is_no_subscription_to_everything() -> None:
    with pytest.raises(ExpressionTooLarge):
        sql_selection(" OR ".join(["a = 5"] * 1_000))


def test_what_is_remembered_of_texts_is_limited_and_what_is_asked_for_stays() -> None:
    cache: TextCache[int] = TextCache(10_000)
    cache.put("asked for", 1)

    for number in range(1_000):
        cache.put(f"{number:0100}", number)
        assert cache.get("asked for") == 1
        assert cache.characters <= 10_000

    assert "0" * 100 not in cache
    cache.put("x" * 6_000, 2)
    assert cache.get("x" * 6_000) is None


def test_a_costly_test_sees_fewer_records_in_one_read() -> None:
    assert sql_selection("a = 5").cost == 1
    assert sql_selection(" OR ".join(["a = 5"] * 500)).cost > 10
