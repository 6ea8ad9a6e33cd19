"""`flintmq group`: consumer groups of a cluster.  Exit codes are those of `output`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.connection import connected
from flintmq.cli.output import (
    EXIT_CODES,
    MAKES_NO_SENSE,
    SAYS_NO,
    As,
    Output,
    give_up,
    moment,
    print_json,
    print_line,
    print_table,
)
from flintmq.cli.times import parse_time
from flintmq.client.config import ClientSettings
from flintmq.net.clock import wall_ms

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.core.admin_offsets import ResetPlan
    from flintmq.core.lag import GroupLag
    from flintmq.core.spans import Target

app = typer.Typer(
    help="List, show, move and delete consumer groups.", no_args_is_help=True, epilog=EXIT_CODES
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OfTopic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Only this topic.", show_default=False)
]


@app.command("list")
@connected
def list_groups(
    settings: ClientSettings,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also system groups.")] = False,
    output: As = Output.TABLE,
) -> None:
    """List the groups that brokers are set up for."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        groups = [group for group in admin.groups() if everything or not group.is_system]
    if output is Output.JSON:
        print_json(
            [
                {
                    "group": group.name,
                    "brokers": group.brokers,
                    "retry_max": group.retry_max,
                    "enabled": group.is_enabled,
                }
                for group in groups
            ]
        )
        return
    print_table(
        ("group", "brokers", "tries", "enabled"),
        (
            (
                group.name,
                ", ".join(group.brokers),
                group.retry_max,
                "yes" if group.is_enabled else "no",
            )
            for group in groups
        ),
    )


@app.command()
@connected
def lag(
    settings: ClientSettings, group: Group, topic: OfTopic = None, output: As = Output.TABLE
) -> None:
    """Show how far a group is behind, in all its topics or in one."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = admin.lag(group, topic=topic)
        if not found.queues:
            _require_group(admin, group)
    if output is Output.JSON:
        print_json(lag_facts(found))
        return
    if not found.queues:
        print_line(f"{group} has committed no offset yet")
        return
    print_table(
        ("topic", "broker", "queue", "end", "group", "lag", "last consumed"),
        (
            (
                each.queue.topic,
                each.queue.broker,
                each.queue.queue_id,
                each.max_offset,
                each.consumer_offset,
                each.lag,
                moment(each.last_consumed_ms),
            )
            for each in found.queues
        ),
    )
    print_line(f"{group} is {found.lag} messages behind, {found.consumed_per_second:.1f}/s")


def lag_facts(found: GroupLag) -> dict[str, object]:
    """What scripts read: the sum, and every queue."""
    return {
        "group": found.group,
        "lag": found.lag,
        "queues": [
            {
                "topic": each.queue.topic,
                "broker": each.queue.broker,
                "queue_id": each.queue.queue_id,
                "max_offset": each.max_offset,
                "consumer_offset": each.consumer_offset,
                "lag": each.lag,
            }
            for each in found.queues
        ],
    }


@app.command()
@connected
def show(settings: ClientSettings, group: Group, output: As = Output.TABLE) -> None:
    """Show who is online in a group and what it subscribes to."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        online = admin.members(group)
        if online is None:
            _require_group(admin, group)
    members = () if online is None else online.members
    wishes = () if online is None else online.wishes
    if output is Output.JSON:
        print_json(
            {
                "group": group,
                "online": online is not None,
                "model": None if online is None else online.message_model,
                "type": None if online is None else online.consume_type,
                "from": None if online is None else online.from_where,
                "members": members,
                "subscriptions": wishes,
            }
        )
        return
    if online is None:
        print_line(f"no member of {group} is online")
        return
    print_line(f"{group}: {online.message_model}, {online.consume_type}, {online.from_where}")
    print_table(
        ("client", "address", "language", "version", "brokers"),
        ((m.client_id, m.address, m.language, m.version, ", ".join(m.brokers)) for m in members),
    )
    print_table(
        ("topic", "kind", "expression"),
        ((wish.topic, wish.kind, wish.expression) for wish in wishes),
    )


