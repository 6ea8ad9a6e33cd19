"""`flintmq acl accounts`: accounts of ACL 1.0 on running brokers that have it (``--acl plain``).

Exit codes are those of `output`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.access.rules import Dialect
from flintmq.cli.acl.dialect_admin import admin_of
from flintmq.cli.acl.secret_input import read_secret
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import InCluster, OnBroker, Yes
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line
from flintmq.cli.shared.tables import Wrapped, print_table
from flintmq.client.engine.client_config import ClientSettings

SECRET_VARIABLE: Final = "FLINTMQ_ACCOUNT_SECRET"  # noqa: S105  # the name of a variable

app = typer.Typer(
    help="List, set and delete accounts of ACL 1.0.", no_args_is_help=True, epilog=EXIT_CODES
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The access key.")]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME=PERM",
        help="All its own topic permissions, as orders=PUB; may be given several times.",
        show_default=False,
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="NAME=PERM",
        help="All its own group permissions, as billing=SUB; may be given several times.",
        show_default=False,
    ),
]


def _permission(flag: str, meaning: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar="PUB|SUB|DENY", help=meaning, show_default=False
    )
    return option


@app.command("list")
@connected
def list_accounts(
    settings: ClientSettings,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the accounts of each broker, without their secrets.

    Examples:
        flintmq acl accounts list
    """
    with admin_of(Dialect.PLAIN, settings) as admin:
        found = admin.accounts(broker=broker, cluster=cluster)
    if output is Output.JSON:
        print_json(
            [
                {
                    "broker": each.broker,
                    "access_key": each.access_key,
                    "admin": each.is_admin,
                    "default_topic_perm": each.default_topic_perm,
                    "default_group_perm": each.default_group_perm,
                    "topic_perms": each.topic_perms,
                    "group_perms": each.group_perms,
                    "white_address": each.white_address,
                }
                for each in found
            ]
        )
        return
    print_table(
        (
            *("broker", "access key", "admin", "default topic", "default group"),
            *(Wrapped("topics"), Wrapped("groups"), "unsigned from"),
        ),
        (
            (
                each.broker,
                each.access_key,
                "yes" if each.is_admin else "no",
                each.default_topic_perm,
                each.default_group_perm,
                ", ".join(each.topic_perms) or None,
                ", ".join(each.group_perms) or None,
                each.white_address or None,
            )
            for each in found
        ),
    )


@app.command("set")
@connected
def change(
    settings: ClientSettings,
    key: Key,
    topics: Topics = None,
    groups: Groups = None,
    default_topic: Annotated[
        str | None, _permission("--default-topic", "For topics without a permission.")
    ] = None,
    default_group: Annotated[
        str | None, _permission("--default-group", "For groups without a permission.")
    ] = None,
    admin: Annotated[
        bool | None,
        typer.Option("--admin/--no-admin", help="Whether it is an admin.", show_default=False),
    ] = None,
    new_secret: Annotated[
        bool,
        typer.Option(
            "--new-secret",
            help=f"Change the secret; it is read from {SECRET_VARIABLE} or asked for.",
        ),
    ] = False,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file", metavar="FILE", help="The secret is in a file.", show_default=False
        ),
    ] = None,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create an account, or change what is given of it; without --new-secret its secret stays.

    Examples:
        flintmq acl accounts set shop1234 --topic orders=PUB
        flintmq acl accounts set billing1 --topic orders=SUB --group billing=SUB
    """
    with admin_of(Dialect.PLAIN, settings) as asked:
        known = {each.access_key for each in asked.accounts(broker=broker, cluster=cluster)}
        secret = None
        if key not in known or new_secret or secret_file is not None:
            secret = read_secret(secret_file, SECRET_VARIABLE, f"Secret of {key}")
        brokers = asked.change_account(
            key,
            secret,
            is_admin=admin,
            default_topic_perm=default_topic,
            default_group_perm=default_group,
            topic_perms=None if topics is None else tuple(topics),
            group_perms=None if groups is None else tuple(groups),
            broker=broker,
            cluster=cluster,
        )
    what = "changed" if key in known else "created"
    _print_change(key, what, brokers, output)


@app.command()
@connected
def delete(
    settings: ClientSettings,
    key: Key,
    broker: OnBroker = None,
    cluster: InCluster = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete an account.

    Examples:
        flintmq acl accounts delete shop1234 --yes
    """
    if not yes:
        typer.confirm(f"Delete account {key}?", abort=True, err=True)
    with admin_of(Dialect.PLAIN, settings) as admin:
        brokers = admin.delete_account(key, broker=broker, cluster=cluster)
    _print_change(key, "deleted", brokers, output)


def _print_change(key: str, what: str, brokers: list[str], output: Output) -> None:
    if output is Output.JSON:
        print_json({"access_key": key, what: brokers})
    else:
        print_line(f"account {key} is {what} on {', '.join(brokers)}")
