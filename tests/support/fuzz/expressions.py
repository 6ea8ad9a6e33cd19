"""SQL92 texts grown by chance from the grammar, so that more than the first word is read."""

from __future__ import annotations

from random import Random

NAMES = ("a", "b", "price", "$x_1", "Not_", "a" * 60)
VALUES = ("0", "-1", "1.5e3", "9223372036854775807", "2147483648", ".5", "1e400", "0x1F", "017L")
TEXTS = ("''", "'x'", "'it''s'", "'é😀'", "'" + "y" * 50 + "'", "'%_\\'")
ORDERS = (">", ">=", "<", "<=")
JOINTS = (" AND ", " OR ", " and ", " Or ", "\tAND\n", " /* c */ OR ", " -- c\n AND ")


def grown(chance: Random, size: int) -> str:
    """A condition of about ``size`` comparisons."""
    if size <= 1:
        return _leaf(chance)
    match chance.randrange(6):
        case 0:
            return f"NOT ({grown(chance, size - 1)})"
        case 1:
            return f"({grown(chance, size - 1)})"
        case _:
            left = chance.randrange(1, size)
            joint = chance.choice(JOINTS)
            return f"{grown(chance, left)}{joint}{grown(chance, size - left)}"


def _leaf(chance: Random) -> str:
    name = chance.choice(NAMES)
    texts = ", ".join(chance.choice(TEXTS) for _ in range(chance.randrange(1, 30)))
    match chance.randrange(9):
        case 0:
            return f"{_number(chance)} {chance.choice(ORDERS)} {_number(chance)}"
        case 1:
            return f"{name} = {chance.choice((*TEXTS, *VALUES, 'TRUE', 'NULL'))}"
        case 2:
            return f"{name} <> {chance.choice(TEXTS)}"
        case 3:
            return f"{name} {chance.choice(('', 'NOT '))}IN ({texts})"
        case 4:
            words = chance.choice(("BETWEEN", "NOT BETWEEN"))
            return f"{_number(chance)} {words} {_number(chance)} AND {_number(chance)}"
        case 5:
            return f"{name} IS {chance.choice(('', 'NOT '))}NULL"
        case 6:
            words = chance.choice(("CONTAINS", "STARTSWITH", "NOT ENDSWITH"))
            return f"{name} {words} {chance.choice(TEXTS)}"
        case 7:
            return chance.choice(("TRUE", "FALSE", name))
        case _:
            return f"{name} > {'-' * chance.randrange(5)} {chance.choice(VALUES)}"


def _number(chance: Random) -> str:
    sign = chance.choice(("", "", "-", "+", "- -"))
    return f"{sign}{chance.choice((*NAMES, *VALUES))}"
