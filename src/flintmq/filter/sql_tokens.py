"""The words of SQL92: text in, tokens out, one at a time.

The longest word wins, and a keyword wins over a property name.  Keywords are read in any case,
property names are not changed.  Blanks and comments are dropped.  A line comment needs the end
of its line: without one, ``--`` is two minus signs, as in RocketMQ.

The scan is lazy, and that matters: text after a complete expression is never looked at, so a
character that is no part of SQL92 is only an error when the parser asks for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lark import Token

from flintmq.errors import InvalidExpression

if TYPE_CHECKING:
    from collections.abc import Iterator

END = "$END"  # what lark calls the end of the input

# A name that starts with an underscore is dropped by lark once it has done its work in the grammar.
KEYWORDS = {
    "NOT": "_NOT",
    "AND": "_AND",
    "OR": "_OR",
    "BETWEEN": "_BETWEEN",
    "IN": "_IN",
    "IS": "_IS",
    "TRUE": "TRUE",
    "FALSE": "FALSE",
    "NULL": "NULL",
    "CONTAINS": "SEARCH",
    "STARTSWITH": "SEARCH",
    "ENDSWITH": "SEARCH",
}
SIGNS = {
    "=": "_EQUAL",
    "<>": "_UNEQUAL",
    ">": "ORDER",
    ">=": "ORDER",
    "<": "ORDER",
    "<=": "ORDER",
    "(": "_OPEN",
    ")": "_CLOSE",
    ",": "_COMMA",
    "+": "_PLUS",
    "-": "_MINUS",
}

# What each kind is called in an error.
SPELLINGS: dict[str, str] = {
    END: "the end",
    "NAME": "a property name",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "TEXT": "a text in single quotes",
    "SEARCH": "CONTAINS, STARTSWITH or ENDSWITH",
    "ORDER": "> >= < or <=",
    **{kind: word for word, kind in (KEYWORDS | SIGNS).items() if kind not in {"SEARCH", "ORDER"}},
}

_WORD = re.compile(
    r"""
      (?P<NAME>    [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<FLOAT>   [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?
                 | \.[0-9]+(?:[eE][+-]?[0-9]+)?
                 | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<INTEGER> 0 | [1-9][0-9]*[lL]? )
    | (?P<TEXT>    '[^']*(?:''[^']*)*' )
    | (?P<SIGN>    <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE,
)
_BLANK = re.compile(r"(?:[ \t\n\r\f]|/\*.*?\*/)*", re.DOTALL)
_BLANK_OR_LINE_COMMENT = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*[\n\r]|/\*.*?\*/)*", re.DOTALL)

_LEXICAL_HINTS = {
    "'": "this quote is never closed",
    "/": "this is no comment: one starts with /* and ends with */",
    '"': "texts stand in single quotes",
    "!": "this character has no meaning; 'not equal' is written <>",
}


def scan(text: str) -> Iterator[Token]:
    """Yield the words of ``text``; the last one is `END`.  A word's column is ``start_pos + 1``."""
    # Past the last line end there can be no line comment; not looking for one there keeps a text
    # full of dashes linear.
    lines_end = max(text.rfind("\n"), text.rfind("\r"))
    position = 0
    while True:
        blank = _BLANK_OR_LINE_COMMENT if position <= lines_end else _BLANK
        if skipped := blank.match(text, position):
            position = skipped.end()
        if position == len(text):
            yield Token(END, "", position)
            return
        word = _WORD.match(text, position)
        if word is None:
            reason = _LEXICAL_HINTS.get(text[position], "this character has no meaning here")
            raise InvalidExpression(text, position + 1, reason)
        kind, found = word.lastgroup or "", word.group()
        if kind == "NAME":
            kind = KEYWORDS.get(found.upper(), kind)
        elif kind == "SIGN":
            kind = SIGNS[found]
        yield Token(kind, found, position)
        position = word.end()
