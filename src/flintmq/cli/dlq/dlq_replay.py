"""`flintmq dlq replay`: dead letters sent again, and what `dlq bulk-replay` shares with it.

A replay is shown first, asks, and then goes no faster than it was told, so that consumers which
failed once are not run over.  Dead letters stay where they are: a queue has no way to take one
out.  What was sent is recognised by its copy, and is not sent twice.  An interrupt says how far it
came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from flintmq.cli.dlq.dlq_choice import (
    Choice,
    FoundLetter,
    Id,
    Keys,
    find_letters,
    print_letters,
    replayed_ms,
)
from flintmq.cli.dlq.dlq_commands import SHOWN_MAX, app
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import DryRun, GroupName, Tags, Yes
from flintmq.cli.shared.output import (
    FAILED,
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    say,
)
from flintmq.cli.shared.times import Since, Until
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.dead_letters import REPLAY_RATE, BuriedMessage, ReplayTo
from flintmq.errors import FlintError

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

REPLAYED_MAX = 100_000
"""Dead letters of one replay; what a plan of it holds in memory."""

To = Annotated[
    ReplayTo,
    typer.Option("--to", help="The group alone, or everybody who reads the original topic."),
]
Rate = Annotated[float, typer.Option("--rate", help="How many a second.", min=0.001)]


@app.command()
@connected
def replay(
    settings: ClientSettings,
    group: GroupName,
    to: To = ReplayTo.GROUP,
    key: Keys = None,
    message_id: Id = None,
    since: Since = None,
    until: Until = None,
    tag: Tags = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", help="At most so many.", min=1, show_default=False),
    ] = None,
    rate: Rate = REPLAY_RATE,
    again: Annotated[
        bool, typer.Option("--again", help="Also what is marked, or was replayed before.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters again, the oldest first. Shows first which, and asks.

    They keep their ids, keys, tags and properties, and start anew with no tries. The dead letters
    themselves stay; what a replay has sent, and what is marked, is left out the next time.

    Examples:
        flintmq dlq replay billing --dry-run
        flintmq dlq replay billing --key o-1 --to group --yes
    """
    from flintmq.client.admin import Admin

    choice = Choice.of(key, message_id, since, until, tag)
    most = REPLAYED_MAX if count is None else min(count, REPLAYED_MAX)
    with Admin(**settings) as admin:
        found = find_letters(admin, group, choice)
        letters = _not_dealt_with(admin, group, found, again=again)[:most]
        lost = [letter for letter in letters if letter.origin_topic is None]
        letters = [letter for letter in letters if letter.origin_topic is not None]
        print_left_out(without_topic=len(lost))
        if not letters:
            none = "no dead letter is left to replay" if found else "it has no such dead letter"
            exit_with(f"{group}: {none}", FAILED)
        is_meant = yes and not dry_run
        if output is Output.TABLE:
            print_letters(letters[:SHOWN_MAX])
            print_line(f"{len(letters)} dead letters to the {to}, {rate:g} a second")
            is_meant = is_confirmed(dry_run=dry_run, yes=yes)
        sent = _send(admin, group, letters, to, rate, output) if is_meant else []
    if output is Output.JSON:
        print_json({"group": group, "to": to, "chosen": len(letters), "sent": sent})
        if not yes and not dry_run:
            exit_with("nothing was sent: add --yes to replay", USAGE_ERROR)
    elif is_meant:
        print_line(f"{len(sent)} dead letters are sent again")


def _not_dealt_with(
    admin: Admin, group: str, found: list[FoundLetter], *, again: bool
) -> list[BuriedMessage]:
    """The dead letters that no mark and no replay has dealt with; prints how many are left out."""
    if again:
        return [each.letter for each in found]
    unmarked = [each.letter for each in found if not each.is_marked]
    left = [each for each in unmarked if replayed_ms(admin, group, each) is None]
    if len(left) < len(found):
        marked, replayed = len(found) - len(unmarked), len(unmarked) - len(left)
        say(f"{marked} are marked and {replayed} were replayed before: --again sends them too")
    return left


# What both replays share


def print_left_out(without_topic: int, bad_records: int = 0) -> None:
    """Say which dead letters are not sent."""
    if without_topic:
        say(f"{without_topic} do not say which topic they came from and are left out")
    if bad_records:
        say(f"{bad_records} cannot be decoded and are left out")


def is_confirmed(*, dry_run: bool, yes: bool) -> bool:
    """Whether to send; asks, unless the command line says it."""
    if not dry_run and not yes:
        typer.confirm("Send them?", abort=True, err=True)
    return not dry_run


@contextmanager
def replay_progress(*, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; the yielded function takes how many are done, of how many."""
    console = Console(stderr=True)
    disable = hidden or not console.is_terminal
    with Progress(console=console, transient=True, disable=disable) as bar:
        task = bar.add_task("replaying", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _send(
    admin: Admin,
    group: str,
    letters: list[BuriedMessage],
    to: ReplayTo,
    rate: float,
    output: Output,
) -> list[dict[str, object]]:
    """Send dead letters at a rate; an error ends it and says how many were sent."""
    sent: list[dict[str, object]] = []
    start_s = time.monotonic()
    try:
        with replay_progress(hidden=output is Output.JSON) as progress:
            for number, letter in enumerate(letters):
                time.sleep(max(0.0, start_s + number / rate - time.monotonic()))
                stored = admin.replay(group, letter, to=to)
                sent.append(
                    {
                        "message_id": stored.message_id,
                        "topic": stored.queue.topic,
                        "broker": stored.queue.broker,
                        "queue_id": stored.queue.queue_id,
                        "queue_offset": stored.queue_offset,
                    }
                )
                progress(len(sent), len(letters))
    except (FlintError, KeyboardInterrupt) as error:
        next_id = letters[len(sent)].message.message_id
        say(f"{len(sent)} of {len(letters)} are sent; the next is {next_id}")
        if isinstance(error, FlintError):
            raise
        raise typer.Exit(FAILED) from None
    return sent
