"""Arguments and options that several commands share.

Groups that brokers are set up for: which there are, and that one is among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.completion import complete_group, complete_topic
from flintmq.cli.shared.output import FAILED, exit_with

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="Its name.", autocompletion=complete_group)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
OfTopic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        "-t",
        help="Only this topic.",
        show_default=False,
        autocompletion=complete_topic,
    ),
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


NAMED_MAX = 10
"""Groups that are named when one is not there."""


def require_group(admin: Admin, group: str) -> None:
    """End the command when no broker knows the group."""
    known = [each.name for each in admin.groups() if not each.is_system]
    if group not in known:
        shown = ", ".join(known[:NAMED_MAX]) or "none"
        exit_with(f"no broker knows a group {group!r}; there are: {shown}", FAILED)
