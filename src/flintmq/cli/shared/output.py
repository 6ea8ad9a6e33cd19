r"""What the commands that ask a cluster have in common: how they print and how they end.

    exit 0   done
    exit 1   the answer is no: not found, refused, nothing there
    exit 2   the command line makes no sense: an address, a name, an expression, a number
    exit 3   no answer: the name server or a broker could not be reached

Results go to stdout, as tables for people or as JSON for programs; everything else goes to
stderr.  An error is one sentence and, where there is one, what to do about it.

What others wrote, names and bodies, is shown to people as `printable` does: no terminal obeys it,
and it is never read as markup.  JSON has every value as it is, such characters as ``\uXXXX``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from flintmq.errors import (
    BrokerRefused,
    FlintError,
    InvalidExpression,
    InvalidName,
    InvalidSetting,
    LocalProtocolError,
    NoRoute,
    Unreachable,
)
from flintmq.printable import is_shown, printable, printable_lines
from flintmq.protocol.codes import ResponseCode

SAYS_NO = 1
MAKES_NO_SENSE = 2
NO_ANSWER = 3

EXIT_CODES = (
    "Exit codes: 0 done; 1 the answer is no; 2 the command line makes no sense; 3 no answer."
)
"""What the help of these commands ends with."""


class Output(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]

_HINTS = {
    ResponseCode.NO_PERMISSION: "does the account have this right? see --access-key",
    ResponseCode.TOPIC_NOT_EXIST: "flintmq topic list shows what is there",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "flintmq group list shows what is there",
    ResponseCode.SYSTEM_BUSY: "the broker is busy: try again",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "this broker is too old for that",
}


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """End the command with one sentence when something went wrong."""
    try:
        yield
    except Unreachable as error:
        hint = "is it running there? --namesrv or NAMESRV_ADDR say where the name server is"
        exit_with(f"no answer from {error}", NO_ANSWER, hint)
    except NoRoute as error:
        exit_with(str(error), SAYS_NO, "flintmq topic list shows what is there")
    except BrokerRefused as error:
        exit_with(str(error), SAYS_NO, _HINTS.get(_known(error.code)))
    except (InvalidSetting, InvalidName, InvalidExpression, LocalProtocolError) as error:
        exit_with(str(error), MAKES_NO_SENSE)
    except FlintError as error:
        exit_with(str(error), SAYS_NO)


def _known(code: int) -> ResponseCode:
    try:
        return ResponseCode(code)
    except ValueError:
        return ResponseCode.SYSTEM_ERROR


def exit_with(sentence: str, code: int = SAYS_NO, hint: str | None = None) -> NoReturn:
    say(sentence)
    if hint is not None:
        say(hint)
    raise typer.Exit(code) from None


def say(line: str) -> None:
    """One line for people, on stderr."""
    line = escape(printable_lines(line))
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"[red]flintmq:[/] {line}")


def print_json(facts: object) -> None:
    for line in msgspec.json.format(msgspec.json.encode(facts), indent=2).decode().split("\n"):
        typer.echo(_safe_json(line))


def print_json_line(facts: object) -> None:
    typer.echo(_safe_json(msgspec.json.encode(facts).decode()))


def _safe_json(text: str) -> str:
    """The same values; what a terminal could obey is within strings, and is escaped there."""
    if text.isprintable():
        return text
    return "".join(c if is_shown(c) else json.dumps(c)[1:-1] for c in text)


def shown(text: object) -> str:
    """Text of others as a part of markup."""
    return escape(printable(str(text)))


def print_table(head: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    print_line(make_table(head, rows))


def make_table(head: Iterable[str], rows: Iterable[Sequence[object]]) -> Table:
    """Numbers go to the right.  A missing value is a dash."""
    rows = list(rows)
    columns = [
        Column(
            name,
            overflow="fold",
            justify="right" if any(isinstance(row[at], int) for row in rows) else "left",
        )
        for at, name in enumerate(head)
    ]
    table = Table(*columns)
    for row in rows:
        table.add_row(*("-" if cell is None else shown(cell) for cell in row))
    return table


def print_line(what: object) -> None:
    """A line of text, or something that `rich` draws."""
    drawn = Text(printable(what)) if isinstance(what, str) else what
    Console(soft_wrap=True, highlight=False).print(drawn)


def timestamp(time_ms: int | None) -> str | None:
    """A time for people, in their zone."""
    if time_ms is None:
        return None
    try:
        at = datetime.fromtimestamp(time_ms / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"
