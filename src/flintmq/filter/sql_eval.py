"""SQL92 expressions as predicates over message properties.

`compile_sql` turns the tree of `sql_parse` into closures once; testing a message walks no tree.
A closure returns True, False or None for unknown, and raises `ValueError` where RocketMQ fails:
a property that is no number of the wanted type, or a condition compared with a text.  Such a
failure ends the whole test, also under NOT and OR, and the message does not match.

The rules that surprise, each checked against RocketMQ 5.3.3:

- A property is always text.  The number beside it decides how it is read: ``a > 5`` reads an
  int32, ``a > 3000000000`` an int64, ``a > 5.0`` a double.
- Equality of two missing values is true.  With the left one missing it is unknown, with the right
  one missing it is **false**: ``a = 5`` and ``5 = a`` differ for a message without ``a``.
- The NOT forms of CONTAINS, STARTSWITH and ENDSWITH are false, like the plain ones, for a missing
  property, an empty search text or a value that is no text.
- The minus sign of anything but a number is a missing value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    Value,
)
from flintmq.filter.sql_values import (
    Evaluate,
    Properties,
    Test,
    between_test,
    equal_test,
    ordered_test,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_SEARCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


@dataclass(frozen=True, slots=True)
class SqlPredicate:
    """A compiled expression.

    ``names`` are the properties it looks at.  ``unread`` is the text after the complete
    expression, which has no effect; it is worth a warning to whoever wrote it.  ``decide`` is the
    bare closure, which raises `ValueError` where RocketMQ fails.  ``operations`` says how much work
    a test is: names, values and operators.
    """

    text: str
    names: frozenset[str]
    unread: str
    decide: Test = field(repr=False, compare=False)
    operations: int = field(default=1, repr=False, compare=False)

    def matches(self, properties: Properties) -> bool:
        """Whether the expression is true for these properties.  Never raises."""
        try:
            return self.decide(properties) is True
        except ValueError:
            return False

    def evaluate(self, properties: Properties) -> bool | None:
        """True, False, or None when the result is unknown or cannot be computed."""
        try:
            return self.decide(properties)
        except ValueError:
            return None


def load_parser() -> None:
    """Load what the first `compile_sql` would: some 50 ms that whoever has the time may spend."""
    from flintmq.filter.sql_parse import parse_sql

    parse_sql("a IS NULL")


def compile_sql(text: str) -> SqlPredicate:
    """Compile an expression, or raise `InvalidExpression`."""
    from flintmq.filter.sql_parse import parse_sql  # loads a parser, and few need one

    parsed = parse_sql(text)
    names: set[str] = set()
    decide = _test(parsed.tree, names)
    return SqlPredicate(text, frozenset(names), parsed.unread, decide, parsed.operations)


def _test(node: Node, names: set[str]) -> Test:
    """Compile a condition.  ``names`` collects the properties it uses."""
    match node:
        case Constant(value=value):
            assert value is None or isinstance(value, bool)
            return lambda _properties: value
        case Flag(name=name):
            names.add(name)
            return lambda properties: False if name in properties else None
        case Equal(left=left, right=right):
            return equal_test(left, right, _evaluate(left, names), _evaluate(right, names))
        case Ordered(left=left, order=order, right=right):
            return ordered_test(left, order, right, _evaluate(left, names), _evaluate(right, names))
        case Between(operand=operand, low=low, high=high):
            values = [_evaluate(each, names) for each in (operand, low, high)]
            return between_test(node, values)
        case OneOf(name=name, texts=texts):
            names.add(name)
            return _one_of(name, texts)
        case Search(operand=operand, how=how, text=text, found=found):
            return _search(_evaluate(operand, names), how, text, found=found)
        case IsNull(operand=operand):
            evaluate = _evaluate(operand, names)
            return lambda properties: evaluate(properties) is None
        case Not(condition=condition):
            return _negation(_test(condition, names))
        case AllOf(conditions=conditions) | AnyOf(conditions=conditions):
            tests = tuple([_test(condition, names) for condition in conditions])
            return _all_of(tests) if isinstance(node, AllOf) else _any_of(tests)
        case Property() | Negative():
            raise AssertionError(f"{node} is no condition")


def _evaluate(node: Node, names: set[str]) -> Evaluate:
    """Compile a value."""
    match node:
        case Constant(value=value):
            return lambda _properties: value
        case Property(name=name):
            names.add(name)
            return lambda properties: properties.get(name)
        case Negative(operand=operand):
            return _negative(_evaluate(operand, names))
        case _:
            return _test(node, names)


def _negative(evaluate: Evaluate) -> Evaluate:
    def negative(properties: Properties) -> Value:
        value = evaluate(properties)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
        return None

    return negative


def _one_of(name: str, texts: frozenset[str]) -> Test:
    def test(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else value in texts

    return test


def _search(evaluate: Evaluate, how: str, text: str, *, found: bool) -> Test:
    if not text:
        return lambda _properties: False
    search = _SEARCHES[how]

    def test(properties: Properties) -> bool | None:
        value = evaluate(properties)
        return isinstance(value, str) and search(value, text) is found

    return test


def _negation(condition: Test) -> Test:
    def test(properties: Properties) -> bool | None:
        result = condition(properties)
        return None if result is None else not result

    return test


def _all_of(tests: tuple[Test, ...]) -> Test:
    """AND: the first false one decides; unknown only if there is none."""

    def test(properties: Properties) -> bool | None:
        answer: bool | None = True
        for condition in tests:
            result = condition(properties)
            if result is False:
                return False
            if result is None:
                answer = None
        return answer

    return test


def _any_of(tests: tuple[Test, ...]) -> Test:
    """OR: the first true one decides; unknown only if there is none."""

    def test(properties: Properties) -> bool | None:
        answer: bool | None = False
        for condition in tests:
            result = condition(properties)
            if result:
                return True
            if result is None:
                answer = None
        return answer

    return test
