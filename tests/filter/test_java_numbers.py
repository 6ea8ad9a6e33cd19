"""A text is read as a number exactly when Java reads it, and as the same number."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.filter.java_numbers import (
    INT32_MAX,
    INT64_MAX,
    compare_doubles,
    parse_double,
    parse_int32,
    parse_int64,
)

NOT_INTEGERS = [
    *("", " ", "+", "-", "--5", "+-5", " 5", "5 ", "\n5", "5\n", "5.0", "5.", "1e3", "5L", "1_0"),
    *("0x10", "abc", "NaN", "\u00b2", "\u2167", "\u4e94", "\U0001d7d3", "5\x00", "\u22125", "½"),
]
NOT_DOUBLES = [
    *("", " ", ".", "+", "-", "e5", "1e", "1e+", "1e1.5", "1 2", "1_0", "1,5", "--1", "+-1"),
    *("nan", "NAN", "inf", "Inf", "infinity", "INFINITY", "NaNf", "Infinityd", "1L", "1ff", "f"),
    *("0x10", "0x1", "0x1p", "0xp1", "0x.p1", "0x1.8", "1p3", "0x1p3.0", "0xgp1", "x1p3", "\u0665"),
    *("\u00a05", "\u20035", "1\x005", "true"),
]
DOUBLES = {
    "5": 5.0,
    "+5": 5.0,
    "-5": -5.0,
    "5.": 5.0,
    ".5": 0.5,
    "-.5e1": -5.0,
    "005.50": 5.5,
    "1e3": 1000.0,
    "1E+3": 1000.0,
    "1e-3": 0.001,
    "1.5f": 1.5,
    "1.5F": 1.5,
    "1d": 1.0,
    "1e1D": 10.0,
    "0.1f": 0.1,  # the suffix does not narrow
    " 5 ": 5.0,
    "\x00\t\n5\r\x1f": 5.0,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-Infinity": -math.inf,
    " Infinity ": math.inf,
    "1e400": math.inf,
    "-1e400": -math.inf,
    "1e-400": 0.0,
    "1e99999999999999999999": math.inf,
    "0x1p3": 8.0,
    "0X1.8P1": 3.0,
    "-0x.8p0": -0.5,
    "0x1.p-1d": 0.5,
    "0xfFp0f": 255.0,
    "0x1p1024": math.inf,
    "-0x1p99999999999": -math.inf,
    "0x1p-99999999999": 0.0,
    "0x0p99999999999": 0.0,
    "4.9e-324": 5e-324,
    "2.4e-324": 0.0,
    "9007199254740993": 9007199254740992.0,
}


@pytest.mark.parametrize("text", NOT_INTEGERS, ids=ascii)
@pytest.mark.parametrize("parse", [parse_int32, parse_int64])
def test_what_is_no_integer_in_java_is_refused(parse: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("-0", 0),
        ("007", 7),
        ("\u0665", 5),
        ("-\uff15\uff10", -50),
        ("1\u0662\uff13", 123),
        ("0" * 100 + "5", 5),
        ("-" + "0" * 10_000 + "5", -5),
        ("\u0660" * 10_000 + "\u0665", 5),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_integers_are_read_as_java_reads_them(text: str, value: int) -> None:
    assert parse_int32(text) == value
    assert parse_int64(text) == value


@pytest.mark.parametrize(
    ("parse", "limit"), [(parse_int32, INT32_MAX), (parse_int64, INT64_MAX)], ids=["32", "64"]
)
def test_integers_end_where_their_type_ends(parse: Callable[[str], int], limit: int) -> None:
    assert parse(str(limit)) == limit
    assert parse(str(-limit - 1)) == -limit - 1
    for text in (str(limit + 1), str(-limit - 2), "9" * 100, "-" + "1" * 100_000):
        with pytest.raises(ValueError, match=r"^"):
            parse(text)


@pytest.mark.parametrize("text", NOT_DOUBLES, ids=ascii)
def test_what_is_no_double_in_java_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        parse_double(text)


@pytest.mark.parametrize(("text", "value"), DOUBLES.items(), ids=map(ascii, DOUBLES))
def test_doubles_are_read_as_java_reads_them(text: str, value: float) -> None:
    assert parse_double(text) == value


@pytest.mark.parametrize("text", ["NaN", "+NaN", "-NaN", " NaN "])
def test_nan_is_read_in_its_own_case(text: str) -> None:
    assert math.isnan(parse_double(text))


def test_the_sign_of_zero_is_kept() -> None:
    assert math.copysign(1, parse_double("-0.0")) == -1
    assert math.copysign(1, parse_double("-1e-400")) == -1


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_survives_its_text(value: float) -> None:
    assert parse_double(repr(value)) == value
    assert parse_double(value.hex()) == value


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="0123456789+-.eEfdxXpPNaInity _\t\u0665", max_size=12))
def test_only_value_errors_are_raised(text: str) -> None:
    for parse in (parse_int32, parse_int64, parse_double):
        with contextlib.suppress(ValueError):
            assert isinstance(parse(text), int | float)


def test_doubles_have_a_total_order() -> None:
    rising = [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]

    for i, left in enumerate(rising):
        for j, right in enumerate(rising):
            sign = compare_doubles(left, right)
            assert (sign > 0) - (sign < 0) == (i > j) - (i < j)
