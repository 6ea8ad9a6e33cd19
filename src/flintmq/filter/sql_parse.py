"""SQL92 text to a tree, with every check that RocketMQ makes when it compiles an expression.

lark holds the LALR table; this module feeds it one word at a time and builds nodes as rules are
completed, so nothing here recurses however deep the text is.

Text after a complete expression is not read.  RocketMQ stops at the first word that cannot
continue the expression, and so do we: ``a > 5 LIMIT 3`` is ``a > 5``.  What was left is reported
as `Parsed.unread`, because the author of ``name LIKE 'x%'`` would want to know.

_Refused here: anything RocketMQ 5 refuses, and expressions over our own limits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from lark import Lark, Token, Transformer, UnexpectedToken, v_args

from flintmq.errors import ExpressionTooLarge, InvalidExpression
from flintmq.filter.sql_tokens import END, SPELLINGS, scan
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
    is_condition,
)

if TYPE_CHECKING:
    from lark.parsers.lalr_interactive_parser import InteractiveParser

# As long as the properties of a message may be.  Characters are cheap; words are not.
EXPRESSION_CHARS_MAX = 32_768

# One hostile text must not hold a broker's loop.  The words of a list behind IN cost 3 µs each when
# they are read and nothing later; all others up to 6 µs, and 0.3 µs for every message tested.
WORDS_MAX = 8_192
OPERATIONS_MAX = 2_048

# A level is two Python calls when it is compiled and one when a message is tested; the interpreter
# allows a thousand.
NESTING_MAX = 200

# What an error shows of a text over a limit.
SHOWN_CHARS = 80

INT64_MAX = 2**63 - 1
INT64_DIGITS_MAX = 19

GRAMMAR = r"""
?start: any

?any: all
    | all (_OR all)+                        -> any_of
?all: equality
    | equality (_AND equality)+             -> all_of

?equality: comparison
    | equality _EQUAL comparison            -> equal
    | equality _UNEQUAL comparison          -> unequal
    | equality _IS NULL                     -> is_null
    | equality _IS _NOT NULL                -> is_not_null

?comparison: unary
    | comparison ORDER unary                -> ordered
    | comparison _BETWEEN unary _AND unary  -> between
    | comparison _NOT _BETWEEN unary _AND unary  -> not_between
    | comparison _IN texts                  -> one_of
    | comparison _NOT _IN texts             -> none_of
    | comparison SEARCH TEXT                -> search
    | comparison _NOT SEARCH TEXT           -> not_search

texts: _OPEN TEXT (_COMMA TEXT)* _CLOSE

?unary: primary
    | _PLUS unary                           -> nested
    | _MINUS unary                          -> negative
    | _NOT unary                            -> negation

?primary: _OPEN any _CLOSE                  -> nested
    | INTEGER                               -> integer
    | FLOAT                                 -> double
    | TEXT                                  -> text
    | TRUE                                  -> true
    | FALSE                                 -> false
    | NULL                                  -> null
    | NAME                                  -> property

%declare _OR _AND _NOT _EQUAL _UNEQUAL _IS _BETWEEN _IN _OPEN _CLOSE _COMMA _PLUS _MINUS
%declare ORDER SEARCH INTEGER FLOAT TEXT TRUE FALSE NULL NAME
"""


_LISTED = frozenset({"TEXT", "_COMMA"})
"""Words that a list is made of."""


class Parsed(NamedTuple):
    """The tree of an expression, the text after it that was not read, and how much was.

    ``operations`` are the words without texts and commas.
    """

    tree: Node
    unread: str
    operations: int = 0


class Part(NamedTuple):
    """A finished piece of the tree, where it starts in the text and how deep it is."""

    node: Node
    column: int
    depth: int


class _Refused(Exception):
    """A check failed; `parse_sql` adds the text and raises it as `InvalidExpression`."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


