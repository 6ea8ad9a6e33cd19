"""`flintmq acl quotas`: what accounts and groups may send and consume a second.

Quotas are the setting ``quotas`` of a broker.  A change counts at once and until the broker stops;
what is to stay belongs into its broker.conf, and the command prints the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flintmq.access.quotas import Quota, QuotaOwner, QuotaUse, parse_quotas, show_quotas
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import InCluster, OnBroker
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line
from flintmq.cli.shared.tables import print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

SETTING: Final = "quotas"

app = typer.Typer(
    help="List, set and delete quotas of accounts and groups.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

HolderArgument = Annotated[
    str,
    typer.Argument(
        metavar="HOLDER", help="account:NAME or group:NAME; * for all without one of their own."
    ),
]
UseArgument = Annotated[QuotaUse, typer.Argument(help="What it is for.", show_default=False)]


@app.command("list")
@connected
def list_quotas(
    settings: ClientSettings,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the quotas of each broker.

    Examples:
        flintmq acl quotas list
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = {name: quotas_of(admin, name) for name in _brokers(admin, broker, cluster)}
    rows = [(name, quota) for name, quotas in found.items() for quota in quotas]
    if output is Output.JSON:
        print_json([{"broker": name, **_facts(quota)} for name, quota in rows])
        return
    print_table(
        ("broker", "holder", "for", "messages/s", "bytes/s"),
        (
            (name, f"{each.holder}:{each.name}", each.use, each.messages, each.size_bytes)
            for name, each in rows
        ),
    )


@app.command("set")
@connected
def change_quota(
    settings: ClientSettings,
    holder: HolderArgument,
    use: UseArgument,
    rates: Annotated[
        list[str],
        typer.Argument(
            metavar="RATE...", help="Messages a second, as 1000/s; bytes with a unit, as 1MiB/s."
        ),
    ],
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set a quota on every broker, until it stops; the line for broker.conf is printed.

    Examples:
        flintmq acl quotas set account:alice send 1000/s 1MiB/s
        flintmq acl quotas set 'group:*' consume 10MiB/s
    """
    from flintmq.client.admin import Admin

    (quota,) = _read(" ".join([holder, use, *rates]))

    def change(before: tuple[Quota, ...]) -> tuple[Quota, ...]:
        kept = [each for each in before if not _is_same(each, quota)]
        return (*kept, quota)

    with Admin(**settings) as admin:
        changed = _change(admin, _brokers(admin, broker, cluster), change)
    _print_change(f"{quota} is set", changed, output)


@app.command()
@connected
def delete(
    settings: ClientSettings,
    holder: HolderArgument,
    use: UseArgument,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a quota on every broker.

    Examples:
        flintmq acl quotas delete account:alice send
    """
    from flintmq.client.admin import Admin

    (gone,) = _read(f"{holder} {use} 1/s")

    def change(before: tuple[Quota, ...]) -> tuple[Quota, ...]:
        kept = tuple(each for each in before if not _is_same(each, gone))
        if kept == before:
            raise InvalidSetting("quota", f"{holder} {use}", "there is no such quota")
        return kept

    with Admin(**settings) as admin:
        changed = _change(admin, _brokers(admin, broker, cluster), change)
    _print_change(f"{holder} {use} is deleted", changed, output)


def quotas_of(admin: Admin, broker: str) -> tuple[Quota, ...]:
    """The quotas in force at a broker; those of RocketMQ have none."""
    return _read(admin.broker_settings(broker).get(SETTING, ""))


def quotas_that_count(quotas: tuple[Quota, ...], user: str, group: str | None) -> list[Quota]:
    """The quotas that bind a user, and a group if one is named."""
    bound = [
        each
        for each in quotas
        if (each.holder is QuotaOwner.ACCOUNT and each.name in (user, "*"))
        or (each.holder is QuotaOwner.GROUP and group is not None and each.name in (group, "*"))
    ]
    own = {(each.holder, each.use) for each in bound if each.name != "*"}
    return [each for each in bound if each.name != "*" or (each.holder, each.use) not in own]


def _read(text: str) -> tuple[Quota, ...]:
    try:
        return parse_quotas(text)
    except ValueError as error:
        raise InvalidSetting("quota", text, str(error)) from None


def _is_same(one: Quota, other: Quota) -> bool:
    return (one.holder, one.name, one.use) == (other.holder, other.name, other.use)


def _brokers(admin: Admin, broker: str | None, cluster: str | None) -> list[str]:
    return list(admin.cluster().masters(broker=broker, cluster=cluster))


def _change(
    admin: Admin, brokers: list[str], change: Callable[[tuple[Quota, ...]], tuple[Quota, ...]]
) -> dict[str, str]:
    """Change all of these brokers; their new settings come back."""
    texts = {name: show_quotas(change(quotas_of(admin, name))) for name in brokers}
    for name, text in texts.items():
        admin.change_broker_settings(name, {SETTING: text})
    return texts


def _facts(quota: Quota) -> dict[str, object]:
    return {
        "holder": f"{quota.holder}:{quota.name}",
        "for": quota.use,
        "messages_per_second": quota.messages,
        "bytes_per_second": quota.size_bytes,
    }


def _print_change(what: str, changed: dict[str, str], output: Output) -> None:
    if output is Output.JSON:
        print_json([{"broker": name, SETTING: text} for name, text in changed.items()])
        return
    print_line(f"{what} on {', '.join(changed)}, until they stop; to keep it, in broker.conf:")
    for name, text in changed.items():
        print_line(f"  {name}: {SETTING}={text}")
