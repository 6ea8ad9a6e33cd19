"""`flintmq dlq list` and `dlq show`: messages that a group gave up on, and why.

Exit codes are those of `output`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.dlq.dlq_choice import (
    Choice,
    Keys,
    find_letters,
    letter_facts,
    print_letters,
    replayed_ms,
)
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_group
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.message_view import print_page
from flintmq.cli.shared.options import GroupName, Tags
from flintmq.cli.shared.output import (
    FAILED,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    timestamp,
    when,
)
from flintmq.cli.shared.tables import print_table
from flintmq.cli.shared.times import Since, Until
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.dead_letters import BuriedMessage

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

app = typer.Typer(
    help="List, show, report, replay, mark and purge dead letters.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

SHOWN_MAX = 64
"""Dead letters listed unless told otherwise."""


@app.command("list")
@connected
def list_letters(
    settings: ClientSettings,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="GROUP",
            help="Whose; without it, who has any.",
            show_default=False,
            autocompletion=complete_group,
        ),
    ] = None,
    key: Keys = None,
    since: Since = None,
    until: Until = None,
    tag: Tags = None,
    count: Annotated[
        int, typer.Option("--count", "-c", help="At most N, the newest.", min=1)
    ] = SHOWN_MAX,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also those that are marked as dealt with.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the dead letters of a group and why they died, or the groups that have any.

    Examples:
        flintmq dlq list
        flintmq dlq list billing --since 1h --json
    """
    from flintmq.client.admin import Admin

    choice = Choice.of(key, None, since, until, tag)
    with Admin(**settings) as admin:
        if group is None:
            _print_counts(admin, output)
            return
        found = find_letters(admin, group, choice)
    chosen = [each for each in found if everything or not each.is_marked][-count:]
    if output is Output.JSON:
        print_json([letter_facts(each) for each in chosen])
        return
    if chosen:
        print_letters(each.letter for each in chosen)
    else:
        print_line(f"{group} has no such dead letter")
    marked = sum(each.is_marked for each in found)
    if marked and not everything:
        print_line(f"{marked} are marked as dealt with; --all shows them")


@app.command()
@connected
def show(
    settings: ClientSettings,
    group: GroupName,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="An id that dlq list shows.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a dead letter: where it came from, how often it was tried, what is in it.

    Examples:
        flintmq dlq show billing C0A80001000078BFC0A8000100000000
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = find_letters(admin, group, Choice.of(message_id=message_id))
        sent_ms = [replayed_ms(admin, group, each.letter) for each in found]
    if not found:
        exit_with(f"{group} has no dead letter {message_id}", FAILED, "flintmq dlq list shows all")
    if output is Output.JSON:
        print_json(
            [
                {**letter_facts(each), "replayed_ms": at_ms}
                for each, at_ms in zip(found, sent_ms, strict=True)
            ]
        )
        return
    for each, at_ms in zip(found, sent_ms, strict=True):
        letter = each.letter
        print_line(f"of {letter.origin_topic or 'an unknown topic'}, {_tries(letter)}")
        print_line(f"reason: {letter.reason or 'not known'}")
        if at_ms is not None:
            print_line(f"replayed at {timestamp(at_ms)}")
        print_page(letter.message)


def _print_counts(admin: Admin, output: Output) -> None:
    counts = admin.dead_letter_counts()
    left = {
        each.group: sum(mark.open_count for mark in admin.dead_letter_marks(each.group))
        for each in counts
    }
    if output is Output.JSON:
        print_json([{**asdict(each), "open": left[each.group]} for each in counts])
    else:
        print_table(
            ("group", "dead letters", "open", "last stored at"),
            ((each.group, each.count, left[each.group], when(each.last_ms)) for each in counts),
        )


def _tries(letter: BuriedMessage) -> str:
    return f"tried {letter.message.reconsume_times} times"
