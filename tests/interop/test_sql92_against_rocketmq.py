"""Released RocketMQ and FlintMQ compile the same expressions and select the same messages.

Expressions and properties come from a seed; a failure names the seed, the text and both verdicts.
4.9 knows no CONTAINS, STARTSWITH and ENDSWITH: it is only asked about texts without these words,
and then agrees with 5.x.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from flintmq.errors import InvalidExpression
from flintmq.filter.java_numbers import parse_double, parse_int32, parse_int64
from flintmq.filter.sql_eval import SqlPredicate, compile_sql
from support.filter.sql_rules import ERROR, FALSE, REFUSALS, RULES, TRUE, UNKNOWN
from support.interop import sql92_cases
from support.interop.judge import ask_judge, ask_on, ask_sql

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

VERSIONS = ["5.3.3", "4.9.7"]
EXPRESSIONS = 4_000
PROPERTIES_PER_EXPRESSION = 6
DISAGREEMENTS_SHOWN = 20

ACCEPTED, REFUSED = "ACCEPTED", "REFUSED"


def understood_by(version: str, text: str) -> bool:
    return version >= "5" or not any(word in text.upper() for word in sql92_cases.SEARCHES)


def compiled(text: str) -> SqlPredicate | None:
    try:
        return compile_sql(text)
    except InvalidExpression:
        return None


def decided(predicate: SqlPredicate, properties: dict[str, str]) -> str:
    try:
        return {True: TRUE, False: FALSE, None: UNKNOWN}[predicate.decide(properties)]
    except ValueError:
        return ERROR


def read(parse: Callable[[str], float], text: str) -> float | None:
    try:
        return parse(text)
    except ValueError:
        return None


def disagreements(version: str, cases: list[tuple[str, list[dict[str, str]]]]) -> list[str]:
    """Every case on which the two differ, for people to read."""
    found = []
    verdicts = ask_judge(version, (ask_sql(text) for text, _ in cases))
    both: list[tuple[SqlPredicate, list[dict[str, str]]]] = []
    for (text, samples), answer in zip(cases, verdicts, strict=True):
        predicate = compiled(text)
        ours = REFUSED if predicate is None else ACCEPTED
        if not answer.startswith(ours):
            found.append(f"{text!r}: {ours}, RocketMQ {answer}")
        elif predicate is not None:
            both.append((predicate, samples))

    questions = []
    for predicate, samples in both:
        questions += [ask_sql(predicate.text), *map(ask_on, samples)]
    answers = iter(ask_judge(version, questions))
    for predicate, samples in both:
        assert next(answers) == ACCEPTED
        for properties in samples:
            ours, theirs = decided(predicate, properties), next(answers)
            if ours != theirs:
                found.append(f"{predicate.text!r} on {properties}: {ours}, RocketMQ {theirs}")
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(5))
def test_generated_expressions_have_one_meaning(version: str, seed: int) -> None:
    chance = Random(seed)
    cases = []
    for _ in range(EXPRESSIONS):
        text = sql92_cases.expression(chance)
        samples = [sql92_cases.properties(chance) for _ in range(PROPERTIES_PER_EXPRESSION)]
        if understood_by(version, text):
            cases.append((text, samples))

    found = disagreements(version, cases)

    accepted = sum(compiled(text) is not None for text, _ in cases)
    assert accepted > len(cases) / 4, "too few expressions compile to compare results"
    assert accepted < len(cases) * 3 / 4, "too few expressions are refused to compare refusals"
    assert found[:DISAGREEMENTS_SHOWN] == [], f"seed {seed}, {len(found)} in all"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tables_of_rules_are_rocketmqs(version: str) -> None:
    rules = [rule for rule in RULES if understood_by(version, rule[0])]
    refusals = [text for text, _ in REFUSALS if understood_by(version, text)]
    questions = []
    for text, properties, _ in rules:
        questions += [ask_sql(text), ask_on(properties)]

    answers = ask_judge(version, questions)
    verdicts = ask_judge(version, map(ask_sql, refusals))

    told = [
        (text, properties, answer)
        for (text, properties, _), answer in zip(rules, answers[1::2], strict=True)
    ]
    assert told == rules
    assert [
        text
        for text, verdict in zip(refusals, verdicts, strict=True)
        if not verdict.startswith(REFUSED)
    ] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_odd_texts_are_the_same_numbers(version: str) -> None:
    """Each text is compared with the value we read from it: Java must find them equal too."""
    chance = Random(7)
    texts = [sql92_cases.number_text(chance) for _ in range(8_000)]
    texts += [*sql92_cases.VALUES, "0" * 5_000 + "5", "\u0660" * 5_000 + "\u0665", "9" * 400]

    cases = []
    for text in texts:
        int32, int64 = read(parse_int32, text), read(parse_int64, text)
        cases.append((f"a = {1 if int32 is None else int32}", [{"a": text}]))
        large = int64 if int64 is not None and 2**31 <= abs(int64) < 2**63 else 3_000_000_000
        cases.append((f"a = {large}", [{"a": text}]))
        double = str(read(parse_double, text)).replace("inf", "Infinity").replace("nan", "NaN")
        cases.append(("a <= b AND a >= b", [{"a": text, "b": double}]))

    assert disagreements(version, cases)[:DISAGREEMENTS_SHOWN] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_long_and_deep_expressions_have_one_meaning(version: str) -> None:
    samples = [{"a": value} for value in ("5", "1999", "x" * 5_000, "6")] + [{}]
    texts = [
        " OR ".join(f"a = '{n}'" for n in range(500)),
        " AND ".join(f"a <> '{n}'" for n in range(500)),
        "a IN (" + ", ".join(f"'{n}'" for n in range(2_000)) + ")",
        "a = '" + "x" * 5_000 + "'",
        "/*" + "*" * 9_000 + "*/ a > 5" + " " * 9_000 + "-- " + "-" * 5_000,
        "(" * 150 + "a > 5" + ")" * 150,
        "NOT " * 150 + "(a > 5)",
        "a < " + "- " * 150 + "7",
        "a < " + "+ " * 150 + "7",
        "a" + " IS NULL" * 150,
        "a" + " = TRUE" * 150,
    ]

    assert disagreements(version, [(text, samples) for text in texts]) == []
