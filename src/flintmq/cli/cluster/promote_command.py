"""`flintmq broker promote`: a slave becomes the master, and the master its slave.

What would be done is shown first and asked about.  Nothing is begun when something speaks against
it; `core.promotion` has the steps and what happens when one of them fails.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.broker import app
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import DryRun, Yes
from flintmq.cli.shared.output import (
    FAILED,
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
)
from flintmq.cli.shared.tables import print_table
from flintmq.client.engine.client_config import ClientSettings

if TYPE_CHECKING:
    from flintmq.core.promotion import PromotionPlan


@app.command("promote")
@connected
def promote(
    settings: ClientSettings,
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Its name.")],
    slave_id: Annotated[
        int | None,
        typer.Option("--id", help="Which slave.", show_default="the one with the lowest id"),
    ] = None,
    master_gone: Annotated[
        bool,
        typer.Option(
            "--master-gone",
            help="There is no master: promote the slave as it is. What it lacks is lost.",
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a slave the master and the master its slave. Nothing acknowledged is lost.

    Producers are refused for some seconds, while the slave fetches the rest of the log and both
    start again with their roles. Shows and asks first.

    Examples:
        flintmq broker promote broker-a --dry-run
        flintmq broker promote broker-a --master-gone
    """
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin:
        plan = admin.plan_promotion(broker, slave_id)
        if output is Output.TABLE:
            _show(plan)
        if plan.problems:
            exit_with(f"{broker} is not switched: {'; '.join(plan.problems)}", FAILED)
        is_meant = yes and not dry_run
        if output is Output.TABLE and not dry_run:
            if not yes:
                typer.confirm(f"Switch {broker}?", abort=True, err=True)
            is_meant = True
        if is_meant:
            admin.promote(plan, master_is_gone=master_gone)
    if output is Output.JSON:
        facts = {key: value for key, value in asdict(plan).items() if key != "problems"}
        print_json(facts | {"role": plan.role.value, "switched": is_meant})
        if not yes and not dry_run:
            exit_with("nothing was changed: add --yes", USAGE_ERROR)
    elif is_meant:
        print_line(f"{plan.slave} is the master of {broker} now")


def _show(plan: PromotionPlan) -> None:
    behind = "not known" if plan.behind_bytes is None else f"{plan.behind_bytes:,} bytes"
    rows = [(plan.slave, f"slave {plan.slave_id}, {behind} behind", f"{plan.role.value}, 0")]
    if plan.master is not None:
        rows.insert(0, (plan.master, f"{plan.role.value}, 0", f"SLAVE, {plan.slave_id}"))
    print_table(("broker", "is", "will be"), rows)
