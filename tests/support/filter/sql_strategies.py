"""Hypothesis strategies for SQL92: trees, texts that say them, and properties to test them on."""

from __future__ import annotations

from hypothesis import strategies as st

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
)

NAMES = ("a", "b", "c", "$x_1", "Not_")
ODD_VALUES = ("", "5", "-5", "5.0", "x", "true", "NaN", " 5 ", "3000000000", "1e400", "0x1p3")

numbers = st.one_of(
    st.integers(0, 10),
    st.integers(2**31 - 2, 2**31 + 2),
    st.integers(0, 2**63 - 1),
    st.floats(5e-324, 1.7e308, allow_nan=False, allow_infinity=False),
)
texts = st.text(max_size=8)
properties_nodes = st.builds(Property, st.sampled_from(NAMES))
ordered_operands = st.recursive(
    properties_nodes | st.builds(Constant, numbers),
    lambda inner: st.builds(Negative, inner),
    max_leaves=2,
)


def message_properties() -> st.SearchStrategy[dict[str, str]]:
    values = st.sampled_from(ODD_VALUES) | numbers.map(str) | texts
    return st.dictionaries(st.sampled_from((*NAMES, "d")), values)


def conditions() -> st.SearchStrategy[Node]:
    """Trees that the parser can produce, and accepts."""
    return st.recursive(_leaves(), _joined, max_leaves=12)


def expressions() -> st.SearchStrategy[str]:
    return conditions().map(spelled)


def _leaves() -> st.SearchStrategy[Node]:
    operands = properties_nodes | st.builds(Constant, numbers | texts)
    searches = st.sampled_from(("CONTAINS", "STARTSWITH", "ENDSWITH"))
    return st.one_of(
        st.builds(Constant, st.sampled_from((True, False, None))),
        st.builds(Flag, st.sampled_from(NAMES)),
        st.builds(Equal, operands, operands),
        st.builds(
            Ordered, ordered_operands, st.sampled_from((">", ">=", "<", "<=")), ordered_operands
        ),
        st.builds(Between, ordered_operands, properties_nodes, ordered_operands, st.booleans()),
        st.builds(OneOf, st.sampled_from(NAMES), st.frozensets(texts, min_size=1, max_size=7)),
        st.builds(Search, operands, searches, texts, st.booleans()),
        st.builds(IsNull, operands),
    )


def _joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    # As a value, a name is a property and not a flag, and nothing is compared with NULL.
    as_value = inner.filter(lambda node: not isinstance(node, Flag) and node != Constant(None))
    return st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, several),
        st.builds(AnyOf, several),
        st.builds(IsNull, st.builds(Negative, as_value)),
        st.builds(Equal, properties_nodes, as_value),
    )


def spelled(node: Node) -> str:
    """The text of a tree, with parentheses around every part."""
    match node:
        case Constant(value=value):
            return _constant(value)
        case Property(name=name) | Flag(name=name):
            return name
        case Negative(operand=operand):
            return f"-({spelled(operand)})"
        case Equal(left=left, right=right):
            return f"({spelled(left)}) = ({spelled(right)})"
        case Ordered(left=left, order=order, right=right):
            return f"({spelled(left)}) {order} ({spelled(right)})"
        case Between(operand=operand, low=low, high=high, inside=inside):
            word = "BETWEEN" if inside else "NOT BETWEEN"
            return f"({spelled(operand)}) {word} ({spelled(low)}) AND ({spelled(high)})"
        case OneOf(name=name, texts=listed):
            return f"{name} IN ({', '.join(map(_constant, sorted(listed)))})"
        case Search(operand=operand, how=how, text=text, found=found):
            word = how if found else f"NOT {how}"
            return f"({spelled(operand)}) {word} {_constant(text)}"
        case IsNull(operand=operand):
            return f"({spelled(operand)}) IS NULL"
        case Not(condition=condition):
            return f"NOT ({spelled(condition)})"
        case AllOf(conditions=parts) | AnyOf(conditions=parts):
            word = "AND" if isinstance(node, AllOf) else "OR"
            return f" {word} ".join(f"({spelled(part)})" for part in parts)


def _constant(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "NULL"
    return repr(value).upper()
