"""What a parsed SQL92 expression is made of: frozen nodes, without behaviour.

An **operand** is a value: `Constant`, `Property`, `Negative`.  A **condition** is true, false or
unknown.  The constants TRUE, FALSE and NULL are both.  RocketMQ lets a condition stand where a
value is wanted, as in ``(a > 5) = TRUE``, so the fields of a comparison may hold either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Node


@dataclass(frozen=True, slots=True)
class Flag:
    """A property used as a condition."""

    name: str


@dataclass(frozen=True, slots=True)
class Equal:
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Ordered:
    left: Node
    order: str  # > >= < <=
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    operand: Node
    low: Node
    high: Node
    inside: bool  # False is NOT BETWEEN


@dataclass(frozen=True, slots=True)
class OneOf:
    name: str
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Search:
    operand: Node
    how: str  # CONTAINS STARTSWITH ENDSWITH
    text: str
    found: bool  # False is the NOT form, which is not the opposite: see `sql_eval`


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Node


@dataclass(frozen=True, slots=True)
class Not:
    condition: Node


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: tuple[Node, ...]


Node: TypeAlias = (
    Constant
    | Property
    | Negative
    | Flag
    | Equal
    | Ordered
    | Between
    | OneOf
    | Search
    | IsNull
    | Not
    | AllOf
    | AnyOf
)


def is_condition(node: Node) -> bool:
    match node:
        case Constant(value=value):
            return value is None or isinstance(value, bool)
        case Property() | Negative():
            return False
        case _:
            return True
