"""`flintmq dlq`: messages that a group gave up on, and how they come back.

A replay is shown first, asks, and then goes no faster than it was told, so that consumers which
failed once are not run over.  Dead letters stay where they are: a queue has no way to take one
out.  Exit codes are those of `output`; an interrupt says how far it came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.message_view import facts_of, print_page, short_body, tell_bad
from flintmq.cli.shared.options import DryRun, GroupName, Tags, Yes
from flintmq.cli.shared.output import (
    EXIT_CODES,
    MAKES_NO_SENSE,
    SAYS_NO,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    print_table,
    say,
    timestamp,
)
from flintmq.cli.shared.times import Since, Until, parse_times
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.dead_letters import REPLAY_RATE, BuriedMessage, ReplayTo
from flintmq.errors import FlintError
from flintmq.filter.tags import parse_tags

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

app = typer.Typer(
    help="List, show and replay dead letters.", no_args_is_help=True, epilog=EXIT_CODES
)

SHOWN_MAX = 64
"""Dead letters listed unless told otherwise."""

REPLAYED_MAX = 100_000
"""Dead letters of one replay; what a plan of it holds in memory."""

Keys = Annotated[str | None, typer.Option("--key", "-k", help="With this key.", show_default=False)]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="With this id, of either kind, or the first one's.", show_default=False
    ),
]
To = Annotated[
    ReplayTo,
    typer.Option("--to", help="The group alone, or everybody who reads the original topic."),
]
Rate = Annotated[float, typer.Option("--rate", help="How many a second.", min=0.001)]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters are meant."""

    key: str | None
    message_id: str | None
    start_ms: int
    stop_ms: int
    fits_tags: Callable[[str | None], bool]

    @classmethod
    def of(
        cls,
        key: str | None,
        message_id: str | None,
        since: str | None,
        until: str | None,
        tag: str | None,
    ) -> Choice:
        start_ms, stop_ms = parse_times(since, until)
        return cls(key, message_id, start_ms, stop_ms, parse_tags(tag).matches_tag)

    def fits(self, letter: BuriedMessage) -> bool:
        message = letter.message
        ids = (message.message_id, message.offset_message_id, letter.origin_message_id)
        return (
            (self.key is None or self.key in message.keys)
            and (self.message_id is None or self.message_id in ids)
            and self.start_ms <= message.store_ms < self.stop_ms
            and self.fits_tags(message.tags)
        )


