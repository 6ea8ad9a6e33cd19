"""`flintmq group`: consumer groups of a cluster.  Exit codes are those of `output`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from flintmq.cli.group.group_lag import lag
from flintmq.cli.group.group_reset import clone, reset
from flintmq.cli.group.group_show import connections, show
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import GroupName, InCluster, OnBroker, Yes, require_group
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings


class ModeWord(StrEnum):
    """How a group takes messages."""

    PULL = "pull"
    POP = "pop"


app = typer.Typer(
    help="List, show, move and delete consumer groups.", no_args_is_help=True, epilog=EXIT_CODES
)


@app.command("list")
@connected
def list_groups(
    settings: ClientSettings,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also system groups.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the groups that brokers are set up for.

    Examples:
        flintmq group list
        flintmq group list --all --json
    """
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
        ("group", Wrapped("brokers"), "tries", "enabled"),
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
def create(
    settings: ClientSettings,
    group: GroupName,
    retry_max: Annotated[int, typer.Option("--tries", help="How often a message is retried.")] = 16,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="gRPC clients of it consume in order.")
    ] = False,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create or update a consumer group.

    Examples:
        flintmq group create billing --tries 5
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        brokers = admin.create_group(
            group, retry_max=retry_max, is_ordered=ordered, broker=broker, cluster=cluster
        )
    if output is Output.JSON:
        print_json({"group": group, "brokers": brokers, "retry_max": retry_max})
    else:
        print_line(f"{group} is set up on {', '.join(brokers)}")


@app.command("set-mode")
@connected
def change_mode(
    settings: ClientSettings,
    group: GroupName,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    mode: Annotated[ModeWord, typer.Argument(help="How the group takes its messages.")],
    share_queues: Annotated[
        int,
        typer.Option(help="With pop: each takes its own queues and those of so many others."),
    ] = -1,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a group pull a topic, or pop what brokers hand out.

    It counts for members that leave the mode to the broker: mode="broker" of a PushConsumer or an
    App, clientRebalance=false in Java.

    Examples:
        flintmq group set-mode billing orders pop
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        brokers = admin.set_consume_mode(group, topic, mode.value, share_queues=share_queues)
    if output is Output.JSON:
        print_json({"group": group, "topic": topic, "mode": mode.value, "brokers": brokers})
    else:
        print_line(f"{group} takes {topic} by {mode.value} on {', '.join(brokers)}")


app.command()(show)
app.command()(connections)
app.command()(lag)
app.command()(reset)
app.command()(clone)


@app.command()
@connected
def delete(
    settings: ClientSettings,
    group: GroupName,
    keep_topics: Annotated[
        bool, typer.Option("--keep-topics", help="Keep its retry and dead letter topics.")
    ] = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a group, its offsets, its retries and its dead letters.

    Examples:
        flintmq group delete billing --yes
    """
    from flintmq.client.admin import Admin

    if not yes:
        typer.confirm(f"Delete {group} and its offsets?", abort=True, err=True)
    with Admin(**settings) as admin:
        require_group(admin, group)
        brokers = admin.delete_group(group, with_topics=not keep_topics)
    if output is Output.JSON:
        print_json({"group": group, "deleted_from": brokers})
    else:
        print_line(f"{group} is deleted from {', '.join(brokers)}")
