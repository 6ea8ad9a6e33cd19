"""`flintmq acl users`: users of ACL 2.0 on running brokers.  Exit codes are those of `output`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from flintmq.access.rules import Dialect
from flintmq.cli.acl.dialect_admin import admin_of, require_user
from flintmq.cli.acl.secret_input import read_secret
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import InCluster, OnBroker, Yes
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line
from flintmq.cli.shared.tables import print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting

PASSWORD_VARIABLE: Final = "FLINTMQ_USER_PASSWORD"  # noqa: S105  # the name of a variable

app = typer.Typer(
    help="List, create, change and delete users of ACL 2.0.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

UserName = Annotated[str, typer.Argument(metavar="USER", help="Its name.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help=f"Read the password from a file; else from {PASSWORD_VARIABLE}, else it is asked for.",
        show_default=False,
    ),
]


@app.command("list")
@connected
def list_users(
    settings: ClientSettings,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the users of each broker, without their passwords.

    Examples:
        flintmq acl users list
    """
    with admin_of(Dialect.AUTH, settings) as admin:
        users = admin.users(broker=broker, cluster=cluster)
    if output is Output.JSON:
        print_json(
            [
                {
                    "broker": user.broker,
                    "user": user.name,
                    "super": user.is_super,
                    "enabled": user.is_enabled,
                }
                for user in users
            ]
        )
        return
    print_table(
        ("broker", "user", "type", "status"),
        (
            (
                user.broker,
                user.name,
                "Super" if user.is_super else "Normal",
                "enabled" if user.is_enabled else "disabled",
            )
            for user in users
        ),
    )


@app.command()
@connected
def create(
    settings: ClientSettings,
    user: UserName,
    is_super: Annotated[
        bool, typer.Option("--super", help="A super user: it may do everything.")
    ] = False,
    password_file: PasswordFile = None,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a user on every broker.

    Examples:
        flintmq acl users create alice
        flintmq acl users create root --super --password-file /run/secrets/root
    """
    with admin_of(Dialect.AUTH, settings) as admin:
        _refuse_known(user, {each.name for each in admin.users(broker=broker, cluster=cluster)})
        password = read_secret(password_file, PASSWORD_VARIABLE, f"Password of {user}")
        brokers = admin.create_user(
            user, password, is_super=is_super, broker=broker, cluster=cluster
        )
    _print_change(user, "created", brokers, output)


@app.command()
@connected
def update(
    settings: ClientSettings,
    user: UserName,
    is_super: Annotated[
        bool | None,
        typer.Option("--super/--normal", help="Whether it may do everything.", show_default=False),
    ] = None,
    is_enabled: Annotated[
        bool | None,
        typer.Option("--enable/--disable", help="Whether it is served.", show_default=False),
    ] = None,
    new_password: Annotated[
        bool,
        typer.Option(
            "--new-password",
            help=f"Change the password; it is read from {PASSWORD_VARIABLE} or asked for.",
        ),
    ] = False,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Change the password to the one in a file.",
            show_default=False,
        ),
    ] = None,
    broker: OnBroker = None,
    cluster: InCluster = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change what is given of a user.

    Examples:
        flintmq acl users update alice --disable
        flintmq acl users update alice --new-password
    """
    changes_password = new_password or password_file is not None
    if is_super is None and is_enabled is None and not changes_password:
        reason = "say what to change: --super, --normal, --enable, --disable or --new-password"
        raise InvalidSetting("user", user, reason)
    with admin_of(Dialect.AUTH, settings) as admin:
        require_user(admin, user, broker, cluster)  # before a password is asked for
        password = None
        if changes_password:
            password = read_secret(password_file, PASSWORD_VARIABLE, f"New password of {user}")
        brokers = admin.update_user(
            user,
            password=password,
            is_super=is_super,
            is_enabled=is_enabled,
            broker=broker,
            cluster=cluster,
        )
    _print_change(user, "changed", brokers, output)


@app.command()
@connected
def delete(
    settings: ClientSettings,
    user: UserName,
    broker: OnBroker = None,
    cluster: InCluster = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a user and its policies.

    Examples:
        flintmq acl users delete alice --yes
    """
    if not yes:
        typer.confirm(f"Delete user {user} and its policies?", abort=True, err=True)
    with admin_of(Dialect.AUTH, settings) as admin:
        require_user(admin, user, broker, cluster)
        brokers = admin.delete_user(user, broker=broker, cluster=cluster)
    _print_change(user, "deleted", brokers, output)


def _refuse_known(user: str, known: set[str]) -> None:
    if user in known:
        raise InvalidSetting("user", user, "there is one already; flintmq acl users update it")


def _print_change(user: str, what: str, brokers: list[str], output: Output) -> None:
    if output is Output.JSON:
        print_json({"user": user, what: brokers})
    else:
        print_line(f"user {user} is {what} on {', '.join(brokers)}")
