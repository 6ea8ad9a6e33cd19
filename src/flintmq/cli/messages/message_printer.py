"""Prints messages one by one, as `tail` and `consume` do: by a format, or as JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from flintmq.cli.shared.message_format import Template
from flintmq.cli.shared.message_view import facts_of
from flintmq.cli.shared.output import Output, print_json_line
from flintmq.model.message import ReceivedMessage


class Enough(Exception):  # no error: the wanted number is reached
    """Raised when the wanted number of messages is printed."""


def message_printer(
    output: Output, template: str, count: int | None
) -> Callable[[ReceivedMessage], None]:
    """The function that prints a message; it raises `Enough` after the last wanted one."""
    shown, line, for_people = 0, Template(template), sys.stdout.isatty()

    def show(message: ReceivedMessage) -> None:
        nonlocal shown
        if output is Output.JSON:
            print_json_line(facts_of(message))
        else:
            written = line.fill_for_people(message) if for_people else line.fill(message)
            typer.echo(written, nl=False)
        shown += 1
        if shown == count:
            raise Enough

    return show


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """End in silence when the reader of a pipe has seen enough."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more to flush
