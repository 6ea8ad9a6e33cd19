"""`flintmq topic`: topics of a cluster.  Exit codes are those of `output`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.completion import complete_topic
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import InCluster, OnBroker, Yes
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line, when
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting
from flintmq.model.route import MASTER_ID
from flintmq.model.topic import READ_WRITE, Permission

if TYPE_CHECKING:
    from flintmq.core.admin.topics import TopicDetail, TopicSettings, TopicSize


class MessageKind(StrEnum):
    """The types of a topic."""

    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"
    TRANSACTION = "transaction"
    MIXED = "mixed"


app = typer.Typer(
    help="List, make, change, show and delete topics.", no_args_is_help=True, epilog=EXIT_CODES
)

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="Its name.", autocompletion=complete_topic)
]
Letters = Annotated[
    str | None,
    typer.Option("--perm", metavar="RW|R|W", help="What clients may do.", show_default=False),
]


@app.command("list")
@connected
def list_topics(
    settings: ClientSettings,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also retry, dead letter and system topics.")
    ] = False,
    sizes: Annotated[
        bool,
        typer.Option("--sizes", "-s", help="Also queues and messages; asks every broker."),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the topics of the cluster.

    Examples:
        flintmq topic list
        flintmq topic list --sizes
        flintmq topic list --all --json
    """
    from flintmq.client.admin import Admin
    from flintmq.core.admin.topics import TopicKind

    with Admin(**settings) as admin:
        topics = admin.topics()
        shown = [topic for topic in topics if everything or topic.kind is TopicKind.NORMAL]
        if sizes:
            _print_sizes([admin.topic_size(topic) for topic in shown], output)
            return
    if output is Output.JSON:
        print_json([{"topic": topic.name, "kind": topic.kind} for topic in shown])
    else:
        print_table(("topic", "kind"), ((topic.name, topic.kind) for topic in shown))


def _print_sizes(found: list[TopicSize], output: Output) -> None:
    if output is Output.JSON:
        print_json(
            [
                {
                    "topic": each.topic.name,
                    "kind": each.topic.kind,
                    "brokers": each.brokers,
                    "queues": each.queue_count,
                    "messages": each.messages,
                    "last_ms": each.last_ms,
                }
                for each in found
            ]
        )
        return
    print_table(
        ("topic", "kind", "brokers", "queues", "messages", "last stored at"),
        (
            (
                each.topic.name,
                each.topic.kind,
                len(each.brokers),
                each.queue_count,
                each.messages,
                when(each.last_ms),
            )
            for each in found
        ),
    )
    messages = sum(each.messages for each in found)
    print_line(f"{messages} messages in {len(found)} topic{'' if len(found) == 1 else 's'}")


@app.command()
@connected
def create(
    settings: ClientSettings,
    topic: Topic,
    queues: Annotated[int, typer.Option("--queues", "-q", help="Queues on each broker.")] = 8,
    perm: Letters = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="Mark it as ordered.")] = False,
    kind: Annotated[
        MessageKind | None,
        typer.Option(
            "--type",
            help="What gRPC clients may send to it.",
            case_sensitive=False,
            show_default="normal messages",
        ),
    ] = None,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a topic on every broker.  One that is there already must have the same settings.

    Examples:
        flintmq topic create orders --queues 8
        flintmq topic create orders-fifo --type fifo
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        made = admin.create_topic(
            topic,
            queues=queues,
            permission=READ_WRITE if perm is None else parse_permission(perm),
            is_ordered=ordered,
            attributes=None if kind is None else {"message.type": kind.upper()},
            broker=broker,
            cluster=cluster,
        )
    _print_detail(made, output)


