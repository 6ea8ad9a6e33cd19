"""The `flintmq` command: where its parts are put together.

A part loads what it works with, and all of them take longer to load than a server to start.  So
who names a command gets a `flintmq` that has only this one; its help and its errors are the same.
Whoever asks for help, completes a word or names something unknown gets all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer

from flintmq import __version__


class CommandPart(NamedTuple):
    """Where a command, or a group of commands, is defined."""

    module: str
    attribute: str


PARTS: Final = {
    "demo": CommandPart("flintmq.cli.demo.demo_command", "demo"),
    "serve": CommandPart("flintmq.cli.serve", "serve"),
    "namesrv": CommandPart("flintmq.cli.namesrv", "namesrv"),
    "broker": CommandPart("flintmq.cli.broker", "broker"),
    "run": CommandPart("flintmq.cli.run", "run"),
    "send": CommandPart("flintmq.cli.send", "send"),
    "tail": CommandPart("flintmq.cli.tail", "tail"),
    "lake": CommandPart("flintmq.cli.lake", "lake"),
    "topic": CommandPart("flintmq.cli.topic.topic_report_command", "app"),
    "group": CommandPart("flintmq.cli.group.group_commands", "app"),
    "message": CommandPart("flintmq.cli.message", "app"),
    "dlq": CommandPart("flintmq.cli.dlq.dlq_spark", "app"),
    "store": CommandPart("flintmq.cli.store", "app"),
}
"""Commands, and groups of commands, by their names."""

ASKING: Final = frozenset({"send", "tail", "lake"})
"""Commands that ask a cluster: their help tells the exit codes.  Groups tell it themselves."""


def make_app(names: Iterable[str] = PARTS) -> typer.Typer:
    """The command with these parts."""
    app = typer.Typer(
        name="flintmq",
        help="Apache RocketMQ from Python and Spark.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(flintmq)
    for name in names:
        part = getattr(import_module(PARTS[name].module), PARTS[name].attribute)
        if isinstance(part, typer.Typer):
            app.add_typer(part, name=name)
        elif name in ASKING:
            from flintmq.cli.shared.output import EXIT_CODES  # it loads what prints tables

            app.command(name, epilog=EXIT_CODES)(part)
        else:
            app.command(name)(part)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flintmq {__version__}")
        raise typer.Exit


def flintmq(
    version: Annotated[  # typer calls back before the value is used
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Apache RocketMQ from Python and Spark."""


def main() -> None:
    named = sys.argv[1:2]
    make_app(named if set(named) <= PARTS.keys() and named else PARTS)()
