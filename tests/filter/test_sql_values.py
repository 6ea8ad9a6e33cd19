"""The fast forms of a comparison agree with the two functions that hold the rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.filter.sql_tree import Between, Constant, Negative, Node, Property, Value
from flintmq.filter.sql_values import (
    Evaluate,
    Properties,
    between_test,
    constant_number,
    equal_test,
    ordered_test,
    values_equal,
    values_ordered,
)
from support.filter.sql_strategies import message_properties, numbers, texts

A, B = Property("a"), Property("b")

constants = st.builds(Constant, numbers | texts | st.booleans())
number_nodes = st.builds(Constant, numbers) | st.builds(Negative, st.builds(Constant, numbers))
orders = st.sampled_from((">", ">=", "<", "<="))


def value_of(node: Node) -> Evaluate:
    if isinstance(node, Property):
        return lambda properties: properties.get(node.name)
    number = constant_number(node)
    if number is not None:
        return lambda _properties: number
    assert isinstance(node, Constant)
    return lambda _properties: node.value


def outcome(compute: Callable[[], Value]) -> Value:
    """The result, or a text that no comparison gives for an error."""
    try:
        return compute()
    except ValueError:
        return "error"


@settings(max_examples=400, deadline=None)
@given(
    st.just(A) | constants, st.just(A) | st.just(B) | constants | number_nodes, message_properties()
)
def test_equality_has_one_meaning(left: Node, right: Node, properties: Properties) -> None:
    one, other = value_of(left), value_of(right)
    test = equal_test(left, right, one, other)

    fast = outcome(lambda: test(properties))

    assert fast is outcome(lambda: values_equal(one(properties), other(properties)))


@settings(max_examples=400, deadline=None)
@given(
    st.just(A) | number_nodes, orders, st.just(A) | st.just(B) | number_nodes, message_properties()
)
def test_order_has_one_meaning(left: Node, order: str, right: Node, properties: Properties) -> None:
    one, other = value_of(left), value_of(right)
    test = ordered_test(left, order, right, one, other)

    fast = outcome(lambda: test(properties))

    assert fast is outcome(lambda: values_ordered(one(properties), order, other(properties)))


@settings(max_examples=400, deadline=None)
@given(
    st.just(A) | number_nodes,
    st.just(B) | number_nodes,
    number_nodes,
    st.booleans(),
    message_properties(),
)
def test_between_is_two_comparisons(
    operand: Node, low: Node, high: Node, inside: bool, properties: Properties
) -> None:
    values = [value_of(node) for node in (operand, low, high)]
    test = between_test(Between(operand, low, high, inside), values)

    value, lower, upper = (evaluate(properties) for evaluate in values)
    first, second = (">=", "<=") if inside else ("<", ">")

    def two_comparisons() -> bool | None:
        one = values_ordered(value, first, lower)
        if one is (not inside):
            return one
        other = values_ordered(value, second, upper)
        return None if one is None and other is inside else other

    assert outcome(lambda: test(properties)) is outcome(two_comparisons)


def test_the_operand_of_between_is_computed_once() -> None:
    calls: list[Properties] = []

    def operand(properties: Properties) -> Value:
        calls.append(properties)
        return "3"

    values: list[Evaluate] = [operand, lambda _: 1, lambda _: 5]
    test = between_test(Between(Negative(A), Constant(1), Constant(5), inside=True), values)

    assert test({}) is True
    assert len(calls) == 1


def test_with_the_left_side_missing_the_right_one_is_not_computed() -> None:
    def fail(_properties: Properties) -> Value:
        raise ValueError

    test = ordered_test(A, ">", Negative(B), value_of(A), fail)

    assert test({}) is None
    with pytest.raises(ValueError, match=r"^"):
        test({"a": "5"})


@pytest.mark.parametrize(
    ("node", "number"),
    [
        (Constant(5), 5),
        (Negative(Constant(5)), -5),
        (Negative(Negative(Constant(5.5))), 5.5),
        (Constant("5"), None),
        (Constant(value=True), None),
        (Negative(Constant(value=True)), None),
        (Constant(None), None),
        (Negative(A), None),
    ],
)
def test_only_numbers_and_their_negatives_are_constant_numbers(
    node: Node, number: float | None
) -> None:
    assert constant_number(node) == number
