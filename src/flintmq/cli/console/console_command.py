"""`flintmq console`: pages in a browser for people who run a cluster.

Once it answers, one line goes to stdout, with the address to open:

    flintmq console ready at http://127.0.0.1:8088/login?token=…

Exit codes are those of `server_process`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from flintmq.cli.console.console_start import check_console, open_console
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.server_options import Level
from flintmq.cli.shared.server_process import (
    LogLevel,
    serve_until_told,
    stop_signal,
    stopping_or_failed,
)
from flintmq.cli.shared.tls_options import choose_tls, option
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting
from flintmq.net.address import Address, parse_addresses, parse_host
from flintmq.net.tls import TlsMode

if TYPE_CHECKING:
    from flintmq.client.admin_methods import AdminSettings
    from flintmq.console.app import ConsoleSettings

AUDIT_FILE = Path("flintmq-console-audit.log")
"""In the working directory."""


class Login(StrEnum):
    """How people sign in."""

    TOKEN = "token"  # noqa: S105  # a word of the command line
    ACCOUNTS = "accounts"


CONSOLE_HERE = Address("127.0.0.1", 8088)

Token = Annotated[
    str | None,
    option(
        "--token",
        "FLINTMQ_CONSOLE_TOKEN",
        "TOKEN",
        "What people sign in with; better given by the variable, which others cannot list. "
        "Without it the console makes one for this start.",
    ),
]
Listen = Annotated[
    str | None,
    option(
        "--listen",
        "FLINTMQ_CONSOLE_LISTEN",
        "HOST:PORT",
        "Where to listen.",
        default=CONSOLE_HERE,
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A name under which browsers reach it, as mq.example; may be several.",
        show_default=False,
    ),
]
LoginBy = Annotated[
    Login,
    typer.Option(
        "--login",
        envvar="FLINTMQ_CONSOLE_LOGIN",
        help="How people sign in: with the token, or with accounts of the brokers, whose "
        "rights then hold.",
    ),
]
SparkRunsAt = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-run",
        metavar="HOST:PORT",
        help="Also show the Spark queries of the program that serves its metrics there, as "
        "flintmq run --spark … --metrics HOST:PORT does; may be several.",
        show_default=False,
    ),
]
NoBodies = Annotated[
    bool,
    typer.Option("--no-bodies", help="Show, search and hand out no body of any message."),
]
HttpsCert = Annotated[
    Path | None,
    option(
        "--https-cert",
        "FLINTMQ_CONSOLE_CERT",
        "FILE",
        "Speak HTTPS with this certificate (PEM); --tls-cert is what brokers are shown.",
    ),
]
HttpsKey = Annotated[
    Path | None,
    option(
        "--https-key",
        "FLINTMQ_CONSOLE_KEY",
        "FILE",
        "The key of the certificate, when it is in a file of its own.",
    ),
]
AllowChanges = Annotated[
    bool,
    typer.Option(
        "--allow-changes",
        help="Let people reset offsets, replay dead letters, create and delete topics.",
    ),
]
AuditFile = Annotated[
    Path | None,
    option(
        "--audit",
        "FLINTMQ_CONSOLE_AUDIT",
        "FILE",
        "Where changes are written down.",
        default=AUDIT_FILE,
    ),
]


@connected
def console(
    settings: ClientSettings,
    listen: Listen = None,
    hosts: Hosts = None,
    token: Token = None,
    login: LoginBy = Login.TOKEN,
    no_bodies: NoBodies = False,
    allow_changes: AllowChanges = False,
    spark_runs: SparkRunsAt = None,
    https_cert: HttpsCert = None,
    https_key: HttpsKey = None,
    audit: AuditFile = None,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run pages in a browser that show a cluster: topics, groups, messages, who is behind.

    It changes nothing without --allow-changes, and listens on loopback by default. It speaks HTTP
    unless it has a certificate: give it one, or a proxy with TLS, where other machines reach it.

    Examples:
        flintmq console
        flintmq console -n mq.example:9876 --listen 127.0.0.1:8088
    """
    address = CONSOLE_HERE if listen is None else Address.parse(listen)
    with_accounts = login is Login.ACCOUNTS
    if with_accounts and token is not None:
        raise InvalidSetting("login", login, "people sign in with accounts: give no token")
    tls = choose_tls(https_cert, https_key, None, TlsMode.ENFORCING, prefix="--https")
    check_console(
        address, token, hosts or (), with_accounts=with_accounts, is_secure=tls is not None
    )
    from flintmq.console.app import ConsoleSettings

    client = cast("AdminSettings", settings)  # with one key less, none of which is required
    wanted = ConsoleSettings(
        client=client,
        token=token,
        with_accounts=with_accounts,
        hosts=[*map(parse_host, hosts or ())],
        shows_bodies=not no_bodies,
        audit=(audit or AUDIT_FILE) if allow_changes else None,
        tls=tls,
        spark_runs=[each for text in spark_runs or () for each in parse_addresses(text)],
    )
    serve_until_told(_serve(wanted, address), log_level)


async def _serve(settings: ConsoleSettings, listen: Address) -> None:
    stopping = stop_signal()
    async with open_console(settings, listen) as running:
        typer.echo(f"flintmq console ready at {running.link}")
        await stopping_or_failed(stopping)
