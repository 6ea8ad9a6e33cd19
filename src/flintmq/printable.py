r"""Text of others for people: in a log, on a terminal, in the sentence of an error.

A name, a remark or a body may hold anything: a line feed that begins a forged line, an escape
sequence that a terminal obeys, marks that turn the order of letters.  What cannot be seen is
written out, as ``\n``, ``\x1b`` or ``\u202e``; letters of every script and plain spaces stay.

Never for what programs read: files, frames, JSON.

Invariant: what `printable` returns is one line without controls.
"""

from __future__ import annotations

from typing import Final
from unicodedata import category

_SPACES = "Zs"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

REASON_CHARACTERS_MAX: Final = 400
"""Of a reason that people read beside what was wrong."""


def printable(text: str) -> str:
    """One line in which every character can be seen."""
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_reason(text: str) -> str:
    """`printable` for the reason of an error, which may repeat a body: its beginning."""
    said = printable(text)
    return said if len(said) <= REASON_CHARACTERS_MAX else said[: REASON_CHARACTERS_MAX - 1] + "…"


def printable_lines(text: str) -> str:
    """`printable` for text of several lines: line ends and tabs stay."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def is_shown(character: str) -> bool:
    """Whether a character can be seen, or is a plain space."""
    return character.isprintable() or category(character) == _SPACES


def _shown(character: str) -> str:
    if is_shown(character):
        return character
    return _SHORT.get(character) or ascii(character)[1:-1]
