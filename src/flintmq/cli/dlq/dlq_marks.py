"""`flintmq dlq mark` and `flintmq dlq purge`: dead letters that are dealt with.

A mark hides what lies before it from `dlq list` and `dlq replay`; the messages stay.  A purge
deletes the dead letter topic, since RocketMQ cannot take single messages out of a queue.
Both ways are explained in `core.admin.dead_letter_marks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.dlq.dlq_commands import app
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.offset_argument import PLACES, PLACES_HELP, parse_target
from flintmq.cli.shared.options import DryRun, GroupName, Yes, require_group
from flintmq.cli.shared.output import (
    FAILED,
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
)
from flintmq.cli.shared.tables import print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.model.group import dead_letter_topic

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.core.admin.dead_letter_marks import DeadLetterMark


@app.command()
@connected
def mark(
    settings: ClientSettings,
    group: GroupName,
    to: Annotated[
        str, typer.Option("--to", metavar=PLACES, help=f"Up to where; {PLACES_HELP}.")
    ] = "end",
    output: OutputOption = Output.TABLE,
) -> None:
    """Mark dead letters as dealt with: dlq list and dlq replay leave them out then.

    The messages stay. A mark is an offset in each dead letter queue, of the group
    flintmq-dlq-marks; --to start removes it.

    Examples:
        flintmq dlq mark billing
        flintmq dlq mark billing --to 2026-11-16T08:30
        flintmq dlq mark billing --to start
    """
    from flintmq.client.admin import Admin

    target = parse_target(to)
    with Admin(**settings) as admin:
        _require_letters(admin, group)
        admin.mark_dead_letters(group, target)
        marks = admin.dead_letter_marks(group)
    if output is Output.JSON:
        print_json({"group": group, "queues": [_facts(each) for each in marks]})
        return
    _print_marks(marks)
    left = sum(each.open_count for each in marks)
    print_line(f"{left} dead letters of {group} are not marked")


@app.command()
@connected
def purge(
    settings: ClientSettings,
    group: GroupName,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete all dead letters of a group. Shows first how many, and asks.

    Deletes the topic %DLQ%GROUP on every broker; its next dead letter creates it again. The bytes
    stay in the commit log until retention deletes its files. There is no way back, and no way to
    delete single messages: dlq mark hides them.

    Examples:
        flintmq dlq purge billing --dry-run
        flintmq dlq purge billing --yes
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        marks = _require_letters(admin, group)
        total = sum(each.extent.stop - each.extent.start for each in marks)
        left = sum(each.open_count for each in marks)
        is_meant = yes and not dry_run
        if output is Output.TABLE:
            _print_marks(marks)
            print_line(f"{total} dead letters, {left} of them not marked as dealt with")
            if not yes and not dry_run:
                question = f"Delete {dead_letter_topic(group)} and all of them?"
                typer.confirm(question, abort=True, err=True)
            is_meant = not dry_run
        brokers = admin.purge_dead_letters(group) if is_meant else ()
    if output is Output.JSON:
        print_json({"group": group, "dead_letters": total, "open": left, "deleted_from": brokers})
        if not yes and not dry_run:
            exit_with("nothing was deleted: add --yes", USAGE_ERROR)
    elif is_meant:
        print_line(f"{total} dead letters of {group} are deleted from {', '.join(brokers)}")


def _require_letters(admin: Admin, group: str) -> tuple[DeadLetterMark, ...]:
    marks = admin.dead_letter_marks(group)
    if not marks:
        require_group(admin, group)
        exit_with(f"{group} has no dead letters", FAILED, "flintmq dlq list shows who has")
    return marks


def _facts(mark: DeadLetterMark) -> dict[str, object]:
    return {
        "broker": mark.queue.broker,
        "queue_id": mark.queue.queue_id,
        "min_offset": mark.extent.start,
        "max_offset": mark.extent.stop,
        "marked_to": mark.marked_to,
        "open": mark.open_count,
    }


def _print_marks(marks: tuple[DeadLetterMark, ...]) -> None:
    print_table(
        ("broker", "queue", "min offset", "max offset", "marked to", "open"),
        (tuple(_facts(each).values()) for each in marks),
    )
