"""`flintmq cluster`: which brokers there are and how they are doing.

`list` asks the name server only.  `status` asks every replica, and ends with exit code 3 when one
of them does not answer, so that a script notices.  The other exit codes are those of `output`.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.output import (
    FAILED,
    UNREACHABLE,
    Output,
    OutputOption,
    exit_with,
    print_json,
)
from flintmq.cli.shared.tables import print_table
from flintmq.client.engine.client_config import ClientSettings
from flintmq.model.route import MASTER_ID
from flintmq.reports.amounts import rate_text, share_text, size_text

if TYPE_CHECKING:
    from flintmq.core.admin.broker_status import BrokerStatus, ReplicaFigures

app = typer.Typer(
    help="List the brokers of a cluster and show how they are doing.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)


@app.command("list")
@connected
def list_brokers(settings: ClientSettings, output: OutputOption = Output.TABLE) -> None:
    """List clusters, brokers, their roles and addresses, as the name server knows them.

    Examples:
        flintmq cluster list -n 127.0.0.1:9876
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        brokers = admin.cluster().brokers
    rows = [
        (known.cluster, known.broker, "master" if each == MASTER_ID else "slave", each, address)
        for known in brokers
        for each, address in sorted(known.addresses.items())
    ]
    head = ("cluster", "broker", "role", "broker_id", "address")
    if output is Output.JSON:
        print_json([dict(zip(head, row, strict=True)) for row in rows])
    elif rows:
        print_table(("cluster", "broker", "role", "id", "address"), rows)
    if not rows:
        exit_with("no broker is registered", FAILED, "is one running with this name server?")


@app.command("status")
@connected
def status(settings: ClientSettings, output: OutputOption = Output.TABLE) -> None:
    """Show version, rates, disk and counts of every broker. Exit code 3: one does not answer.

    Rates are means over the last ten seconds, as the brokers count them.

    Examples:
        flintmq cluster status -n 127.0.0.1:9876
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        found = admin.cluster_status()
    if not found:
        exit_with("no broker is registered", FAILED, "is one running with this name server?")
    if output is Output.JSON:
        print_json([status_facts(each) for each in found])
    else:
        head = ["broker", "role", "version", "sent", "delivered", "log", "disk", "topics", "groups"]
        rows: list[tuple[object, ...]] = [_row(each) for each in found]
        if any(each.broker_id != MASTER_ID for each in found):
            head.append("behind")
            rows = [(*row, _behind(each, found)) for row, each in zip(rows, found, strict=True)]
        print_table(head, rows)
    exit_if_silent(found)


def _row(of: BrokerStatus) -> tuple[object, ...]:
    if (it := of.figures) is None:
        return (of.broker, of.role, "no answer", *(None,) * 6)
    return (
        of.broker,
        of.role,
        it.version,
        rate_text(it.sent_per_s),
        rate_text(it.delivered_per_s),
        size_text(it.log_bytes),
        share_text(it.disk_ratio),
        it.topic_count,
        it.group_count,
    )


def _behind(of: BrokerStatus, found: tuple[BrokerStatus, ...]) -> str | None:
    """How many bytes of the log of its master a slave lacks, as text."""
    masters = (each for each in found if (each.broker, each.broker_id) == (of.broker, MASTER_ID))
    master = next(masters, None)
    if of.broker_id == MASTER_ID or master is None or master.figures is None or of.figures is None:
        return None
    its_end, end = master.figures.log_end, of.figures.log_end
    return None if its_end is None or end is None else size_text(max(0, its_end - end))


def status_facts(of: BrokerStatus) -> dict[str, object]:
    """Every field of a replica, flat; those of one that does not answer are null."""
    from flintmq.core.admin.broker_status import BrokerFigures

    names = [each.name for each in fields(BrokerFigures) if each.name != "replicas"]
    return {
        "cluster": of.cluster,
        "broker": of.broker,
        "role": of.role,
        "broker_id": of.broker_id,
        "address": of.address,
        **{name: getattr(of.figures, name, None) for name in names},
        "replicas": None if of.figures is None else _replica_facts(of.figures.replicas),
        "error": of.error,
    }


def _replica_facts(of: ReplicaFigures | None) -> dict[str, object] | None:
    return None if of is None else asdict(of)


def exit_if_silent(found: tuple[BrokerStatus, ...]) -> None:
    """End with exit code 3 when a broker did not answer."""
    silent = [each for each in found if each.error is not None]
    if silent:
        sentences = "; ".join(f"{each.broker}: {each.error}" for each in silent)
        exit_with(f"no answer from {len(silent)} of {len(found)} brokers: {sentences}", UNREACHABLE)
