"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
OfTopic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Only this topic.", show_default=False)
]
OnBroker = Annotated[
    str | None, typer.Option("--broker", help="Only this broker.", show_default=False)
]
InCluster = Annotated[
    str | None, typer.Option("--cluster", help="Only this cluster.", show_default=False)
]
Tags = Annotated[str | None, typer.Option("--tag", help="Tags, as in a || b.", show_default=False)]
Sql = Annotated[
    str | None, typer.Option("--sql", help="A condition on properties.", show_default=False)
]
