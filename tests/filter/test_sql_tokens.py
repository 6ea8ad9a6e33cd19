"""Words are cut as RocketMQ cuts them, lazily, and in time that grows with the text only."""

from __future__ import annotations

import contextlib
import time
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidExpression
from flintmq.filter.sql_tokens import scan


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a _b $c A1", ["NAME:a", "NAME:_b", "NAME:$c", "NAME:A1"]),
        ("not Not NOT nota", ["_NOT:not", "_NOT:Not", "_NOT:NOT", "NAME:nota"]),
        ("0 5 50 5L 5l", ["INTEGER:0", "INTEGER:5", "INTEGER:50", "INTEGER:5L", "INTEGER:5l"]),
        ("0L", ["INTEGER:0", "NAME:L"]),
        ("007", ["INTEGER:0", "INTEGER:0", "INTEGER:7"]),
        ("5a", ["INTEGER:5", "NAME:a"]),
        ("5e 5e5", ["INTEGER:5", "NAME:e", "FLOAT:5e5"]),
        ("5. .5 5.5 5.e1", ["FLOAT:5.", "FLOAT:.5", "FLOAT:5.5", "FLOAT:5.e1"]),
        ("1..5", ["FLOAT:1.", "FLOAT:.5"]),
        ("1.5L", ["FLOAT:1.5", "NAME:L"]),
        ("'' 'a''b' 'x''", ["TEXT:''", "TEXT:'a''b'"]),
        ("<><=<>=>=", ["_UNEQUAL:<>", "ORDER:<=", "_UNEQUAL:<>", "_EQUAL:=", "ORDER:>="]),
        ("a--b\nc", ["NAME:a", "NAME:c"]),
        ("a--b\rc", ["NAME:a", "NAME:c"]),
        ("a--b", ["NAME:a", "_MINUS:-", "_MINUS:-", "NAME:b"]),
        ("a/*/ * /**/b", ["NAME:a", "NAME:b"]),
        ("- -\n--\n5", ["_MINUS:-", "_MINUS:-", "INTEGER:5"]),
    ],
)
def test_text_is_cut_into_words(text: str, wanted: list[str]) -> None:
    found = [f"{token.type}:{token}" for token in islice(scan(text), len(wanted))]

    assert found == wanted


@pytest.mark.parametrize("blank", ["\u00a0", "\v", "\x1c", "\u2028", "\x00"])
def test_only_five_characters_are_blanks(blank: str) -> None:
    with pytest.raises(InvalidExpression):
        list(scan(f"a{blank}b"))
    with pytest.raises(InvalidExpression):
        list(scan(f"a{blank}b\n"))


def test_a_word_knows_where_it_starts() -> None:
    assert [token.start_pos for token in scan(" a /* */ >= 5 ")] == [1, 9, 12, 14]


def test_the_scan_does_not_look_ahead() -> None:
    first, second = islice(scan("a > @"), 2)

    assert (first, second) == ("a", ">")


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="aN05.eL'<>=-+/*\n\r (,é@"))
def test_words_and_what_is_between_them_make_up_the_text(text: str) -> None:
    position = 0
    with contextlib.suppress(InvalidExpression):
        for token in scan(text):
            assert token.start_pos is not None
            between = text[position : token.start_pos]
            assert between.strip() == "" or between.strip().startswith(("--", "/*"))
            assert text.startswith(token, token.start_pos)
            position = token.start_pos + len(token)


@pytest.mark.parametrize(
    "unit", ["-", "--b ", "/*", "'", "''", "a", "5", "5e", ".", "(", "--\n", "/**/", "\r"]
)
def test_a_hostile_text_takes_time_in_proportion(unit: str) -> None:
    """Ten times the text must not cost a hundred times: no word may scan the rest again."""

    def cost_s(length: int) -> float:
        text = unit * (length // len(unit))
        start = time.process_time()
        with contextlib.suppress(InvalidExpression):
            for _ in scan(text):
                pass
        return time.process_time() - start

    assert min(cost_s(100_000) for _ in range(3)) < 40 * max(cost_s(10_000), 0.0005)
