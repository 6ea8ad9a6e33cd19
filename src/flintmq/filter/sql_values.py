"""How SQL92 compares two values, and the closures that do so for one message after another.

Only two functions hold the rules: `values_equal` and `values_ordered`.  The ``_test`` functions
give back faster forms for what nearly every expression is made of, a property beside a constant;
our tests compare the two forms with each other.

A comparison that cannot be made raises `ValueError`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from flintmq.filter.java_numbers import (
    INT32_MAX,
    compare_doubles,
    parse_double,
    parse_int32,
    parse_int64,
)
from flintmq.filter.sql_tree import Between, Constant, Negative, Node, Property, Value

Properties: TypeAlias = Mapping[str, str]
Test: TypeAlias = Callable[[Properties], bool | None]
Evaluate: TypeAlias = Callable[[Properties], Value]
Number: TypeAlias = int | float
Order: TypeAlias = Callable[[Number, Number], bool]

ORDERS: dict[str, Order] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
# NaN is above every number, so "above" is asked as "not below".  The right side is never NaN.
DOUBLE_ORDERS: dict[str, Order] = {
    **ORDERS,
    ">": lambda value, bound: not value <= bound,
    ">=": lambda value, bound: not value < bound,
}
MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def values_equal(left: Value, right: Value) -> bool | None:
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    if type(left) is type(right):
        return left == right
    if isinstance(left, bool):
        if isinstance(right, str):
            raise ValueError("a condition cannot be compared with a text on its right")  # noqa: TRY004 - the contract
        return False
    if isinstance(right, bool):
        return isinstance(left, str) and _is_true(left) is right
    if isinstance(left, str):
        assert not isinstance(right, str)
        return _reader(right)(left) == right
    if isinstance(right, str):
        return _reader(left)(right) == left
    return float(left) == float(right)


def values_ordered(left: Value, order: str, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str):
        if isinstance(right, str):
            return ORDERS[order](compare_doubles(parse_double(left), parse_double(right)), 0)
        return _order(right, order)(_reader(right)(left), right)
    if isinstance(right, str):
        return values_ordered(right, MIRRORED[order], left)
    if isinstance(left, float) or isinstance(right, float):
        return ORDERS[order](float(left), float(right))
    return ORDERS[order](left, right)


def equal_test(left: Node, right: Node, left_value: Evaluate, right_value: Evaluate) -> Test:
    """The test of ``left = right``.  The nodes say which form to take, the closures compute."""
    number = constant_number(right)
    match left, right:
        case Property(name=name), Constant(value=str() as text):
            return _property_is_text(name, text)
        case Property(name=name), Constant(value=bool() as wanted):
            return _property_is_flag(name, wanted)
        case Property(name=name), _ if number is not None:
            return _property_is_number(name, number)
        case _:
            return lambda properties: values_equal(left_value(properties), right_value(properties))


def ordered_test(
    left: Node, order: str, right: Node, left_value: Evaluate, right_value: Evaluate
) -> Test:
    """The test of ``left > right`` and its like."""
    if isinstance(left, Property) and (number := constant_number(right)) is not None:
        return _property_ordered(left.name, order, number)
    if isinstance(right, Property) and (number := constant_number(left)) is not None:
        return _property_ordered(right.name, MIRRORED[order], number)

    def test(properties: Properties) -> bool | None:
        value = left_value(properties)
        # With the left side missing, RocketMQ does not compute the right one: it cannot fail.
        return None if value is None else values_ordered(value, order, right_value(properties))

    return test


def between_test(node: Between, values: Sequence[Evaluate]) -> Test:
    """The test of BETWEEN, which is >= and <=, or of NOT BETWEEN, which is < or >.

    The operand is computed once, not twice: nested in each other, BETWEENs would double the work
    at every level.
    """
    low_number, high_number = constant_number(node.low), constant_number(node.high)
    if (
        isinstance(node.operand, Property)
        and low_number is not None
        and high_number is not None
        and _reader(low_number) is _reader(high_number)
    ):
        return _property_between(node.operand.name, low_number, high_number, inside=node.inside)

    operand, low, high = values
    inside = node.inside
    first, second = (">=", "<=") if inside else ("<", ">")

    def test(properties: Properties) -> bool | None:
        value = operand(properties)
        if value is None:
            return None
        above = values_ordered(value, first, low(properties))
        if above is (not inside):
            return above
        below = values_ordered(value, second, high(properties))
        if below is (not inside):
            return below
        return None if above is None or below is None else inside

    return test


def constant_number(node: Node) -> Number | None:
    """The number that a constant, or the negative of one, always is."""
    sign = 1
    while isinstance(node, Negative):
        sign, node = -sign, node.operand
    if isinstance(node, Constant) and isinstance(node.value, int | float):
        return None if isinstance(node.value, bool) else sign * node.value
    return None


def _property_is_text(name: str, text: str) -> Test:
    def test(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else value == text

    return test


def _property_is_flag(name: str, wanted: bool) -> Test:
    def test(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else _is_true(value) is wanted

    return test


def _property_is_number(name: str, number: Number) -> Test:
    read = _reader(number)

    def test(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else read(value) == number

    return test


def _property_ordered(name: str, order: str, number: Number) -> Test:
    read, compare = _reader(number), _order(number, order)

    def test(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else compare(read(value), number)

    return test


def _property_between(name: str, low: Number, high: Number, *, inside: bool) -> Test:
    read = _reader(low)

    def test(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else (low <= read(value) <= high) is inside

    return test


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _order(number: Number, order: str) -> Order:
    return (DOUBLE_ORDERS if isinstance(number, float) else ORDERS)[order]


def _reader(number: Number) -> Callable[[str], Number]:
    """The function that reads a text which is compared with this number.

    -2147483648 would fit in 32 bits, but it is the negative of a number that does not.
    """
    if isinstance(number, float):
        return parse_double
    return parse_int32 if -INT32_MAX <= number <= INT32_MAX else parse_int64