def parse_sql(text: str) -> Parsed:
    if len(text) > EXPRESSION_CHARS_MAX:
        reason = f"an expression may have {EXPRESSION_CHARS_MAX} characters, not {len(text)}"
        raise _too_large(text, 1, reason)

    parser = _parser().parse_interactive()
    try:
        stop, operations = _feed(parser, text)
        try:
            part = parser.feed_token(Token(END, "", stop.start_pos))
        except UnexpectedToken:
            raise _Refused(_column(stop), _complaint(parser, stop)) from None
        return Parsed(_condition(part), text[stop.start_pos :], operations)
    except _Refused as refused:
        raise InvalidExpression(text, refused.column, refused.reason) from None


def _feed(parser: InteractiveParser, text: str) -> tuple[Token, int]:
    """Feed words until one cannot continue the expression; return that one, and their number.

    Raises `ExpressionTooLarge` at the first word too many.
    """
    operations = 0
    for count, token in enumerate(scan(text)):
        if token.type == END:
            return token, operations
        operations += token.type not in _LISTED
        if operations > OPERATIONS_MAX:
            reason = f"an expression may have {OPERATIONS_MAX} names, values and operators"
            raise _too_large(text, _column(token), reason)
        if count >= WORDS_MAX:
            reason = f"an expression may have {WORDS_MAX} words"
            raise _too_large(text, _column(token), reason)
        try:
            parser.feed_token(token)
        except UnexpectedToken:
            return token, operations
    raise AssertionError("a scan ends with the END token")


def _too_large(text: str, column: int, reason: str) -> ExpressionTooLarge:
    """The error for an expression over a limit; it shows the start of the text."""
    return ExpressionTooLarge(text[:SHOWN_CHARS], min(column, SHOWN_CHARS), reason)


def _complaint(parser: InteractiveParser, stop: Token) -> str:
    wanted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    if "NAME" in wanted:
        expected = "a property name, a value or ("
    else:
        expected = ", ".join(sorted(SPELLINGS[kind] for kind in wanted))
    found = "the expression ends here" if stop.type == END else f"{stop.value} cannot stand here"
    return f"{found}; expected {expected}"


@v_args(inline=True)
class _Builder(Transformer[Token, Part]):
    """Builds the tree of an expression; a method for each named alternative of the grammar."""

    def any_of(self, *parts: Part) -> Part:
        return _join(AnyOf(tuple(_condition(part) for part in parts)), *parts)

    def all_of(self, *parts: Part) -> Part:
        return _join(AllOf(tuple(_condition(part) for part in parts)), *parts)

    def equal(self, left: Part, right: Part) -> Part:
        return _join(_equality(left, right), left, right)

    def unequal(self, left: Part, right: Part) -> Part:
        return _join(Not(_equality(left, right)), left, right)

    def is_null(self, operand: Part, _null: Token) -> Part:
        return _join(IsNull(operand.node), operand)

    def is_not_null(self, operand: Part, _null: Token) -> Part:
        return _join(Not(IsNull(operand.node)), operand)

    def ordered(self, left: Part, order: Token, right: Part) -> Part:
        _need_order(left, right)
        return _join(Ordered(left.node, order.value, right.node), left, right)

    def between(self, operand: Part, low: Part, high: Part) -> Part:
        _need_order(operand, low, high)
        if _is_below(high.node, low.node):
            raise _Refused(high.column, "the upper bound of BETWEEN is below the lower one")
        return _join(Between(operand.node, low.node, high.node, inside=True), operand, low, high)

    def not_between(self, operand: Part, low: Part, high: Part) -> Part:
        _need_order(operand, low, high)
        return _join(Between(operand.node, low.node, high.node, inside=False), operand, low, high)

    def texts(self, *texts: Token) -> frozenset[str]:
        return frozenset(_unquoted(text) for text in texts)

    def one_of(self, operand: Part, texts: frozenset[str]) -> Part:
        return _join(OneOf(_name(operand), texts), operand)

    def none_of(self, operand: Part, texts: frozenset[str]) -> Part:
        return _join(Not(OneOf(_name(operand), texts)), operand)

    def search(self, operand: Part, how: Token, text: Token) -> Part:
        node = Search(operand.node, how.value.upper(), _unquoted(text), found=True)
        return _join(node, operand)

    def not_search(self, operand: Part, how: Token, text: Token) -> Part:
        node = Search(operand.node, how.value.upper(), _unquoted(text), found=False)
        return _join(node, operand)

    def nested(self, part: Part) -> Part:
        return _join(part.node, part)

    def negative(self, part: Part) -> Part:
        return _join(Negative(part.node), part)

    def negation(self, part: Part) -> Part:
        return _join(Not(_condition(part)), part)

    def integer(self, token: Token) -> Part:
        digits = token.value.rstrip("lL")
        if len(digits) > INT64_DIGITS_MAX or int(digits) > INT64_MAX:
            raise _Refused(_column(token), "this number does not fit in 64 bits")
        return _leaf(Constant(int(digits)), token)

    def double(self, token: Token) -> Part:
        value = float(token.value)
        if math.isinf(value):
            raise _Refused(_column(token), "this number is too large for a double")
        if value == 0.0:
            raise _Refused(_column(token), "a double cannot be zero or this close to it; write 0")
        return _leaf(Constant(value), token)

    def text(self, token: Token) -> Part:
        return _leaf(Constant(_unquoted(token)), token)

    def true(self, token: Token) -> Part:
        return _leaf(Constant(value=True), token)

    def false(self, token: Token) -> Part:
        return _leaf(Constant(value=False), token)

    def null(self, token: Token) -> Part:
        return _leaf(Constant(None), token)

    def property(self, token: Token) -> Part:
        return _leaf(Property(token.value), token)


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder())