@app.command("list")
@connected
def list_letters(
    settings: ClientSettings,
    group: Annotated[
        str | None,
        typer.Argument(metavar="GROUP", help="Whose; without it, who has any.", show_default=False),
    ] = None,
    key: Keys = None,
    since: Since = None,
    until: Until = None,
    tag: Tags = None,
    count: Annotated[
        int, typer.Option("--count", "-c", help="At most so many, the newest.", min=1)
    ] = SHOWN_MAX,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the dead letters of a group, or the groups that have any."""
    from flintmq.client.admin import Admin

    choice = Choice.of(key, None, since, until, tag)
    with Admin(**settings) as admin:
        if group is None:
            _print_counts(admin, output)
            return
        chosen = list(_chosen(admin, group, choice))[-count:]
    if output is Output.JSON:
        print_json([_facts(letter) for letter in chosen])
        return
    if not chosen:
        print_line(f"{group} has no such dead letter")
        return
    _print_letters(chosen)


@app.command()
@connected
def show(
    settings: ClientSettings,
    group: GroupName,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="An id that dlq list shows.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a dead letter: where it came from, how often it was tried, what is in it."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        choice = Choice.of(None, message_id, None, None, None)
        found = list(_chosen(admin, group, choice))
    if not found:
        exit_with(f"{group} has no dead letter {message_id}", SAYS_NO, "flintmq dlq list shows all")
    if output is Output.JSON:
        print_json([_facts(letter) for letter in found])
        return
    for letter in found:
        print_line(f"of {letter.origin_topic or 'an unknown topic'}, {_tries(letter)}")
        print_page(letter.message)


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
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters again, the oldest first. Shows first which, and asks.

    They keep their ids, keys, tags and properties, and start anew with no tries. The dead letters
    themselves stay: who replays twice sends twice.
    """
    from flintmq.client.admin import Admin

    choice = Choice.of(key, message_id, since, until, tag)
    most = REPLAYED_MAX if count is None else min(count, REPLAYED_MAX)
    with Admin(**settings) as admin:
        letters = list(islice(_chosen(admin, group, choice), most))
        lost = [letter for letter in letters if letter.origin_topic is None]
        letters = [letter for letter in letters if letter.origin_topic is not None]
        tell_left_out(without_topic=len(lost))
        if not letters:
            exit_with(f"{group} has no such dead letter", SAYS_NO)
        is_meant = yes and not dry_run
        if output is Output.TABLE:
            _print_letters(letters[:SHOWN_MAX])
            print_line(f"{len(letters)} dead letters to the {to}, {rate:g} a second")
            is_meant = is_confirmed(dry_run=dry_run, yes=yes)
        sent = _send(admin, group, letters, to, rate, output) if is_meant else []
    if output is Output.JSON:
        print_json({"group": group, "to": to, "chosen": len(letters), "sent": sent})
        if not yes and not dry_run:
            exit_with("nothing was sent: add --yes to replay", MAKES_NO_SENSE)
    elif is_meant:
        print_line(f"{len(sent)} dead letters are sent again")


# What both replays share


def tell_left_out(without_topic: int, bad_records: int = 0) -> None:
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
    """A bar on a terminal; what is yielded takes how many are done, of how many."""
    console = Console(stderr=True)
    disable = hidden or not console.is_terminal
    with Progress(console=console, transient=True, disable=disable) as bar:
        task = bar.add_task("replaying", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


# Inside


def _chosen(admin: Admin, group: str, choice: Choice) -> Iterator[BuriedMessage]:
    """Those that fit, the oldest first."""
    found = [
        letter
        for located in admin.dead_letter_spans(group)
        for letter in map(BuriedMessage.of, admin.read(located, on_bad=tell_bad))
        if choice.fits(letter)
    ]
    found.sort(key=lambda letter: letter.message.store_ms)
    return iter(found)


def _send(
    admin: Admin,
    group: str,
    letters: list[BuriedMessage],
    to: ReplayTo,
    rate: float,
    output: Output,
) -> list[dict[str, object]]:
    """Send them at their rate; what fails ends it, and is told with how far it came."""
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
        say(f"{len(sent)} of {len(letters)} are sent; the next is {_name(letters[len(sent)])}")
        if isinstance(error, FlintError):
            raise
        raise typer.Exit(SAYS_NO) from None
    return sent


def _print_counts(admin: Admin, output: Output) -> None:
    counts = admin.dead_letter_counts()
    if output is Output.JSON:
        print_json(counts)
    else:
        print_table(
            ("group", "dead letters", "last"),
            ((each.group, each.count, timestamp(each.last_ms)) for each in counts),
        )


def _name(letter: BuriedMessage) -> str:
    return letter.message.message_id


def _tries(letter: BuriedMessage) -> str:
    return f"tried {letter.message.reconsume_times} times"


def _facts(letter: BuriedMessage) -> dict[str, object]:
    return {
        **facts_of(letter.message),
        "origin_topic": letter.origin_topic,
        "origin_message_id": letter.origin_message_id,
    }


def _print_letters(letters: Iterable[BuriedMessage]) -> None:
    print_table(
        ("buried", "of topic", "id", "tags", "keys", "tries", "body"),
        (
            (
                timestamp(letter.message.store_ms),
                letter.origin_topic,
                _name(letter),
                letter.message.tags,
                " ".join(letter.message.keys) or None,
                letter.message.reconsume_times,
                short_body(letter.message),
            )
            for letter in letters
        ),
    )