@app.command()
@connected
def update(
    settings: ClientSettings,
    topic: Topic,
    queues: Annotated[
        int | None, typer.Option("--queues", "-q", help="To read and to write.", show_default=False)
    ] = None,
    read_queues: Annotated[
        int | None, typer.Option("--read-queues", help="To read.", show_default=False)
    ] = None,
    write_queues: Annotated[
        int | None, typer.Option("--write-queues", help="To write.", show_default=False)
    ] = None,
    perm: Letters = None,
    broker: OnBroker = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change a topic.  What is not named stays as it is.

    Examples:
        flintmq topic update orders --queues 16
        flintmq topic update orders --perm R
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        changed = admin.update_topic(
            topic,
            read_queues=queues if read_queues is None else read_queues,
            write_queues=queues if write_queues is None else write_queues,
            permission=None if perm is None else parse_permission(perm),
            broker=broker,
        )
    _print_detail(changed, output)


@app.command()
@connected
def show(settings: ClientSettings, topic: Topic, output: OutputOption = Output.TABLE) -> None:
    """Show the settings of a topic on each broker, and the groups that read it.

    Examples:
        flintmq topic show orders
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        detail = admin.describe_topic(topic)
    _print_detail(detail, output)


@app.command()
@connected
def route(settings: ClientSettings, topic: Topic, output: OutputOption = Output.TABLE) -> None:
    """Show where clients send and read a topic: brokers, addresses, queues.

    It is what the name server tells producers and consumers.

    Examples:
        flintmq topic route orders
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = admin.route(topic)
    queues = {counts.broker: counts for counts in found.queues}
    rows = [
        {
            "broker": known.broker,
            "cluster": known.cluster,
            "broker_id": broker_id,
            "role": "master" if broker_id == MASTER_ID else "slave",
            "address": address,
            "read_queues": queues[known.broker].read_count if known.broker in queues else 0,
            "write_queues": queues[known.broker].write_count if known.broker in queues else 0,
            "perm": queues[known.broker].permission.letters if known.broker in queues else None,
        }
        for known in sorted(found.brokers, key=lambda each: each.broker)
        for broker_id, address in sorted(known.addresses.items())
    ]
    if output is Output.JSON:
        print_json({"topic": topic, "order": found.order or None, "brokers": rows})
        return
    names = ("broker", "role", "address", "read_queues", "write_queues", "perm")
    print_table(
        [name.replace("_", " ") for name in names], ([row[name] for name in names] for row in rows)
    )


@app.command()
@connected
def stats(settings: ClientSettings, topic: Topic, output: OutputOption = Output.TABLE) -> None:
    """Show how many messages each queue of a topic has.

    Examples:
        flintmq topic stats orders --json
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        queues = admin.topic_stats(topic)
    if output is Output.JSON:
        print_json(
            {
                "topic": topic,
                "messages": sum(each.count for each in queues),
                "queues": [
                    {
                        "broker": each.queue.broker,
                        "queue_id": each.queue.queue_id,
                        "min_offset": each.min_offset,
                        "max_offset": each.max_offset,
                        "last_ms": each.last_ms,
                    }
                    for each in queues
                ],
            }
        )
        return
    print_table(
        ("broker", "queue", "min offset", "max offset", "messages", "last stored at"),
        (
            (
                each.queue.broker,
                each.queue.queue_id,
                each.min_offset,
                each.max_offset,
                each.count,
                when(each.last_ms),
            )
            for each in queues
        ),
    )
    print_line(f"{sum(each.count for each in queues)} messages in {len(queues)} queues")


@app.command()
@connected
def delete(
    settings: ClientSettings,
    topic: Topic,
    cluster: InCluster = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a topic and all its messages.

    Examples:
        flintmq topic delete orders --yes
    """
    from flintmq.client.admin import Admin

    if not yes:
        typer.confirm(f"Delete {topic} and all its messages?", abort=True, err=True)
    with Admin(**settings) as admin:
        brokers = admin.delete_topic(topic, cluster=cluster)
    if output is Output.JSON:
        print_json({"topic": topic, "deleted_from": brokers})
    else:
        print_line(f"{topic} is deleted from {', '.join(brokers)}")


def parse_permission(text: str) -> Permission:
    """``RW``, ``R``, ``W``, or the number RocketMQ's tools take."""
    known = {
        "RW": READ_WRITE,
        "R": Permission.READ,
        "W": Permission.WRITE,
        "6": READ_WRITE,
        "4": Permission.READ,
        "2": Permission.WRITE,
    }
    try:
        return known[text.upper()]
    except KeyError:
        raise InvalidSetting("perm", text, "give RW, R or W") from None


def _print_detail(detail: TopicDetail, output: Output) -> None:
    if output is Output.JSON:
        print_json(
            {
                "topic": detail.topic,
                "brokers": [_facts(one) for one in detail.brokers],
                "groups": detail.groups,
            }
        )
        return
    print_table(
        ("broker", "read queues", "write queues", "perm", "ordered", Wrapped("attributes")),
        (
            (
                one.broker,
                one.read_queues,
                one.write_queues,
                one.permission.letters,
                "yes" if one.is_ordered else "no",
                ", ".join(f"{key}={value}" for key, value in one.attributes.items()) or None,
            )
            for one in detail.brokers
        ),
    )
    if detail.groups:
        print_line(f"read by {', '.join(detail.groups)}")


def _facts(one: TopicSettings) -> dict[str, object]:
    return {
        "broker": one.broker,
        "read_queues": one.read_queues,
        "write_queues": one.write_queues,
        "perm": one.permission.letters,
        "ordered": one.is_ordered,
        "attributes": dict(one.attributes),
    }
