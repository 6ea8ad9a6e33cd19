"""Runs of Spark: a list of all queries, and one of them with its rate, its lag and its outcomes."""

from __future__ import annotations

from typing import Any, Final

from starlette.exceptions import HTTPException

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.charts import Series, line_chart
from flintmq.console.showing.page import Values
from flintmq.console.watching.history import Sample
from flintmq.console.watching.spark_runs import Driver
from flintmq.metrics.run_reports import RunReport

BATCHES_SHOWN: Final = 20
"""Micro-batches in the table of a run, newest first."""

RUNS_SHOWN: Final = 200
"""Queries of one list."""


async def load_spark_runs(asked: Asked) -> Values:
    """All queries, those that run first."""
    drivers = await asked.site.spark_runs.look()
    rows = [_row(driver, report) for driver in drivers for report in driver.reports]
    rows.sort(key=lambda row: (not row["is_running"], row["run"].name, row["at"]))
    return {
        "drivers": drivers,
        "rows": rows[:RUNS_SHOWN],
        "left_out": max(0, len(rows) - RUNS_SHOWN),
    }


async def load_spark_run(asked: Asked) -> Values:
    """One query."""
    name, kind, at = asked.text("name"), asked.text("kind"), asked.text("at")
    for driver in await asked.site.spark_runs.look():
        for report in driver.reports:
            if (report.name, report.kind, str(driver.address)) == (name, kind, at):
                return {**_row(driver, report), **_past(report)}
    raise HTTPException(404)


def _row(driver: Driver, report: RunReport) -> dict[str, Any]:
    outcomes = report.outcomes
    return {
        "run": report,
        "at": str(driver.address),
        "heard_ms": driver.heard_ms,
        "error": driver.error,
        "is_running": report.is_active and not driver.error,
        "last": report.points[-1] if report.points else None,
        "retried": outcomes.get("sent back", 0),
        "dead": outcomes.get("dead", 0),
    }


def _past(report: RunReport) -> dict[str, Any]:
    points = report.points
    rates = [Sample(each.at_ms, each.messages * 1000 / max(1, each.took_ms)) for each in points]
    lags = [Sample(each.at_ms, each.lag) for each in points if each.lag is not None]
    span = f"the last {len(points)} micro-batches"
    return {
        "batches": points[-1 : -1 - BATCHES_SHOWN : -1],
        "rate_chart": line_chart(
            "Messages a second", [Series("consumed", rates)], gap_ms=None, span=span
        ),
        "lag_chart": line_chart("Messages behind", [Series("lag", lags)], gap_ms=None, span=span),
    }
