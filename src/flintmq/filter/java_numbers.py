"""Numbers as Java reads them from text, because a filter must agree with RocketMQ on every text.

Python's ``int()`` and ``float()`` take underscores and blanks that Java does not take, and refuse
suffixes and forms that Java takes:

    text            int32, int64   double
    "+5"            5              5.0
    " 5 "           refused        5.0      (characters up to U+0020 are trimmed)
    U+0665          5              refused  (any decimal digit of the basic plane)
    "1e3" "1.f"     refused        1000.0, 1.0
    "0x1p3"         refused        8.0
    "NaN" "Infinity"  refused      as they say, in this case only
    "1_0" "inf"     refused        refused

Every function raises `ValueError` for a text it refuses, as ``int()`` does.
"""

from __future__ import annotations

import math
import re

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_WORDS = {
    sign + word: float(sign + word) for sign in ("", "+", "-") for word in ("NaN", "Infinity")
}

_INT32_DIGITS, _INT64_DIGITS = len(str(INT32_MAX)), len(str(INT64_MAX))

_TRIMMED = "".join(map(chr, range(0x21)))
_BASIC_PLANE_END = "\uffff"

# Python refuses to convert thousands of digits; texts this short can be given to it as they are.
_SHORT_DIGITS_MAX = 40


def parse_int32(text: str) -> int:
    if len(text) < _INT32_DIGITS and text.isascii() and text.isdigit():  # nearly every text
        return int(text)
    return _parse_integer(text, INT32_MAX)


def parse_int64(text: str) -> int:
    if len(text) < _INT64_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return _parse_integer(text, INT64_MAX)


def parse_double(text: str) -> float:
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    text = text.strip(_TRIMMED)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if text in _WORDS:
        return _WORDS[text]
    if found := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    raise ValueError(text)


def compare_doubles(left: float, right: float) -> int:
    """Java's order of doubles: -0.0 is below 0.0, and NaN equals itself and is above the rest."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    if math.isnan(value):
        return 1
    return -1 if value == 0.0 and math.copysign(1.0, value) < 0 else 0


def _parse_integer(text: str, limit: int) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    if not text.isascii() and max(text) > _BASIC_PLANE_END:
        raise ValueError(text)
    value = int(text) if len(text) <= _SHORT_DIGITS_MAX else _add_digits(text, limit)
    if -limit - 1 <= value <= limit:
        return value
    raise ValueError(text)


def _add_digits(text: str, limit: int) -> int:
    value = 0
    for digit in text.lstrip("+-"):
        value = 10 * value + int(digit)
        if value > limit + 1:
            raise ValueError(text)
    return -value if text[0] == "-" else value
