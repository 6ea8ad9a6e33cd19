"""`flintmq tls`: certificates for tests and small set-ups.  It needs ``flintmq[tls]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.output import (
    Output,
    OutputOption,
    exit_on_errors,
    print_json,
    print_line,
    with_json,
)
from flintmq.errors import MissingExtra

app = typer.Typer(help="Make certificates.", no_args_is_help=True, epilog=EXIT_CODES)


@app.callback()
def tls() -> None:
    """Make certificates for tests and small set-ups."""


@app.command()
@with_json
def make(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put the files.")],
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME|IP",
            help="A host that servers run on; may be given several times.",
            show_default="localhost, 127.0.0.1 and ::1",
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=3_650, help="How long certificates hold.")
    ] = 365,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make an authority, a certificate for servers and one for clients; overwrite nothing.

    An authority that is in the directory already signs again: to renew, remove the server's and
    the client's files and call it again.  Running servers take the changed files by themselves.

    Examples:
        flintmq tls make certs --host mq.example --host 10.0.0.5
    """
    with exit_on_errors():
        try:
            from flintmq.embedded.certificate_files import make_certificates
        except ImportError:
            raise MissingExtra("cryptography", "tls") from None
        made = make_certificates(directory, hosts or ["localhost", "127.0.0.1", "::1"], days)
    if output is Output.JSON:
        print_json({"files": [str(path) for path in made]})
        return
    for path in made:
        print_line(str(path))
    print_line("servers:  --tls-cert server.pem --tls-key server.key")
    print_line("          and to serve only clients with a certificate:")
    print_line("          --tls-client-ca ca.pem --tls-mode enforcing")
    print_line("clients:  --tls-ca ca.pem --tls-cert client.pem --tls-key client.key")
    print_line("keep ca.key away from servers: whoever has it can make certificates")
