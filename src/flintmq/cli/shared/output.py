r"""What the commands that ask a cluster have in common: how they print and how they end.

    exit 0   done
    exit 1   failed or not found: refused, nothing there
    exit 2   usage error: an address, a name, an expression, a number
    exit 3   server unreachable: the name server or a broker did not answer

Results go to stdout, as tables for people (`tables`) or as JSON for programs; everything else goes
to stderr.  An error is one sentence and, where there is one, what to do about it.

What others wrote, names and bodies, is shown to people as `printable` does: no terminal obeys it,
and it is never read as markup.  JSON has every value as it is, such characters as ``\uXXXX``.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
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
from flintmq.net.reasons import CLOSED_BY_PEER, RESET
from flintmq.printable import is_shown, printable, printable_lines
from flintmq.protocol.codes import ResponseCode

FAILED = 1
USAGE_ERROR = 2
UNREACHABLE = 3


class Output(StrEnum):
    """The output formats of a command."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
_JsonFlag = Annotated[bool, typer.Option("--json", help="The same as --output json.")]


def with_json(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes --json too, where it takes --output."""
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    at = next((at for at, each in enumerate(parameters) if each.name == "output"), None)
    if at is None:
        return command

    def run(*, as_json: bool, **given: Any) -> None:
        command(**(given | {"output": Output.JSON} if as_json else given))

    flag = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_JsonFlag
    )
    return with_parameters(run, command, [*parameters[: at + 1], flag, *parameters[at + 1 :]])


def with_parameters(
    run: Callable[..., None],
    command: Callable[..., None],
    parameters: Iterable[inspect.Parameter],
) -> Callable[..., None]:
    """``run`` in place of a command: with its name and text, and these parameters for typer."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=keyword) for each in parameters]
    run.__module__ = command.__module__
    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


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
        exit_with(f"no answer from {error}", UNREACHABLE, _hint_of(error))
    except NoRoute as error:
        exit_with(str(error), FAILED, "flintmq topic list shows what is there")
    except BrokerRefused as error:
        exit_with(str(error), FAILED, _HINTS.get(_known(error.code)))
    except (InvalidSetting, InvalidName, InvalidExpression, LocalProtocolError) as error:
        exit_with(str(error), USAGE_ERROR)
    except FlintError as error:
        exit_with(str(error), FAILED)


def _hint_of(error: Unreachable) -> str | None:
    """What to do about a server that did not answer; nothing where the reason says it."""
    if "certificate" in error.reason:
        return None
    if error.reason in (CLOSED_BY_PEER, RESET):
        return "does it want TLS? --tls-ca FILE trusts its certificate, --tls-cert FILE shows yours"
    if "speak TLS" in error.reason:
        return "is it a server without TLS? leave --tls, --tls-ca and --tls-cert out"
    return "is it running there? --namesrv, NAMESRV_ADDR or --cluster say where to ask"


def _known(code: int) -> ResponseCode:
    try:
        return ResponseCode(code)
    except ValueError:
        return ResponseCode.SYSTEM_ERROR


def exit_with(sentence: str, code: int = FAILED, hint: str | None = None) -> NoReturn:
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
    """JSON in which characters that could control a terminal are escaped; values stay the same."""
    if text.isprintable():
        return text
    return "".join(c if is_shown(c) else json.dumps(c)[1:-1] for c in text)


def shown(text: object) -> str:
    """Text from peers, escaped for the markup of `rich`."""
    return escape(printable(str(text)))


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


def when(time_ms: int | None) -> str | None:
    """A time in a table: a terminal shows no date for a time of today."""
    text = timestamp(time_ms)
    if text is None or not sys.stdout.isatty():
        return text
    return text.removeprefix(f"{datetime.now().astimezone():%Y-%m-%d} ")
