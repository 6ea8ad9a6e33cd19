"""`flintmq topic report`: statistics of topics or of a store directory, counted by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import Sql, Tags
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line, print_table
from flintmq.cli.shared.spark_job import (
    HERE,
    Master,
    MoreOptions,
    Out,
    SparkConf,
    Store,
    source_options,
    spark_for,
)
from flintmq.cli.shared.times import Since, Until
from flintmq.cli.topic.topic_commands import app
from flintmq.client.engine.client_config import ClientSettings

if TYPE_CHECKING:
    from flintmq.spark.pipelines.topic_report import TopicReport

SHOWN_MAX = 10
"""Topics, tags and keys on the screen; the files have more."""


@app.command("report")
@connected
def report(
    settings: ClientSettings,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="The topics; without any, all of a store directory.",
            show_default=False,
        ),
    ] = None,
    store: Store = None,
    out: Out = None,
    since: Since = None,
    until: Until = None,
    tag: Tags = None,
    sql: Sql = None,
    step: Annotated[
        float | None,
        typer.Option(
            "--step",
            metavar="SECONDS",
            min=0.001,
            help="The step of time; else one that fits.",
            show_default=False,
        ),
    ] = None,
    more: MoreOptions = None,
    spark: Master = HERE,
    conf: SparkConf = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count a topic: rate, sizes, tags, keys, latency from birth to store, retries, over time.

    Reads every message once. Times are store times, in UTC.
    """
    options = source_options(
        settings, store, since=since, until=until, more=more, tags=tag, sql=sql
    )
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from flintmq.spark.pipelines.report_output import ready_directory
    from flintmq.spark.pipelines.topic_report import PICTURE, report_options, topic_report
    from flintmq.spark.source.preflight import check_source

    check_source(report_options(topics or (), options), stream=False)
    if out is not None:
        ready_directory(out, PICTURE)
    step_ms = None if step is None else max(1, round(step * 1000))
    with spark_for("topic report", spark, conf) as session:
        found = topic_report(session, topics or (), step_ms=step_ms, **options)
    files = () if out is None else found.write(out)
    if output is Output.JSON:
        facts = {table.name: table.facts() for table in found.tables()}
        print_json({"step_ms": found.step_ms, **facts, "files": [str(path) for path in files]})
        return
    _print(found)
    if files:
        print_line(f"written to {', '.join(path.name for path in files)} in {files[0].parent}")


def _print(found: TopicReport) -> None:
    summary = next(table for table in found.tables() if table.name == "summary")
    lines = sorted(summary.facts(), key=lambda line: -int(str(line["messages"])))
    shown = ("topic", "messages", "per_second", "peak_per_second", "first", "last")
    print_table(shown, ([line[name] for name in shown] for line in lines[: SHOWN_MAX + 1]))
    wanted = [name for name in summary.head if name.startswith(("size_", "latency_"))]
    total = next(line for line in lines if line["topic"] == "*")
    print_table(
        ("of all", "p50", "p90", "p99", "max"),
        (
            ("size, bytes", *(total[name] for name in wanted[:4])),
            ("latency, ms", *(total[name] for name in wanted[4:])),
        ),
    )
    for what, counts in (("tag", found.tags), ("key", found.keys)):
        most = [each for each in counts if each.topic == "*"][:SHOWN_MAX]
        if most:
            print_table((what, "messages"), ((each.name, each.messages) for each in most))
    told = f"{total['retries']} retries, {total['dead_letters']} dead letters"
    bad = total["bad_records"]
    print_line(f"{told}, {bad} records that cannot be decoded" if bad else told)
