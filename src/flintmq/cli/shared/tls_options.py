"""TLS on the command line: what servers show and ask for, and what they show to name servers.

--tls-cert, --tls-key            what a server shows
--tls-client-ca, --tls-mode      whom it takes
--namesrv-ca, --namesrv-cert …   how a broker speaks to its name servers
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from flintmq.errors import InvalidSetting
from flintmq.net.tls import ClientTls, ServerTls, TlsMode

TLS_PANEL = "TLS"
"""Where the help shows these options."""


def option(
    name: str,
    variable: str | None,
    metavar: str | None,
    meaning: str,
    *,
    default: object = None,
    panel: str | None = None,
) -> Any:
    """An option that may be left out, and the environment variable that stands in for it.

    ``default`` is for the help: what holds where neither it nor a file says anything.
    """
    return typer.Option(
        name,
        envvar=variable,
        metavar=metavar,
        help=meaning,
        show_default=False if default is None else str(default),
        rich_help_panel=panel,
    )


TlsCert = Annotated[
    Path | None,
    option(
        "--tls-cert",
        "FLINTMQ_TLS_CERT",
        "FILE",
        "Speak TLS with this certificate (PEM).",
        panel=TLS_PANEL,
    ),
]
TlsKey = Annotated[
    Path | None,
    option(
        "--tls-key",
        "FLINTMQ_TLS_KEY",
        "FILE",
        "The key of the certificate, when it is in a file of its own.",
        panel=TLS_PANEL,
    ),
]
TlsClientCa = Annotated[
    Path | None,
    option(
        "--tls-client-ca",
        "FLINTMQ_TLS_CLIENT_CA",
        "FILE",
        "Take only clients with a certificate signed by this one; needs --tls-mode enforcing.",
        panel=TLS_PANEL,
    ),
]
Mode = Annotated[
    TlsMode,
    typer.Option(
        "--tls-mode",
        envvar="FLINTMQ_TLS_MODE",
        rich_help_panel=TLS_PANEL,
        help="permissive also takes clients without TLS on the same port; enforcing does not.",
    ),
]
NamesrvCa = Annotated[
    Path | None,
    option(
        "--namesrv-ca",
        "FLINTMQ_NAMESRV_CA",
        "FILE",
        "Speak TLS to the name servers and trust certificates signed by this one.",
        panel=TLS_PANEL,
    ),
]
NamesrvCert = Annotated[
    Path | None,
    option(
        "--namesrv-cert",
        "FLINTMQ_NAMESRV_CERT",
        "FILE",
        "The certificate (PEM) to show to name servers that ask for one.",
        panel=TLS_PANEL,
    ),
]
NamesrvKey = Annotated[
    Path | None,
    option(
        "--namesrv-key",
        "FLINTMQ_NAMESRV_KEY",
        "FILE",
        "Its key, when it is in a file of its own.",
        panel=TLS_PANEL,
    ),
]


def choose_tls(
    cert: Path | None,
    key: Path | None,
    client_ca: Path | None,
    mode: TlsMode,
    prefix: str = "--tls",
) -> ServerTls | None:
    """How a server speaks TLS; None is without.  The flags begin with ``prefix``."""
    if cert is None:
        if key is not None or client_ca is not None:
            flag = f"{prefix}-client-ca" if key is None else f"{prefix}-key"
            reason = f"it needs a certificate: {prefix}-cert"
            raise InvalidSetting(flag, str(key or client_ca), reason)
        return None
    tls = ServerTls(
        certificate_file=str(cert),
        key_file=None if key is None else str(key),
        client_ca_file=None if client_ca is None else str(client_ca),
        mode=mode,
    )
    with _named_by_flags(f"{prefix}-cert", f"{prefix}-client-ca"):
        tls.context()  # now, and not when the first client comes
    return tls


def choose_client_tls(
    ca: Path | str | None, cert: Path | str | None, key: Path | str | None, prefix: str = "--tls"
) -> ClientTls | None:
    """How to speak to servers; None is without TLS.  Any file means TLS.

    ``prefix`` is what the names of the flags begin with.
    """
    if key is not None and cert is None:
        reason = f"it needs the certificate it belongs to: {prefix}-cert"
        raise InvalidSetting(f"{prefix}-key", str(key), reason)
    if ca is None and cert is None:
        return None
    made = ClientTls(
        ca_file=None if ca is None else str(ca),
        certificate_file=None if cert is None else str(cert),
        key_file=None if key is None else str(key),
    )
    with _named_by_flags(f"{prefix}-cert", f"{prefix}-ca"):
        made.context()  # a file that cannot be read is told now
    return made


@contextmanager
def _named_by_flags(certificate: str, authorities: str) -> Iterator[None]:
    """Name a file that cannot be used by the flag it came with."""
    try:
        yield
    except InvalidSetting as error:
        flag = certificate if error.setting == "certificate_file" else authorities
        raise InvalidSetting(flag, error.value, error.reason) from None
