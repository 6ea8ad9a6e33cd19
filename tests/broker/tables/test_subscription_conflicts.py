"""Texts that mean the same are no conflict; every other meaning is one, told once."""

from __future__ import annotations

import pytest

from flintmq.broker.tables.subscription_conflicts import ABSENT, conflicts_of, wishes_of
from flintmq.protocol.bodies.client import Subscription
from support.broker.heartbeats import wants


def conflicts(*members: tuple[str, list[Subscription]]) -> list[tuple[str, str, str]]:
    """Topic and both texts of the conflicts of the first member with the others."""
    first, *others = [wishes_of("G", name, subscriptions) for name, subscriptions in members]
    found = conflicts_of("G", first, others)
    return [(each.topic, each.text, each.other_text) for each in found]


@pytest.mark.parametrize(
    ("text", "other"),
    [("*", ""), ("A||B", "B || A"), (" A ", "A"), ("A || A", "A"), ("||", "||")],
)
def test_tags_mean_the_same_in_any_order_and_spacing(text: str, other: str) -> None:
    assert conflicts(("c1", [wants("T", text)]), ("c2", [wants("T", other)])) == []


def test_other_tags_are_a_conflict() -> None:
    found = conflicts(("c1", [wants("T", "B || A")]), ("c2", [wants("T", "A")]))

    assert found == [("T", "A || B", "A")]


def test_sql_differs_from_tags_and_from_other_sql() -> None:
    sql, other = wants("T", "a > 1", sql=True), wants("T", "a > 2", sql=True)

    assert conflicts(("c1", [sql]), ("c2", [other])) == [("T", "SQL92 a > 1", "SQL92 a > 2")]
    assert conflicts(("c1", [sql]), ("c2", [wants("T", "a > 1")])) == [
        ("T", "SQL92 a > 1", "a > 1")
    ]


def test_a_topic_only_one_of_them_wants_is_a_conflict() -> None:
    found = conflicts(("c1", [wants("T")]), ("c2", [wants("U")]))

    assert found == [("T", "*", ABSENT), ("U", ABSENT, "*")]


def test_the_retry_topic_of_the_group_does_not_count_but_that_of_another_does() -> None:
    own = conflicts(("c1", [wants("T"), wants("%RETRY%G")]), ("c2", [wants("T")]))
    other = conflicts(("c1", [wants("T"), wants("%RETRY%H")]), ("c2", [wants("T")]))

    assert own == []
    assert other == [("%RETRY%H", "*", ABSENT)]


def test_the_version_of_a_subscription_does_not_count() -> None:
    assert conflicts(("c1", [wants("T", version=1)]), ("c2", [wants("T", version=2)])) == []


def test_two_connections_of_one_client_are_no_conflict() -> None:
    assert conflicts(("c1", [wants("T", "A")]), ("c1", [wants("T", "B")])) == []


def test_a_thousand_members_of_one_other_meaning_are_one_conflict() -> None:
    others = [(f"d{number}", [wants("T", "B" if number % 2 else "C")]) for number in range(1_000)]

    assert conflicts(("c1", [wants("T", "A")]), *others) == [("T", "A", "C"), ("T", "A", "B")]


def test_a_conflict_names_both_sides() -> None:
    first = wishes_of("G", "c1", [wants("T", "A")])
    (conflict,) = conflicts_of("G", first, [wishes_of("G", "c2", [wants("T", "B")])])

    assert str(conflict) == "G in T: c1 wants 'A', c2 wants 'B'"
