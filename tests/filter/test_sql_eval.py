"""An SQL92 expression selects the messages that RocketMQ 5 would select."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidExpression
from flintmq.filter.sql_eval import SqlPredicate, compile_sql
from flintmq.filter.sql_parse import NESTING_MAX, OPERATIONS_MAX
from support.filter.sql_rules import ERROR, FALSE, RULES, TRUE, UNKNOWN, Rule
from support.filter.sql_strategies import expressions, message_properties

GOLDEN = Path(__file__).parent / "golden"

RESULTS = {TRUE: True, FALSE: False, UNKNOWN: None, ERROR: None}


def outcome(predicate: SqlPredicate, properties: dict[str, str]) -> str:
    """The result with errors told apart from unknown, as the Java judge tells it."""
    try:
        return {True: TRUE, False: FALSE, None: UNKNOWN}[predicate.decide(properties)]
    except ValueError:
        return ERROR


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule[0]} on {rule[1]}")
def test_every_rule_holds(rule: Rule) -> None:
    expression, properties, wanted = rule

    predicate = compile_sql(expression)

    assert outcome(predicate, properties) == wanted
    assert predicate.evaluate(properties) is RESULTS[wanted]
    assert predicate.matches(properties) is (wanted == TRUE)


def test_a_predicate_names_the_properties_it_looks_at() -> None:
    predicate = compile_sql("a > 1 AND (-b = 5 OR c IN ('x')) AND d AND e NOT CONTAINS 'x' f")

    assert predicate.names == {"a", "b", "c", "d", "e"}


def test_text_that_was_not_read_is_reported() -> None:
    assert compile_sql("name LIKE 'x%'").unread == "LIKE 'x%'"
    assert compile_sql("name = 'x' -- done\n").unread == ""


def test_predicates_of_one_text_are_equal() -> None:
    assert compile_sql("a > 5") == compile_sql("a > 5")
    assert compile_sql("a > 5") != compile_sql("a  > 5")


@pytest.mark.parametrize(
    "case", json.loads((GOLDEN / "checked_expressions.json").read_text()), ids=str
)
def test_brokers_gave_the_same_verdict_on_captured_expressions(case: dict[str, str | int]) -> None:
    expression = str(case["expression"])

    if case["code"] == 0:
        assert compile_sql(expression).text == expression
    else:
        with pytest.raises(InvalidExpression):
            compile_sql(expression)


def test_the_captured_compound_expression_selects_what_it_says() -> None:
    predicate = compile_sql(
        "(a BETWEEN 10 AND 29 AND TAGS = 'E') OR (c IS NOT NULL AND c IN ('red','blue') AND a > 35)"
    )

    messages = [
        {"a": str(a), "TAGS": tag} | ({"c": color} if color else {})
        for a in (9, 10, 29, 30, 35, 36)
        for tag in "EF"
        for color in ("", "red", "green")
    ]
    selected = [message for message in messages if predicate.matches(message)]

    assert selected == [
        message
        for message in messages
        if (10 <= int(message["a"]) <= 29 and message["TAGS"] == "E")
        or (message.get("c") == "red" and int(message["a"]) > 35)
    ]


# Laws of three-valued logic, over operands that are true, false, unknown or in error.

OPERANDS = st.sampled_from(["TRUE", "FALSE", "NULL", "a > 5", "b = 'x'", "c IS NULL", "d"])


def same(one: str, other: str, properties: dict[str, str]) -> bool:
    return outcome(compile_sql(one), properties) == outcome(compile_sql(other), properties)


@settings(max_examples=150, deadline=None)
@given(OPERANDS, OPERANDS, OPERANDS, message_properties())
def test_logic_obeys_the_laws(p: str, q: str, r: str, properties: dict[str, str]) -> None:
    assert same(f"NOT (({p}) AND ({q}))", f"(NOT ({p})) OR (NOT ({q}))", properties)
    assert same(f"NOT (({p}) OR ({q}))", f"(NOT ({p})) AND (NOT ({q}))", properties)
    assert same(f"NOT (NOT ({p}))", p, properties)
    assert same(f"(({p}) AND ({q})) AND ({r})", f"{p} AND {q} AND {r}", properties)
    assert same(f"({p}) OR (({q}) OR ({r}))", f"{p} OR {q} OR {r}", properties)
    assert same(f"{p} AND {p}", p, properties)
    assert same(f"{p} OR {p}", p, properties)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["TRUE", "FALSE", "NULL"]), st.sampled_from(["TRUE", "FALSE", "NULL"]))
def test_without_errors_the_order_of_operands_does_not_matter(p: str, q: str) -> None:
    assert same(f"{p} AND {q}", f"{q} AND {p}", {})
    assert same(f"{p} OR {q}", f"{q} OR {p}", {})


@settings(max_examples=300, deadline=None)
@given(expressions(), message_properties())
def test_evaluation_never_raises_and_only_true_matches(
    expression: str, properties: dict[str, str]
) -> None:
    predicate = compile_sql(expression)

    assert predicate.matches(properties) is (predicate.evaluate(properties) is True)


@settings(max_examples=300, deadline=None)
@given(expressions(), message_properties())
def test_properties_that_are_not_named_have_no_effect(
    expression: str, properties: dict[str, str]
) -> None:
    predicate = compile_sql(expression)
    named = {name: value for name, value in properties.items() if name in predicate.names}

    assert outcome(predicate, properties) == outcome(predicate, named)


# What is as deep or as long as we allow can be used without any care.

DEEPEST = {
    "parentheses": "(" * (NESTING_MAX - 2) + "a > 5" + ")" * (NESTING_MAX - 2),
    "not": "NOT " * (NESTING_MAX - 3) + "(a > 5)",
    "minus": "- " * (NESTING_MAX - 2) + "5 < a",
    "equality": "a" + " = TRUE" * (NESTING_MAX - 1),
    "is null": "a" + " IS NULL" * (NESTING_MAX - 1),
    "search": "a" + " CONTAINS 'x'" * (NESTING_MAX - 1),
    "right-nested or": "(a > 5 OR " * 99 + "a > 5" + ")" * 99,
    "between": "-(" * 66 + "a" + " BETWEEN 1 AND 2)" * 66 + " IS NULL",
}


@pytest.mark.parametrize("text", DEEPEST.values(), ids=DEEPEST.keys())
def test_the_deepest_expressions_compile_and_run(text: str) -> None:
    predicate = compile_sql(text)

    assert predicate.unread == ""
    assert outcome(predicate, {"a": "6"}) in {TRUE, FALSE, UNKNOWN}


def test_the_longest_expressions_compile_and_run() -> None:
    count = OPERATIONS_MAX // len(["a", "=", "5", "OR"])
    either = compile_sql(" OR ".join(["a = 5"] * count))
    texts = ",".join(f"'{n}'" for n in range(3_000))
    listed = compile_sql(f"a IN ({texts})")

    assert either.matches({"a": "5"})
    assert not either.matches({"a": "6"})
    assert listed.matches({"a": "2999"})
    assert not listed.matches({"a": "3000"})
