"""`flintmq topic report`: statistics of topics or of a store directory.

A small topic is counted in this process, a large one and a store directory on Spark: the figures,
the tables and the picture are the same (`reports`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flintmq.cli.messages.topic_reading import TopicReading
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import Sql, Tags
from flintmq.cli.shared.output import Output, OutputOption, print_json, print_line, say
from flintmq.cli.shared.spark_job import (
    HERE,
    MaybeMaster,
    MoreOptions,
    Out,
    SparkConf,
    Store,
    source_options,
    spark_for,
)
from flintmq.cli.shared.tables import print_table
from flintmq.cli.shared.times import Since, Until
from flintmq.cli.topic.topic_commands import app
from flintmq.client.engine.client_config import ClientSettings

if TYPE_CHECKING:
    from flintmq.reports.topic_files import TopicReport

SHOWN_MAX = 10
"""Topics, tags and keys on the screen; the files have more."""

SUMMARY: Final = {
    "topic": "topic",
    "messages": "messages",
    "per_second": "messages/s",
    "peak_per_second": "peak/s",
    "first": "first stored at",
    "last": "last stored at",
}
"""Columns of a report on the screen: their names in the file, and their titles."""


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
    spark: MaybeMaster = None,
    conf: SparkConf = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count a topic: rate, sizes, tags, keys, latency from birth to store, retries, over time.

    Reads every message once. Times are store times, in UTC. Up to 200,000 messages of a cluster
    are counted in this process; more of them, and store directories, on Spark.

    Examples:
        flintmq topic report orders --since 1d --out report
        flintmq topic report --store /var/lib/flintmq
    """
    from flintmq.reports.report_output import ready_directory
    from flintmq.reports.topic_files import PICTURE

    options = source_options(
        settings, store, since=since, until=until, more=more, tags=tag, sql=sql
    )
    step_ms = None if step is None else max(1, round(step * 1000))
    if out is not None:
        ready_directory(out, PICTURE)
    found = None
    if topics and not (store or more or conf or spark):
        found = _count_here(settings, topics, since, until, tag, sql, step_ms)
    if found is None:
        found = _count_on_spark(topics or (), spark or HERE, conf, step_ms, options)
    files = () if out is None else found.write(out)
    if output is Output.JSON:
        facts = {table.name: table.facts() for table in found.tables()}
        print_json({"step_ms": found.step_ms, **facts, "files": [str(path) for path in files]})
        return
    _print(found)
    if files:
        print_line(f"written to {', '.join(path.name for path in files)} in {files[0].parent}")


def _count_here(
    settings: ClientSettings,
    topics: list[str],
    since: str | None,
    until: str | None,
    tag: str | None,
    sql: str | None,
    step_ms: int | None,
) -> TopicReport | None:
    """The report, counted in this process; None when there is too much for that."""
    from flintmq.client.admin import Admin
    from flintmq.reports.topic_count import LOCAL_MESSAGES_MAX

    with Admin(**settings) as admin:
        reading = TopicReading.between(admin, since, until, tags=tag, sql=sql)
        count = reading.count(topics)
        if count > LOCAL_MESSAGES_MAX:
            say(f"{count:,} messages: they are counted on Spark")
            return None
        return reading.report(topics, step_ms)


def _count_on_spark(
    topics: Sequence[str],
    master: str,
    conf: list[str] | None,
    step_ms: int | None,
    options: dict[str, str],
) -> TopicReport:
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from flintmq.spark.pipelines.topic_report import report_options, topic_report
    from flintmq.spark.source.preflight import check_source

    check_source(report_options(topics, options), stream=False)
    with spark_for("topic report", master, conf) as session:
        return topic_report(session, topics, step_ms=step_ms, **options)


def _print(found: TopicReport) -> None:
    summary = next(table for table in found.tables() if table.name == "summary")
    lines = sorted(summary.facts(), key=lambda line: -int(str(line["messages"])))
    print_table(SUMMARY.values(), ([line[name] for name in SUMMARY] for line in lines[:SHOWN_MAX]))
    wanted = [name for name in summary.head if name.startswith(("size_", "latency_"))]
    total = next(line for line in lines if line["topic"] == "*")
    print_table(
        ("all topics", "p50", "p90", "p99", "max"),
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
