"""Seeded SQL92 expressions and properties that are likely to find a difference.

Three kinds of text: expressions that follow the grammar, the same with a few characters changed,
and words in any order.  They share few names and values, so that comparisons are often equal, just
above or just below, and often between types that do not fit.
"""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "c", "_x", "$1", "Size", "null_", "notA", "L", "e5", "in1")
INTEGERS = ("0", "1", "5", "7", "10", "5L", "7l", "0L", "007", "2147483647", "2147483648")
LONGS = ("3000000000", "9223372036854775807", "9223372036854775808", "99999999999999999999")
FLOATS = ("5.0", "5.", ".5", "0.0", "1e1", "1E+1", "5e-1", "1.5", "1e400", "1e-400", "5e-324")
LARGE_FLOATS = ("9007199254740993.0", "2147483648.0", "9.223372036854775807e18", "00.5", "1.e1")
TEXTS = (
    *("''", "'a'", "'5'", "'it''s'", "'true'", "'TRUE'", "'abc'", "'b'", "'--'", "'\n'"),
    "'\u65e5\u672c'",
)
CONSTANTS = (*INTEGERS, *INTEGERS, *LONGS, *FLOATS, *LARGE_FLOATS, *TEXTS, "TRUE", "FALSE", "NULL")
ORDERS = (">", ">=", "<", "<=")
SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
BLANKS = (" ", " ", " ", "", "\t", "\n", "\r\n", "\f", " /* x */ ", "/***/", " -- y\n", "--\r")
TRAILS = (
    *(" rest", " )", " 'x'", " 5", " @", " --", " -- z", " LIKE 'a'", ", 'b'", " (", "\x00"),
    " \u00e9",
)
WORDS = (
    *("NOT", "AND", "OR", "BETWEEN", "IN", "IS", "TRUE", "NULL", *SEARCHES, *NAMES[:3], "'a'"),
    *("5", "1.5", "(", "(", ")", ")", ",", "=", "<>", "+", "-", "@", "!=", "'", ".", "/*", "é"),
    *ORDERS,
)
CHANGES = " ()'=<>+-,.@aL5eE0\n/*"

VALUES = (
    *("5", "7", "10", "0", "-5", "+5", "-0", "", " ", " 5 ", "5.0", "5L", "1e1", "1_0", "007"),
    *("true", "TRUE", "True", "false", "abc", "a", "b", "it's", "null", "日本", "NaN", "nan"),
    *("Infinity", "-Infinity", "inf", "2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("3000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("0x10", "0x1p3", "1.5f", "1.5d", "1.5L", ".5", "5.", "-0.0", "0.0", "1e400", "1e-400"),
    *("9007199254740993", "9007199254740992.5", "1e", "+", "-", "--5", "5 5", "\n"),
    *("\u0665", "\U0001d7d3", "\uff15"),
)
NUMBER_EDGES = (0, 2**31, -(2**31), 2**53, 2**63, -(2**63))
NUMBER_ALPHABETS = (
    "0123456789+-.eE",
    "01.eE+-fFdD \t",
    "0xX1aF.pP+-9dDf",
    "NaInfity+- ",
    "05\u0665\uff15\U0001d7d3-+",
)


def expression(chance: Random) -> str:
    """One text, of any of the three kinds."""
    kind = chance.random()
    if kind < 0.15:
        return " ".join(chance.choices(WORDS, k=chance.randint(0, 9)))
    text = _condition(chance, depth=chance.randint(0, 4))
    if chance.random() < 0.1:
        text += chance.choice(TRAILS)
    if kind < 0.4:
        text = _changed(chance, text)
    return text


def properties(chance: Random) -> dict[str, str]:
    present = (name for name in NAMES if chance.random() < 0.75)
    return {name: chance.choice(VALUES) for name in present}


def number_text(chance: Random) -> str:
    """A text that is a number, or nearly."""
    kind = chance.random()
    if kind < 0.2:
        return repr(chance.uniform(-1, 1) * 10.0 ** chance.randint(-330, 308))
    if kind < 0.3:
        return f"0x1.{chance.getrandbits(56):014x}p{chance.randint(-1080, 1030)}"
    if kind < 0.4:
        return str(chance.choice(NUMBER_EDGES) + chance.randint(-1, 1))
    return "".join(chance.choices(chance.choice(NUMBER_ALPHABETS), k=chance.randint(1, 9)))


def _condition(chance: Random, depth: int) -> str:
    if depth == 0:
        return _comparison(chance, depth)
    shape = chance.randrange(8)
    inner = depth - 1
    if shape < 3:
        word = chance.choice(("AND", "OR"))
        parts = [_condition(chance, inner) for _ in range(chance.randint(2, 3))]
        return f"{_blank(chance)} {_case(chance, word)} {_blank(chance)}".join(parts)
    if shape == 3:
        return f"{_case(chance, 'NOT')} ({_condition(chance, inner)})"
    if shape == 4:
        return f"({_condition(chance, inner)})"
    return _comparison(chance, inner)


def _comparison(chance: Random, depth: int) -> str:
    left = _operand(chance, depth)
    negated = _case(chance, "NOT ") if chance.random() < 0.4 else ""
    match chance.randrange(9):
        case 0 | 1:
            sign = chance.choice(("=", "<>"))
            return left + _blank(chance) + sign + _blank(chance) + _operand(chance, depth)
        case 2 | 3:
            right = _operand(chance, depth)
            return left + _blank(chance) + chance.choice(ORDERS) + _blank(chance) + right
        case 4:
            low, high = _operand(chance, depth), _operand(chance, depth)
            words = _case(chance, "BETWEEN"), _case(chance, "AND")
            return f"{left} {negated}{words[0]} {low} {words[1]} {high}"
        case 5:
            texts = ("," + _blank(chance)).join(chance.choices(TEXTS, k=chance.randint(1, 6)))
            return f"{left} {negated}{_case(chance, 'IN')}{_blank(chance)}({texts})"
        case 6:
            search = _case(chance, chance.choice(SEARCHES))
            return f"{left} {negated}{search}{_blank(chance)}{chance.choice(TEXTS)}"
        case 7:
            return f"{left} {_case(chance, 'IS')} {negated}{_case(chance, 'NULL')}"
        case _:
            return left


def _operand(chance: Random, depth: int) -> str:
    kind = chance.random()
    if kind < 0.55:
        return chance.choice(NAMES[:3]) if chance.random() < 0.7 else chance.choice(NAMES)
    if kind < 0.85:
        sign = chance.choice(("", "", "", "-", "+", "- ", "- -", "+-"))
        constant = chance.choice(CONSTANTS)
        return sign + (_case(chance, constant) if constant.isalpha() else constant)
    if kind < 0.9:
        return "-" + _operand(chance, depth)
    if depth > 0:
        return f"({_condition(chance, depth - 1)})"
    return chance.choice(NAMES[:3])


def _case(chance: Random, word: str) -> str:
    return chance.choice((word, word, word.lower(), word.title()))


def _blank(chance: Random) -> str:
    return chance.choice(BLANKS)


def _changed(chance: Random, text: str) -> str:
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(text))
        dropped = chance.randint(0, 2)
        text = text[:at] + chance.choice(("", *CHANGES)) + text[at + dropped :]
    return text
