"""Text becomes the tree it says; what RocketMQ refuses is refused, at the column that is wrong."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lark import Token

from flintmq.errors import ExpressionTooLarge, InvalidExpression
from flintmq.filter import sql_parse
from flintmq.filter.sql_parse import (
    EXPRESSION_CHARS_MAX,
    NESTING_MAX,
    OPERATIONS_MAX,
    WORDS_MAX,
    Parsed,
    parse_sql,
)
from flintmq.filter.sql_tokens import scan
from flintmq.filter.sql_tree import (
    AllOf,
    AnyOf,
    Between,
    Constant,
    Equal,
    Flag,
    IsNull,
    Negative,
    Node,
    Not,
    OneOf,
    Ordered,
    Property,
    Search,
)
from support.filter.sql_rules import REFUSALS
from support.filter.sql_strategies import conditions, spelled

A, B, C = Property("a"), Property("b"), Property("c")
FIVE = Constant(5)


def parsed_or_refused(text: str) -> Parsed | InvalidExpression:
    try:
        return parse_sql(text)
    except InvalidExpression as refused:
        return refused


TREES: dict[str, Node] = {
    "a": Flag("a"),
    "a = 5": Equal(A, FIVE),
    "a <> 5": Not(Equal(A, FIVE)),
    "a = b = 5": Equal(Equal(A, B), FIVE),
    "a = b > 5": Equal(A, Ordered(B, ">", FIVE)),
    "a <= -5": Ordered(A, "<=", Negative(FIVE)),
    "+a > +5": Ordered(A, ">", FIVE),
    "a is null": IsNull(A),
    "a IS NOT NULL": Not(IsNull(A)),
    "a = 5 IS NULL": IsNull(Equal(A, FIVE)),
    "a BETWEEN 5 AND b": Between(A, FIVE, B, inside=True),
    "a NOT BETWEEN 5 AND b": Between(A, FIVE, B, inside=False),
    "a IN ('x','y','x')": OneOf("a", frozenset("xy")),
    "a NOT IN ('x')": Not(OneOf("a", frozenset("x"))),
    "a contains 'x'": Search(A, "CONTAINS", "x", found=True),
    "a NOT EndsWith ''''": Search(A, "ENDSWITH", "'", found=False),
    "NOT a": Not(Flag("a")),
    "NOT a = TRUE": Equal(Not(Flag("a")), Constant(value=True)),
    "a AND b OR c": AnyOf((AllOf((Flag("a"), Flag("b"))), Flag("c"))),
    "a AND (b OR c)": AllOf((Flag("a"), AnyOf((Flag("b"), Flag("c"))))),
    "a OR b OR c": AnyOf((Flag("a"), Flag("b"), Flag("c"))),
    "((a)) = (5)": Equal(A, FIVE),
}


@pytest.mark.parametrize(("text", "tree"), TREES.items(), ids=TREES.keys())
def test_text_becomes_its_tree(text: str, tree: Node) -> None:
    assert parse_sql(text).tree == tree


@settings(max_examples=300, deadline=None)
@given(conditions())
def test_a_tree_spelled_out_parses_to_itself(tree: Node) -> None:
    parsed = parse_sql(spelled(tree))

    assert parsed.tree == tree
    assert spelled(parsed.tree) == spelled(tree)  # 1 equals True, their texts do not
    assert parsed.unread == ""


@pytest.mark.parametrize(("text", "column"), REFUSALS, ids=[repr(text) for text, _ in REFUSALS])
def test_a_refusal_points_at_what_is_wrong(text: str, column: int) -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse_sql(text)

    assert refused.value.expression == text
    assert refused.value.column == column
    assert refused.value.reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a > ", "the expression ends here; expected a property name, a value or ("),
        ("a > > 5", "> cannot stand here; expected a property name, a value or ("),
        ("(a > 5", "the expression ends here; expected )"),
        ("a IN ('x' 'y')", "'y' cannot stand here; expected ), ,"),
        ("a NOT 5", "5 cannot stand here; expected BETWEEN, CONTAINS, STARTSWITH or ENDSWITH, IN"),
        ("a != 5", "this character has no meaning; 'not equal' is written <>"),
        ("a = NULL", "nothing equals NULL; write IS NULL"),
        ("a > 'x'", "only numbers and properties have an order"),
        ("a = 0.0", "a double cannot be zero or this close to it; write 0"),
    ],
)
def test_a_refusal_says_what_would_help(text: str, reason: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse_sql(text)

    assert refused.value.reason == reason


def test_a_refusal_survives_pickling() -> None:
    with pytest.raises(InvalidExpression) as refused:
        parse_sql("a >")

    again = pickle.loads(pickle.dumps(refused.value))

    assert (again.expression, again.column, again.reason) == refused.value.args


@pytest.mark.parametrize(
    "text",
    [
        "(" * NESTING_MAX + "a" + ")" * NESTING_MAX,
        "(" * 1_000 + "a" + ")" * 1_000,
        "NOT " * 2_000 + "a",
        "-" * 2_000 + "5 = a",
        "+" * 2_000 + "a = 5",
        "a" + " IS NULL" * 1_000,
        "a" + "=a" * 1_000,
        "a" + " CONTAINS 'x'" * 2_000,
        "(a OR " * 500 + "a" + ")" * 500,
    ],
    ids=lambda text: f"{text[:8]}…",
)
def test_deep_nesting_is_refused_and_not_recursed_into(text: str) -> None:
    with pytest.raises(InvalidExpression, match=f"nested more than {NESTING_MAX} levels"):
        parse_sql(text)


def test_an_expression_over_the_length_limit_is_refused_unread() -> None:
    longest = "a" * EXPRESSION_CHARS_MAX

    assert parse_sql(longest).tree == Flag(longest)
    with pytest.raises(InvalidExpression, match="characters"):
        parse_sql(longest + " ")


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("a = 5 OR " * 3_000 + "a = 5", OPERATIONS_MAX),
        ("-" * 30_000 + "a = 5", OPERATIONS_MAX),
        ("(" * 30_000 + "a", OPERATIONS_MAX),
        ("a IN (" + ",".join(["'x'"] * 5_000) + ")", WORDS_MAX),
    ],
    ids=lambda value: str(value)[:8],
)
def test_an_expression_with_too_many_words_is_refused_at_the_first_too_many(
    text: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Token] = []

    def counted(text: str) -> Iterator[Token]:
        for token in scan(text):
            read.append(token)
            yield token

    monkeypatch.setattr(sql_parse, "scan", counted)

    with pytest.raises(ExpressionTooLarge, match=f"{limit}"):
        parse_sql(text)
    assert len(read) == limit + 1


def test_a_list_of_thousands_of_texts_is_within_the_limits() -> None:
    texts = [f"order-{number:05}" for number in range(2_000)]
    quoted = ",".join(f"'{text}'" for text in texts)

    parsed = parse_sql(f"id IN ({quoted})")

    assert parsed.tree == OneOf("id", frozenset(texts))
    assert parsed.operations < 10


TOKENS = ["a", "5", "1.5", "'x'", "NOT", "AND", "OR", "IN", "IS", "NULL", "BETWEEN", "CONTAINS"]
SOUP = st.lists(st.sampled_from([*TOKENS, *"()=<>,+-'@", "<>", ">=", "/*", "*/", "--", "\n"]))


@settings(max_examples=500, deadline=None)
@given(st.text() | SOUP.map(" ".join) | SOUP.map("".join))
@example("𝄞" * 100)
@example("'\ud800'")
@example("a = '" + "''" * 10_000)
def test_any_text_parses_or_is_refused_with_a_column_inside_it(text: str) -> None:
    verdict = parsed_or_refused(text)

    if isinstance(verdict, Parsed):
        assert text.endswith(verdict.unread)
    else:
        assert 1 <= verdict.column <= len(text) + 1
        assert verdict.reason in str(verdict)
