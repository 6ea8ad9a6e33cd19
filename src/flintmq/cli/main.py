"""The `flintmq` command: where its parts are put together.

A part loads what it works with, and all of them take longer to load than a server to start.  So
who names a command gets a `flintmq` that has only this one; its help and its errors are the same.
Whoever asks for help, completes a word or names something unknown gets all of them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer

from flintmq import __version__
from flintmq.cli.shared.help_page import (
    EXIT_CODES,
    INSPECT,
    MESSAGES,
    OFFLINE,
    OPERATE,
    RUN,
    SERVER_EXIT_CODES,
    HelpedGroup,
    dress,
)
from flintmq.cli.shared.profiles import CLUSTER_VARIABLE, complete_cluster


class CommandPart(NamedTuple):
    """Where a command, or a group of commands, is defined, and the panel of the help it is in."""

    module: str
    attribute: str
    panel: str
    more: Mapping[str, str] = {}
    """Commands that other modules add to the group when they are loaded: name and module."""


PARTS: Final = {
    "demo": CommandPart("flintmq.cli.demo.demo_command", "demo", RUN),
    "serve": CommandPart("flintmq.cli.serve", "serve", RUN),
    "namesrv": CommandPart("flintmq.cli.namesrv", "namesrv", RUN),
    "broker": CommandPart(
        "flintmq.cli.broker",
        "app",
        RUN,
        {
            "status": "flintmq.cli.cluster.broker_commands",
            "config": "flintmq.cli.cluster.broker_commands",
            "promote": "flintmq.cli.cluster.promote_command",
        },
    ),
    "proxy": CommandPart("flintmq.cli.proxy", "proxy", RUN),
    "console": CommandPart("flintmq.cli.console.console_command", "console", RUN),
    "run": CommandPart("flintmq.cli.run", "run", RUN),
    "send": CommandPart("flintmq.cli.send", "send", MESSAGES),
    "tail": CommandPart("flintmq.cli.tail", "tail", MESSAGES),
    "consume": CommandPart("flintmq.cli.traffic.consume", "consume", MESSAGES),
    "query": CommandPart("flintmq.cli.traffic.query", "query", MESSAGES),
    "message": CommandPart("flintmq.cli.message_life", "app", MESSAGES),
    "lake": CommandPart("flintmq.cli.lake", "app", MESSAGES),
    "cluster": CommandPart("flintmq.cli.cluster.cluster_commands", "app", INSPECT),
    "topic": CommandPart("flintmq.cli.topic.topic_report_command", "app", INSPECT),
    "group": CommandPart("flintmq.cli.group.group_commands", "app", INSPECT),
    "perf": CommandPart("flintmq.cli.traffic.perf", "app", OPERATE),
    "dlq": CommandPart("flintmq.cli.dlq.dlq_spark", "app", OPERATE),
    "acl": CommandPart("flintmq.cli.acl.acl_commands", "app", OPERATE),
    "tls": CommandPart("flintmq.cli.tls.tls_commands", "app", OPERATE),
    "config": CommandPart("flintmq.cli.config_commands", "app", OPERATE),
    "sizing": CommandPart("flintmq.cli.cluster.sizing", "sizing", OFFLINE),
    "store": CommandPart("flintmq.cli.store", "app", OFFLINE),
}
"""Commands, and groups of commands, by their names."""

ASKING: Final = frozenset({"consume", "query", "send", "sizing", "tail"})
"""Commands that ask a cluster, by whose exit codes they end.  Groups tell theirs themselves."""

CLUSTER_FLAG: Final = "--cluster"
HELP_FLAGS: Final = ("-h", "--help")

ENDING: Final = f"{EXIT_CODES}\n\nDocumentation: README.md and docs/ of the project."


VERSION: Final = f"flintmq {__version__}"


def version_line() -> str:
    """The version, and which implementation of the kernel runs."""
    from flintmq.kernel.choice import kernel  # no other command needs it this early

    return f"{VERSION} ({kernel.name} kernel)"


def make_app(names: Iterable[str] = PARTS, words: Sequence[str] | None = None) -> typer.Typer:
    """The command with these parts.

    ``words`` are what the user typed: what they do not name need not be loaded.
    """
    app = typer.Typer(
        name="flintmq",
        help=flintmq.__doc__,
        no_args_is_help=True,
        context_settings={"help_option_names": [*HELP_FLAGS]},
        cls=HelpedGroup,
        pretty_exceptions_enable=False,  # a bug of ours: Python's own traceback is shorter
        epilog=ENDING,
    )
    app.callback()(flintmq)
    for name in names:
        place = PARTS[name]
        part = getattr(import_module(place.module), place.attribute)
        for command, module in place.more.items():
            if words is None or not {command, *HELP_FLAGS}.isdisjoint(words):
                import_module(module)
        if isinstance(part, typer.Typer):
            app.add_typer(part, name=name, rich_help_panel=place.panel)
        else:
            epilog = EXIT_CODES if name in ASKING else SERVER_EXIT_CODES
            app.command(name, epilog=epilog, rich_help_panel=place.panel)(part)
    dress(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_line())
        raise typer.Exit


def flintmq(
    version: Annotated[  # typer calls back before the value is used
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            CLUSTER_FLAG,
            envvar=CLUSTER_VARIABLE,
            metavar="NAME",
            help="The cluster to ask, by its name in the file of flintmq config.",
            show_default=False,
            autocompletion=complete_cluster,
        ),
    ] = None,
) -> None:
    """Apache RocketMQ from Python and Spark.

    Examples:
        flintmq serve
        flintmq send orders 'o-1' --tag paid
        flintmq tail orders --from start
        flintmq group lag billing --watch
        flintmq --cluster prod topic list
    """


def main() -> None:
    words = _after_cluster(sys.argv[1:])
    if words == ["--version"]:
        typer.echo(version_line())  # no command has to load for that
        return
    gc.disable()  # what is loaded stays: to look for garbage in it takes a tenth of the time
    try:
        app = make_app(words[:1], words[1:]) if words and words[0] in PARTS else make_app()
    finally:
        gc.enable()
    app()


def _after_cluster(words: list[str]) -> list[str]:
    """The words from the command on, where only a cluster stands before it."""
    if words[:1] == [CLUSTER_FLAG]:
        return words[2:]
    return words[1:] if words and words[0].startswith(f"{CLUSTER_FLAG}=") else words
