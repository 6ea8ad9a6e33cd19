"""`flintmq config`: the clusters of the config file, and whether they can be used.

No command shows a secret, and none writes the file.  Exit codes are those of `output`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.output import (
    FAILED,
    UNREACHABLE,
    Output,
    OutputOption,
    exit_on_errors,
    exit_with,
    print_json,
    print_line,
    with_json,
)
from flintmq.cli.shared.profiles import ClusterFile, Profile, complete_cluster, read_cluster_file
from flintmq.cli.shared.tables import Wrapped, print_fields, print_table
from flintmq.errors import FlintError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

CHECK_MS = 5_000
"""How long a cluster may take to answer a check."""

app = typer.Typer(
    help="List, show and check the clusters of the config file.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Its name in the file.", autocompletion=complete_cluster),
]


@app.command("list")
@with_json
def list_clusters(output: OutputOption = Output.TABLE) -> None:
    """List the clusters of the config file.

    Examples:
        flintmq config list
    """
    with exit_on_errors():
        file = read_cluster_file()
    if output is Output.JSON:
        clusters = [_facts(file, each) for each in file.clusters.values()]
        print_json({"file": str(file.path), "clusters": clusters})
        return
    if not file.clusters:
        print_line(f"{file.path} names no clusters")
        return
    print_table(
        ("cluster", "default", Wrapped("name servers"), "TLS", "account"),
        (
            (
                each.name,
                "yes" if each.name == file.default else None,
                each.namesrv,
                "yes" if _has_tls(each) else "no",
                each.access_key,
            )
            for each in file.clusters.values()
        ),
    )


@app.command()
@with_json
def show(name: Name, output: OutputOption = Output.TABLE) -> None:
    """Show a cluster of the config file, without its secret.

    Examples:
        flintmq config show prod
    """
    with exit_on_errors():
        file = read_cluster_file()
        facts = _facts(file, file.find(name))
    if output is Output.JSON:
        print_json(facts)
    else:
        print_fields(
            (key.replace("_", " "), "yes" if value is True else "no" if value is False else value)
            for key, value in facts.items()
        )


@app.command()
@with_json
def check(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Only this cluster.",
            show_default=False,
            autocompletion=complete_cluster,
        ),
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect/--offline", help="Ask the clusters, or read files only.")
    ] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the config file: keys, addresses, certificates, secrets, and that clusters answer.

    Examples:
        flintmq config check
        flintmq config check prod --offline
    """
    with exit_on_errors():
        file = read_cluster_file()
        chosen = file.clusters.values() if name is None else [file.find(name)]
    results = {each.name: _try(each, connect=connect) for each in chosen}
    _print_results(file, results, output)
    wrong = [error for error in results.values() if error is not None]
    if wrong:
        code = UNREACHABLE if all(isinstance(each, Unreachable) for each in wrong) else FAILED
        exit_with(f"{len(wrong)} of {len(results)} clusters cannot be used", code)


def _try(profile: Profile, *, connect: bool) -> FlintError | None:
    """What keeps a cluster from being used; None if nothing does."""
    from flintmq.cli.shared.cluster_options import connection_settings
    from flintmq.client.admin import Admin

    try:
        settings = connection_settings(**profile.values())
        settings["call_timeout_ms"] = CHECK_MS
        with Admin(**settings) as admin:
            if connect:
                admin.cluster()
    except FlintError as error:
        return error
    return None


def _print_results(
    file: ClusterFile, results: dict[str, FlintError | None], output: Output
) -> None:
    if output is Output.JSON:
        clusters = [
            {"cluster": name, "ok": error is None, "error": None if error is None else str(error)}
            for name, error in results.items()
        ]
        print_json({"file": str(file.path), "clusters": clusters})
    elif not results:
        print_line(f"{file.path} names no clusters")
    else:
        print_table(("cluster", "usable", Wrapped("why not")), _rows(results))


def _rows(results: dict[str, FlintError | None]) -> Iterable[tuple[object, ...]]:
    for name, error in results.items():
        yield (name, "yes", None) if error is None else (name, "no", str(error))


def _facts(file: ClusterFile, profile: Profile) -> dict[str, object]:
    return {
        "cluster": profile.name,
        "default": profile.name == file.default,
        "namesrv": profile.namesrv,
        "tls": _has_tls(profile),
        "tls_ca": profile.tls_ca,
        "tls_cert": profile.tls_cert,
        "tls_key": profile.tls_key,
        "access_key": profile.access_key,
        "secret_from": profile.secret_source,
    }


def _has_tls(profile: Profile) -> bool:
    return profile.tls or profile.tls_ca is not None or profile.tls_cert is not None
