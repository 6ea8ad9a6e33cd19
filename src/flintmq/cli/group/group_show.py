"""`flintmq group show`: who is in a group, whether they agree, and why a queue stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import GroupName, require_group
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings

if TYPE_CHECKING:
    from flintmq.core.admin.group_diagnosis import GroupDiagnosis, MemberTold
    from flintmq.core.admin.groups import Member


@connected
def show(settings: ClientSettings, group: GroupName, output: OutputOption = Output.TABLE) -> None:
    """Show members, subscriptions and conflicts of a group, and why a queue stands still.

    Examples:
        flintmq group show billing
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = admin.diagnose(group)
        if not found.is_known and found.online is None and not found.queues:
            require_group(admin, group)
    if output is Output.JSON:
        print_json(_facts(found))
    else:
        _print(found)


@connected
def connections(
    settings: ClientSettings, group: GroupName, output: OutputOption = Output.TABLE
) -> None:
    """Show who is connected: consumers of a group, and producers of the same name.

    Examples:
        flintmq group connections billing --json
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        online = admin.members(group)
        consumers = () if online is None else online.members
        producers = admin.producers(group)
        if not consumers and not producers:
            require_group(admin, group)
    if output is Output.JSON:
        print_json({"group": group, "consumers": consumers, "producers": producers})
    elif not consumers and not producers:
        print_line(f"nobody of {group} is connected")
    else:
        print_table(
            ("kind", *_HEAD),
            [
                *(("consumer", *_row(member)) for member in consumers),
                *(("producer", *_row(member)) for member in producers),
            ],
        )


_HEAD = ("client", "address", "language", "version", Wrapped("brokers"))


def _row(member: Member) -> tuple[str, ...]:
    where = ", ".join(member.brokers)
    return member.client_id, member.address, member.language, member.version, where


def _facts(found: GroupDiagnosis) -> dict[str, object]:
    online = found.online
    return {
        "group": found.group,
        "online": online is not None,
        "model": None if online is None else online.message_model,
        "type": None if online is None else online.consume_type,
        "from": None if online is None else online.from_where,
        "members": [
            {
                "client_id": told.member.client_id,
                "address": told.member.address,
                "language": told.member.language,
                "version": told.member.version,
                "brokers": told.member.brokers,
                "queues": _queue_count(told),
                "ordered": told.is_ordered,
                "silence": told.silence or None,
            }
            for told in found.members
        ],
        "subscriptions": () if online is None else online.wishes,
        "conflicts": found.conflicts,
        "missing_topics": found.missing,
        "queues": [
            {
                "topic": each.progress.queue.topic,
                "broker": each.progress.queue.broker,
                "queue_id": each.progress.queue.queue_id,
                "lag": each.progress.lag,
                "in_flight": each.progress.in_flight,
                "owners": each.owners,
                "why": each.why or None,
            }
            for each in found.queues
        ],
    }


def _queue_count(told: MemberTold) -> int | None:
    return None if told.running is None else len(told.running.mq_table)


def _print(found: GroupDiagnosis) -> None:
    online = found.online
    if online is None:
        print_line(f"no member of {found.group} is online")
    else:
        model, kind, start = online.message_model, online.consume_type, online.from_where
        print_line(f"{found.group}: {model}, {kind}, {start}")
        print_table(
            (*_HEAD, "queues", "ordered"),
            (
                (
                    *_row(told.member),
                    _queue_count(told),
                    {True: "yes", False: "no", None: None}[told.is_ordered],
                )
                for told in found.members
            ),
        )
        print_table(
            ("topic", "kind", Wrapped("expression")),
            ((wish.topic, wish.kind, wish.expression) for wish in online.wishes),
        )
    for told in found.members:
        if told.silence:
            print_line(f"{told.member.client_id} {told.silence}")
    for text in found.missing:
        print_line(f"warning: {text}")
    for conflict in found.conflicts:
        print_line(f"conflict: {conflict}")
    if found.queues:
        print_table(
            ("topic", "broker", "queue", "lag", "in flight", "owner", Wrapped("why it is behind")),
            (
                (
                    each.progress.queue.topic,
                    each.progress.queue.broker,
                    each.progress.queue.queue_id,
                    each.progress.lag,
                    each.progress.in_flight,
                    ", ".join(each.owners) or None,
                    each.why or None,
                )
                for each in found.queues
            ),
        )