def _column(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos + 1


def _leaf(node: Node, token: Token) -> Part:
    return Part(node, _column(token), 1)


def _join(node: Node, first: Part, *rest: Part) -> Part:
    depth = 1 + max(first.depth, *(part.depth for part in rest)) if rest else 1 + first.depth
    if depth > NESTING_MAX:
        raise _Refused(first.column, f"nested more than {NESTING_MAX} levels deep")
    return Part(node, first.column, depth)


def _unquoted(token: Token) -> str:
    return str(token)[1:-1].replace("''", "'")


def _condition(part: Part) -> Node:
    if is_condition(part.node):
        return part.node
    if isinstance(part.node, Property):
        return Flag(part.node.name)
    raise _Refused(part.column, "this is a value, and a condition is needed here")


def _name(part: Part) -> str:
    if isinstance(part.node, Property):
        return part.node.name
    raise _Refused(part.column, "IN needs a property name on its left")


def _equality(left: Part, right: Part) -> Equal:
    for part in (left, right):
        if part.node == Constant(None):
            raise _Refused(part.column, "nothing equals NULL; write IS NULL")
    both_constant = isinstance(left.node, Constant) and isinstance(right.node, Constant)
    if both_constant and is_condition(left.node) and not is_condition(right.node):
        raise _Refused(right.column, "TRUE and FALSE cannot be compared with this")
    return Equal(left.node, right.node)


def _need_order(*parts: Part) -> None:
    for part in parts:
        is_text = isinstance(part.node, Constant) and isinstance(part.node.value, str)
        if is_text or is_condition(part.node):
            raise _Refused(part.column, "only numbers and properties have an order")


def _is_below(node: Node, other: Node) -> bool:
    """Whether both literals are numbers, and the first is smaller once widened as in Java."""
    if not (isinstance(node, Constant) and isinstance(other, Constant)):
        return False
    value, limit = node.value, other.value
    assert isinstance(value, int | float)
    assert isinstance(limit, int | float)
    if isinstance(value, float) or isinstance(limit, float):
        return float(value) < float(limit)
    return value < limit
