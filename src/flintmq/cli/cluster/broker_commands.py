"""`flintmq broker status` and `flintmq broker config`: one running broker, and its settings.

A change goes to the broker that is named, is shown first and asked about.  What may be changed
while it runs is the broker's decision: it refuses the rest, or keeps it for its next start.  After
a change the settings are read again, because some brokers accept a name that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.broker import app
from flintmq.cli.cluster.cluster_commands import exit_if_silent, status_facts
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.options import DryRun, Yes
from flintmq.cli.shared.output import (
    FAILED,
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    timestamp,
)
from flintmq.cli.shared.tables import print_fields, print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import InvalidSetting
from flintmq.reports.amounts import rate_text, share_text, size_text

if TYPE_CHECKING:
    from flintmq.client.admin import Admin
    from flintmq.core.admin.broker_status import BrokerStatus, ReplicaFigures

NameArgument = Annotated[str, typer.Argument(metavar="BROKER", help="Its name.")]
FIGURES_OMITTED = ("scheduleMessageOffset_", "putMessageDistributeTime")
"""Figures of one line each that say little to people; --json with --all has them."""


@app.command("status")
@connected
def broker_status(
    settings: ClientSettings,
    broker: Annotated[
        str | None,
        typer.Argument(metavar="BROKER", help="Its name; without it, all.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Every figure that the broker reports.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a running broker reports: version, rates, latency, disk, counts.

    Examples:
        flintmq broker status broker-a
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = admin.cluster_status(broker=broker)
        named = sorted({each.broker for each in found if each.error is None})
        reported = {name: admin.broker_figures(name) for name in named} if everything else {}
    if not found:
        exit_with("no broker is registered", FAILED, "is one running with this name server?")
    if output is Output.JSON:
        print_json(
            [status_facts(each) | _reported_facts(reported.get(each.broker)) for each in found]
        )
    else:
        for each in found:
            _print_status(each, reported.get(each.broker, {}))
    exit_if_silent(found)


def _reported_facts(reported: Mapping[str, str] | None) -> dict[str, object]:
    return {} if reported is None else {"figures": reported}


def _print_status(of: BrokerStatus, reported: Mapping[str, str]) -> None:
    print_line(f"{of.broker}, {of.role}, at {of.address} of cluster {of.cluster}")
    if (it := of.figures) is None:
        print_line("no answer")
        return
    rows: list[tuple[str, object]] = [
        ("version", it.version),
        ("started", timestamp(it.started_ms)),
        ("sent", rate_text(it.sent_per_s)),
        ("delivered", rate_text(it.delivered_per_s)),
        ("sent today", _count_text(it.sent_today)),
        ("delivered today", _count_text(it.delivered_today)),
        ("99 % of sends take up to", None if it.put_p99_ms is None else f"{it.put_p99_ms:g} ms"),
        ("commit log", size_text(it.log_bytes)),
        ("disk used", share_text(it.disk_ratio)),
        ("oldest message", timestamp(it.oldest_ms)),
        ("topics", _count_text(it.topic_count)),
        ("groups", _count_text(it.group_count)),
    ]
    if it.damages:
        rows.append(("damaged", it.damages))
    if it.replicas is not None:
        rows += _replica_rows(it.replicas)
    rows += [
        (name, value) for name, value in reported.items() if not name.startswith(FIGURES_OMITTED)
    ]
    print_fields(rows)


def _replica_rows(of: ReplicaFigures) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        (f"slave at {each.address}", f"{each.behind_bytes:,} bytes behind") for each in of.slaves
    ]
    if of.master is not None:
        rows.append(("follows", of.master or "no master"))
        rows.append(("heard from it", timestamp(of.heard_ms)))
    return rows


def _count_text(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


config_app = typer.Typer(
    help="Read and change the settings of a running broker.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)


app.add_typer(config_app, name="config")


@config_app.command("get")
@connected
def get(
    settings: ClientSettings,
    broker: NameArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Settings; without any, all.", show_default=False),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show settings of a running broker, under RocketMQ's names.

    Examples:
        flintmq broker config get broker-a deleteWhen
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = dict(admin.broker_settings(broker))
    unknown = [name for name in names or () if name not in found]
    chosen = {name: found[name] for name in sorted(names or found) if name in found}
    if output is Output.JSON:
        print_json(chosen)
    elif chosen:
        print_table(("setting", "value"), chosen.items())
    if unknown:
        exit_with(f"{broker} has no setting {', '.join(unknown)}", FAILED, _nearest(unknown, found))


@config_app.command("set")
@connected
def change(
    settings: ClientSettings,
    broker: NameArgument,
    changes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="What to change.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings of a running broker; the broker keeps them in its file. Shows and asks first.

    Examples:
        flintmq broker config set broker-a deleteWhen=05
    """
    from flintmq.client.admin import Admin

    wanted = dict(map(_parse_change, changes))
    with Admin(**settings) as admin:
        before = dict(admin.broker_settings(broker))
        unknown = [name for name in wanted if name not in before]
        if unknown:
            hint = _nearest(unknown, before)
            exit_with(f"{broker} has no setting {', '.join(unknown)}", FAILED, hint)
        is_meant = yes and not dry_run
        if output is Output.TABLE:
            rows = ((name, before[name], value) for name, value in wanted.items())
            print_table(("setting", "is", "will be"), rows)
            if not dry_run and not yes:
                typer.confirm(f"Change {broker}?", abort=True, err=True)
            is_meant = not dry_run
        after = _apply(admin, broker, wanted) if is_meant else before
    if output is Output.JSON:
        print_json(
            [{"setting": name, "before": before[name], "after": after.get(name)} for name in wanted]
        )
        if not yes and not dry_run:
            exit_with("nothing was changed: add --yes", USAGE_ERROR)
    if is_meant:
        ignored = [name for name, value in wanted.items() if after.get(name) != value]
        if ignored:
            exit_with(f"{broker} accepted and does not show: {', '.join(ignored)}", FAILED)
        if output is Output.TABLE:
            print_line(f"{len(wanted)} settings of {broker} are changed")


def _apply(admin: Admin, broker: str, wanted: Mapping[str, str]) -> dict[str, str]:
    admin.change_broker_settings(broker, wanted)
    return dict(admin.broker_settings(broker))


def _parse_change(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidSetting("setting", text, "give NAME=VALUE")
    return name, value


def _nearest(unknown: list[str], known: Mapping[str, str]) -> str:
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    close = [
        by_lower[found]
        for name in unknown
        for found in get_close_matches(name.lower(), by_lower, n=1)
    ]
    return f"is it {', '.join(close)}?" if close else "flintmq broker config get shows all"
