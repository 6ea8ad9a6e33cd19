"""`flintmq group reset` and `clone`: a group is moved, after it was shown what that means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_topic
from flintmq.cli.shared.offset_argument import PLACES, PLACES_HELP, parse_target
from flintmq.cli.shared.options import DryRun, GroupName, OfTopic, OnBroker, Yes
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
from flintmq.errors import InvalidSetting

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.core.admin.offsets import ResetPlan


@connected
def reset(
    settings: ClientSettings,
    group: GroupName,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            help="The topic to move in.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar=PLACES, help=f"Where to; {PLACES_HELP}.", show_default=False),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="GROUP",
            help="Where this other group stands, in --topic or in all its topics.",
            show_default=False,
        ),
    ] = None,
    broker: OnBroker = None,
    queue_id: Annotated[
        int | None, typer.Option("--queue", help="Only this queue.", show_default=False)
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move a group to another place. Shows first what would be, and asks.

    Examples:
        flintmq group reset billing --topic orders --to start --dry-run
        flintmq group reset billing --topic orders --to 2026-11-16T08:30 --yes
    """
    from flintmq.client.admin import Admin

    _check(topic, to, like, broker, queue_id)
    with Admin(**settings) as admin:
        if like is not None:
            plans = admin.plan_like(group, like, topic=topic)
            if not plans:
                exit_with(f"{like} has no offsets to go by", FAILED)
        else:
            assert topic is not None
            assert to is not None
            target = parse_target(to)
            plans = (admin.plan_reset(group, topic, target, broker=broker, queue_id=queue_id),)
        _carry_out(admin, group, plans, dry_run=dry_run, yes=yes, output=output)


def _check(
    topic: str | None, to: str | None, like: str | None, broker: str | None, queue_id: int | None
) -> None:
    if (to is None) == (like is None):
        raise InvalidSetting("to", to or "", "give --to or --like")
    if like is None and topic is None:
        raise InvalidSetting("topic", "", "--to needs a --topic")
    if like is not None and (broker is not None or queue_id is not None):
        raise InvalidSetting("like", like, "goes without --broker and --queue")


def _carry_out(
    admin: Admin,
    group: str,
    plans: tuple[ResetPlan, ...],
    *,
    dry_run: bool,
    yes: bool,
    output: Output,
) -> None:
    if output is Output.JSON:
        is_applied = yes and not dry_run
        if is_applied:
            _apply(admin, plans)
        print_json(_facts(group, plans, applied=is_applied))
        if not yes and not dry_run:
            exit_with("nothing was changed: add --yes to move the group", USAGE_ERROR)
        return
    _print_plans(plans)
    if dry_run:
        return
    if not yes:
        typer.confirm(f"Move {group}?", abort=True, err=True)
    _apply(admin, plans)
    count = sum(len(plan.moves) for plan in plans)
    print_line(f"{group} is moved in {count} queues of {', '.join(plan.topic for plan in plans)}")


def _apply(admin: Admin, plans: Iterable[ResetPlan]) -> None:
    for plan in plans:
        admin.apply_reset(plan)


@connected
def clone(
    settings: ClientSettings,
    group: GroupName,
    to: Annotated[str, typer.Option("--to", metavar="GROUP", help="The group to move there.")],
    topic: OfTopic = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put another group where this one stands, at once; reset --like shows first what would be.

    Examples:
        flintmq group clone billing --to billing-copy
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        topics = admin.clone_offsets(group, to, topic=topic)
    if not topics:
        exit_with(f"{group} has no offsets that could be copied", FAILED)
    if output is Output.JSON:
        print_json({"group": to, "like": group, "topics": topics})
    else:
        print_line(f"{to} stands where {group} does, in {', '.join(topics)}")


def _facts(group: str, plans: tuple[ResetPlan, ...], *, applied: bool) -> dict[str, object]:
    return {
        "group": group,
        "applied": applied,
        "queues": [
            {
                "topic": plan.topic,
                "broker": move.queue.broker,
                "queue_id": move.queue.queue_id,
                "from": move.stands_at,
                "to": move.goes_to,
                "min_offset": move.extent.start,
                "max_offset": move.extent.stop,
            }
            for plan in plans
            for move in plan.moves
        ],
    }


def _print_plans(plans: Iterable[ResetPlan]) -> None:
    print_table(
        ("topic", "broker", "queue", "start", "end", "stands at", "goes to", "again", "skipped"),
        (
            (
                plan.topic,
                move.queue.broker,
                move.queue.queue_id,
                move.extent.start,
                move.extent.stop,
                move.stands_at,
                move.goes_to,
                max(0, move.again),
                max(0, -move.again),
            )
            for plan in plans
            for move in plan.moves
        ),
    )
