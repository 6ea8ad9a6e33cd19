"""How the help of a command is drawn: flags without types, examples, exit codes.

A docstring may end in a paragraph of examples, a line each:

Examples:
        flintmq send orders o-1 --tag paid

`dress` gives every command of an app these pages.  The examples stand below the options there, and
in `HelpedCommand.examples` for whoever writes the reference.

Invariant: a flag shows no value, and a text in an example is never read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 failed or not found; 2 usage error; 3 server unreachable."
)
"""What the help of commands that ask a cluster ends with."""

SERVER_EXIT_CODES: Final = (
    "Exit codes: 0 stopped when asked to; 1 could not start, or failed; 2 usage error."
)
"""The same for commands that run until they are told to stop."""

STORE_EXIT_CODES: Final = (
    "Exit codes: 0 the store is in order; 1 it is not, or differs from the broker it was compared "
    "with; 2 usage error, or no store or no broker is there."
)
"""The same for commands that read a store directory."""

RUN, MESSAGES, INSPECT, OPERATE, OFFLINE = "Run", "Messages", "Inspect", "Operate", "Offline"
"""Panels of the help, in their order."""

_PANELS: Final[dict[str | None, int]] = {
    panel: at for at, panel in enumerate((RUN, MESSAGES, INSPECT, OPERATE, OFFLINE))
}

DEFAULTS: Final = {"lake": "write"}
"""Groups that take the words of one of their commands without its name."""

_EXAMPLES: Final = re.compile(r"\n*^Examples?:\n((?:[ \t]+\S.*\n?)+)\s*\Z", re.MULTILINE)


class HelpedCommand(TyperCommand):
    """A command whose docstring may have examples."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings["help"], self.examples = split_examples(settings.get("help"))
        settings["epilog"] = _epilog(self.examples, settings.get("epilog"))
        super().__init__(*arguments, **settings)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)


class HelpedGroup(TyperGroup):
    """A group of commands, and `flintmq` itself."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings["help"], self.examples = split_examples(settings.get("help"))
        settings["epilog"] = _epilog(self.examples, settings.get("epilog"))
        super().__init__(*arguments, **settings)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of their panels; typer has groups behind all commands."""
        panels = {name: each.rich_help_panel for name, each in self.commands.items()}  # type: ignore[attr-defined]  # typer's commands have it
        return sorted(super().list_commands(ctx), key=lambda name: _PANELS.get(panels[name], 0))


class ShortenedGroup(HelpedGroup):
    """A group with a command that is meant where none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [DEFAULTS[str(self.name)], *args]
        return super().parse_args(ctx, args)


def dress(app: typer.Typer, epilog: str | None = None) -> None:
    """Give these pages to all commands of an app; ``epilog`` is for those that have none."""
    for command in app.registered_commands:
        command.cls = HelpedCommand
        command.epilog = command.epilog or epilog
    for group in app.registered_groups:
        group.cls = ShortenedGroup if group.name in DEFAULTS else HelpedGroup
        if group.typer_instance is not None:
            own = group.typer_instance.info.epilog
            dress(group.typer_instance, own if isinstance(own, str) else None)


def split_examples(text: str | None) -> tuple[str | None, tuple[str, ...]]:
    """A docstring without its examples, and the examples."""
    found = _EXAMPLES.search(text or "")
    if text is None or found is None:
        return text, ()
    lines = tuple(line.strip() for line in found[1].splitlines() if line.strip())
    return text[: found.start()], lines


def _epilog(examples: tuple[str, ...], ending: str | None) -> str | None:
    """What stands below the options, as markup."""
    parts = []
    if examples:
        lines = "\n".join(f"  {line}" for line in examples).replace("[", r"\[")
        parts.append(f"[bold]Examples:[/]\n{lines}")
    if ending:
        parts.append(ending)
    return "\n\n".join(parts) or None


def _hide_types(parameters: Iterable[Any]) -> None:
    """Flags have no value, and their type is nobody's business."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