@app.command()
@connected
def reset(
    settings: ClientSettings,
    group: Group,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to move in.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="start|end|OFFSET|TIME",
            help="Where to; a time is 2026-11-16T08:30, milliseconds, or 10m for ten minutes ago.",
        ),
    ],
    broker: Annotated[
        str | None, typer.Option("--broker", help="Only on this broker.", show_default=False)
    ] = None,
    queue_id: Annotated[
        int | None, typer.Option("--queue", help="Only this queue.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be.")] = False,
    yes: Yes = False,
    output: As = Output.TABLE,
) -> None:
    """Move a group to another place in a topic.  Shows what would be, and asks first."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        plan = admin.plan_reset(group, topic, parse_target(to), broker=broker, queue_id=queue_id)
        if output is Output.JSON:
            if yes and not dry_run:
                admin.apply_reset(plan)
            print_json(_plan_facts(plan, applied=yes and not dry_run))
            if not yes and not dry_run:
                give_up("nothing was changed: add --yes to move the group", MAKES_NO_SENSE)
            return
        _print_plan(plan)
        if dry_run:
            return
        if not yes:
            typer.confirm(f"Move {group}?", abort=True, err=True)
        admin.apply_reset(plan)
    print_line(f"{group} is moved in {len(plan.moves)} queues of {topic}")


def parse_target(text: str) -> Target:
    """``start``, ``end``, an offset, or a time."""
    from flintmq.core.spans import END, START, ToOffset, ToTime
    from flintmq.model.queue import QueueOffset

    if text in ("start", "earliest", "beginning"):
        return START
    if text in ("end", "latest"):
        return END
    if text.isascii() and text.isdigit() and len(text) < 11:
        return ToOffset(QueueOffset(int(text)))
    return ToTime(parse_time(text, wall_ms()))


@app.command()
@connected
def create(
    settings: ClientSettings,
    group: Group,
    retry_max: Annotated[int, typer.Option("--tries", help="How often a message is retried.")] = 16,
    broker: Annotated[
        str | None, typer.Option("--broker", help="Only this broker.", show_default=False)
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Only this cluster.", show_default=False)
    ] = None,
) -> None:
    """Set brokers up for a group, or change how they are."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        brokers = admin.create_group(group, retry_max=retry_max, broker=broker, cluster=cluster)
    print_line(f"{group} is set up on {', '.join(brokers)}")


@app.command()
@connected
def delete(
    settings: ClientSettings,
    group: Group,
    keep_topics: Annotated[
        bool, typer.Option("--keep-topics", help="Keep its retry and dead letter topics.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a group, its offsets, its retries and its dead letters."""
    from flintmq.client.admin import Admin

    if not yes:
        typer.confirm(f"Delete {group} and its offsets?", abort=True, err=True)
    with Admin(**settings) as admin:
        _require_group(admin, group)
        brokers = admin.delete_group(group, with_topics=not keep_topics)
    print_line(f"{group} is deleted from {', '.join(brokers)}")


@app.command()
@connected
def clone(
    settings: ClientSettings,
    group: Group,
    to: Annotated[str, typer.Option("--to", metavar="GROUP", help="The group to move there.")],
    topic: OfTopic = None,
) -> None:
    """Put another group where this one stands."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        topics = admin.clone_offsets(group, to, topic=topic)
    if not topics:
        give_up(f"{group} has no offsets that could be copied", SAYS_NO)
    print_line(f"{to} stands where {group} does, in {', '.join(topics)}")


def _require_group(admin: Admin, group: str) -> None:
    known = [each.name for each in admin.groups() if not each.is_system]
    if group not in known:
        shown = ", ".join(known[:10]) or "none"
        give_up(f"no broker knows a group {group!r}; there are: {shown}", SAYS_NO)


def _plan_facts(plan: ResetPlan, *, applied: bool) -> dict[str, object]:
    return {
        "group": plan.group,
        "topic": plan.topic,
        "applied": applied,
        "queues": [
            {
                "broker": move.queue.broker,
                "queue_id": move.queue.queue_id,
                "from": move.stands_at,
                "to": move.goes_to,
                "min_offset": move.extent.start,
                "max_offset": move.extent.stop,
            }
            for move in plan.moves
        ],
    }


def _print_plan(plan: ResetPlan) -> None:
    print_table(
        ("broker", "queue", "start", "end", "stands at", "goes to", "again", "skipped"),
        (
            (
                move.queue.broker,
                move.queue.queue_id,
                move.extent.start,
                move.extent.stop,
                move.stands_at,
                move.goes_to,
                max(0, move.again),
                max(0, -move.again),
            )
            for move in plan.moves
        ),
    )
