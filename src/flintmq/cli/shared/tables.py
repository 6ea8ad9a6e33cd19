"""Tables for people.

A cell is never cut, and wrapped only in a column whose title is `Wrapped`, so that ids, client ids,
names and times can be copied.  On a terminal the wrapped columns give way; where that is not
enough, each row is shown as a block of lines, ``title  value``.  Where stdout is no terminal,
nothing is wrapped at all, and `grep` finds what is there.

What others wrote is shown as `printable` does, and is never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from flintmq.printable import printable

MISSING: Final = "\N{EN DASH}"
"""What stands for a value that there is not."""

WRAPPED_MIN: Final = 10
"""Characters a wrapped column keeps; with fewer nobody reads it."""

GAP: Final = 2
"""Spaces between two columns."""

ENDLESS: Final = 1_000_000
"""Characters of a line where nothing shows lines: more than a table has."""


class Wrapped(str):
    """The title of a column that may be wrapped: bodies, lists of names, sentences."""

    __slots__ = ()


def print_table(
    head: Iterable[str], rows: Iterable[Sequence[object]], console: Console | None = None
) -> None:
    """Print a table as wide as it needs, or as the terminal lets it."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=ENDLESS)
    drawn = make_table(head, rows, console.width)
    console.print(drawn, crop=False, soft_wrap=not isinstance(drawn, Table))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values of one thing, a line for each."""
    rows = [(printable(name), _cell(value)) for name, value in fields]
    drawn = _blocks([name for name, _ in rows], [[value for _, value in rows]])
    Console(highlight=False).print(drawn, soft_wrap=True)


def make_table(head: Iterable[str], rows: Iterable[Sequence[object]], width: int) -> RenderableType:
    """The table, or blocks if it cannot be had in this width.

    Numbers go to the right.  A missing value is a dash.
    """
    titles = tuple(head)
    rows = list(rows)
    cells = [[_cell(value) for value in row] for row in rows]
    if _width_min(titles, cells) > width:
        return _blocks(titles, cells)
    columns = (
        Column(
            Text(title),
            no_wrap=not isinstance(title, Wrapped),
            overflow="fold" if isinstance(title, Wrapped) else "crop",
            justify="right" if any(_is_number(row[at]) for row in rows) else "left",
        )
        for at, title in enumerate(titles)
    )
    table = Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding = (0, GAP - 1, 0, 0)  # and a blank of the box
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _blocks(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Text:
    wide = max(map(cell_len, titles))
    blocks = (
        "\n".join(_line(title, wide, value) for title, value in zip(titles, row, strict=True))
        for row in rows
    )
    return Text("\n\n".join(blocks))


def _line(title: str, wide: int, value: str) -> str:
    return f"{title}{' ' * (wide - cell_len(title) + GAP)}{value}"


def _width_min(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """The width below which something would be cut."""
    needed = [cell_len(title) for title in titles]
    for row in rows:
        for at, text in enumerate(row):
            length = cell_len(text)
            if isinstance(titles[at], Wrapped):
                length = min(length, WRAPPED_MIN)
            needed[at] = max(needed[at], length)
    return sum(needed) + GAP * (len(needed) - 1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return MISSING
    return f"{value:.1f}" if isinstance(value, float) else printable(str(value))
