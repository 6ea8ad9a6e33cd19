"""Access control on the command line of servers: which accounts, and whether to go without any.

    --acl auth|plain      users and policies (ACL 2.0), or plain_acl.yml (ACL 1.0)
    --accounts DIR        where they are kept
    --first-user NAME     ACL 2.0: the super user to begin with; its password is in a variable
    --audit FILE          log who was allowed or refused what
    --open                serve others without access control, knowingly

broker.conf turns it on by RocketMQ's names: aclEnable, or authenticationEnabled together with
authorizationEnabled.  A server that others can reach does not start without access control or
required client certificates unless ``--open`` says so.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, assert_never

import typer

from flintmq.access.rules import Dialect
from flintmq.broker.config.config_file import BrokerSettings
from flintmq.cli.shared.server_process import is_loopback, say
from flintmq.cli.shared.tls_options import option
from flintmq.core.account import Account
from flintmq.embedded.account_files import ACCOUNTS, AccountPlan
from flintmq.errors import InvalidSetting
from flintmq.net.address import Address
from flintmq.net.tls import ServerTls, TlsMode

PASSWORD_VARIABLE: Final = "FLINTMQ_FIRST_USER_PASSWORD"  # noqa: S105  # the name of a variable
INNER_VARIABLES: Final = ("FLINTMQ_INNER_ACCESS_KEY", "FLINTMQ_INNER_SECRET_KEY")

_PANEL = "Access control"


class Acl(StrEnum):
    """What ``--acl`` takes."""

    OFF = "off"
    PLAIN = "plain"
    AUTH = "auth"


AclMode = Annotated[
    Acl | None,
    option(
        "--acl",
        "FLINTMQ_ACL",
        "off|plain|auth",
        "Access control: users and policies (auth, ACL 2.0) or plain_acl.yml (plain, ACL 1.0).",
        default="off",
        panel=_PANEL,
    ),
]
AccountsDirectory = Annotated[
    Path | None,
    option(
        "--accounts",
        "FLINTMQ_ACCOUNTS",
        "DIR",
        "Where accounts are kept.",
        default=f"{ACCOUNTS} in the data directory",
        panel=_PANEL,
    ),
]
FirstUser = Annotated[
    str | None,
    option(
        "--first-user",
        "FLINTMQ_FIRST_USER",
        "NAME",
        f"With --acl auth: a super user to make where there is none; {PASSWORD_VARIABLE} is "
        "its password.",
        panel=_PANEL,
    ),
]
Audit = Annotated[
    Path | None,
    option(
        "--audit",
        "FLINTMQ_AUDIT",
        "FILE",
        "Log refused requests, and allowed ones of administrators, as lines of JSON.",
        panel=_PANEL,
    ),
]
AuditAll = Annotated[
    bool,
    typer.Option(
        "--audit-all",
        envvar="FLINTMQ_AUDIT_ALL",
        help="With --audit: log every request.",
        rich_help_panel=_PANEL,
    ),
]
Open = Annotated[
    bool,
    typer.Option(
        "--open",
        envvar="FLINTMQ_OPEN",
        help="Serve other machines without access control.",
        rich_help_panel=_PANEL,
    ),
]


def choose_accounts(
    acl: Acl | None,
    directory: Path | None,
    first_user: str | None,
    default_directory: Path | None,
    settings: BrokerSettings | None = None,
    *,
    audit: Path | None = None,
    audits_all: bool = False,
) -> AccountPlan | None:
    """The accounts to use, from flags and file; None for none.  `InvalidSetting` for a fault."""
    dialect = _dialect(acl, settings)
    if audits_all and audit is None:
        raise InvalidSetting("audit-all", "", "it needs --audit FILE")
    if dialect is None:
        given_names = (("accounts", directory), ("first-user", first_user), ("audit", audit))
        for name, given in given_names:
            if given is not None:
                raise InvalidSetting(name, str(given), "it needs --acl plain or --acl auth")
        return None
    if directory is None:
        if default_directory is None:
            reason = "say where with --accounts DIR, the same as the broker's"
            raise InvalidSetting("accounts", "", reason)
        directory = default_directory / ACCOUNTS
    return AccountPlan(
        dialect,
        directory.absolute(),
        first_user=_first_user(dialect, first_user, settings),
        inner=_inner(settings),
        audit=None if audit is None else audit.absolute(),
        audits_all=audits_all,
    )


def refuse_if_open(
    listens: list[Address], tls: ServerTls | None, accounts: AccountPlan | None, *, is_open: bool
) -> None:
    """Raise `InvalidSetting` where others can reach a server and nothing keeps them out."""
    reached = [str(listen) for listen in listens if not is_loopback(listen.host)]
    if not reached or accounts is not None or _wants_certificates(tls):
        return
    where = " and ".join(reached)
    if not is_open:
        raise InvalidSetting(
            "listen address",
            where,
            "other machines can connect and nothing keeps them out: turn access control on "
            "(--acl auth), require client certificates (--tls-cert, --tls-client-ca, "
            "--tls-mode enforcing), or say --open",
        )
    say(f"warning: {where} is open to the network without {_lacking(tls)}")


def _wants_certificates(tls: ServerTls | None) -> bool:
    return tls is not None and tls.mode is TlsMode.ENFORCING and tls.client_ca_file is not None


def _lacking(tls: ServerTls | None) -> str:
    mode = TlsMode.OFF if tls is None else tls.mode
    match mode:
        case TlsMode.OFF:
            return "TLS and access control"
        case TlsMode.PERMISSIVE:
            return "access control, and clients without TLS are served too"
        case TlsMode.ENFORCING:
            return "access control"
        case other:
            assert_never(other)


def _dialect(acl: Acl | None, settings: BrokerSettings | None) -> Dialect | None:
    if acl is not None:
        return {Acl.OFF: None, Acl.PLAIN: Dialect.PLAIN, Acl.AUTH: Dialect.AUTH}[acl]
    if settings is None:
        return None
    if settings.authentication != settings.authorization:
        raise InvalidSetting(
            "authorizationEnabled",
            str(settings.authorization).lower(),
            "authenticationEnabled and authorizationEnabled are true together, or neither is",
        )
    if settings.acl and settings.authentication:
        raise InvalidSetting("aclEnable", "true", "choose ACL 1.0 or ACL 2.0, not both")
    if settings.authentication:
        return Dialect.AUTH
    return Dialect.PLAIN if settings.acl else None


def _first_user(
    dialect: Dialect, name: str | None, settings: BrokerSettings | None
) -> tuple[str, str] | None:
    if name is None:
        return None if settings is None else settings.first_user
    if dialect is not Dialect.AUTH:
        raise InvalidSetting("first-user", name, "only ACL 2.0 has users; edit plain_acl.yml")
    password = os.environ.get(PASSWORD_VARIABLE)
    if not password:
        raise InvalidSetting("first-user", name, f"set {PASSWORD_VARIABLE} to its password")
    return name, password


def _inner(settings: BrokerSettings | None) -> Account | None:
    key, secret = map(os.environ.get, INNER_VARIABLES)
    if key and secret:
        return Account(key, secret)
    if key or secret:
        raise InvalidSetting(
            "inner account", key or "", " and ".join(INNER_VARIABLES) + " go together"
        )
    if settings is None or settings.inner is None:
        return None
    return Account(*settings.inner)
