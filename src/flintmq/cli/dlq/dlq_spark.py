"""`flintmq dlq report` and `flintmq dlq bulk-replay`: dead letters by the million, on Spark.

For a few of them `dlq list` and `dlq replay` are quicker: they need no Spark.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from flintmq.cli.dlq import dlq_marks  # noqa: F401  # its commands are of the same app
from flintmq.cli.dlq.dlq_commands import app
from flintmq.cli.dlq.dlq_replay import Rate, To, is_confirmed, print_left_out, replay_progress
from flintmq.cli.messages.topic_reading import TopicReading
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.options import DryRun, GroupName, Sql, Tags, Yes
from flintmq.cli.shared.output import (
    FAILED,
    USAGE_ERROR,
    Output,
    OutputOption,
    exit_with,
    print_json,
    print_line,
    say,
)
from flintmq.cli.shared.spark_job import (
    HERE,
    Master,
    MaybeMaster,
    MoreOptions,
    Out,
    SparkConf,
    Store,
    Where,
    source_options,
    spark_for,
)
from flintmq.cli.shared.tables import print_table
from flintmq.cli.shared.times import Since, Until
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.dead_letters import REPLAY_RATE, ReplayTo
from flintmq.errors import NoRoute
from flintmq.model.group import dead_letter_topic

if TYPE_CHECKING:
    from flintmq.reports.dead_letter_figures import DeadLetterReport
    from flintmq.spark.pipelines.dead_letter_replay import Replayed, ReplayPlan

SHOWN_MAX = 30
"""Lines of a table on the screen; the file has all."""

Outcomes = Annotated[
    str | None,
    typer.Option(
        "--outcomes",
        metavar="PATH",
        help="Parquet that flintmq run --spark --sink wrote: it says why messages died.",
        show_default=False,
    ),
]
ReasonProperty = Annotated[
    str | None,
    typer.Option(
        "--reason-property",
        metavar="NAME",
        help="A property in which messages say why they died.",
        show_default=False,
    ),
]


@app.command("report")
@connected
def report(
    settings: ClientSettings,
    group: GroupName,
    out: Out = None,
    since: Since = None,
    until: Until = None,
    tag: Tags = None,
    sql: Sql = None,
    where: Where = None,
    outcomes: Outcomes = None,
    reason_property: ReasonProperty = None,
    store: Store = None,
    more: MoreOptions = None,
    spark: MaybeMaster = None,
    conf: SparkConf = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the dead letters of a group by topic, reason and day, as a table and a picture.

    The reason is what the consumer wrote into the dead letter; consumers of Java write none. Then
    outcomes or a property of your own may tell it; else it is how often the message was tried.
    Up to 200,000 dead letters of a cluster are counted in this process, more on Spark.

    Examples:
        flintmq dlq report billing --since 1d --out report
    """
    from flintmq.reports.dead_letter_figures import PICTURE
    from flintmq.reports.report_output import ready_directory

    options = source_options(
        settings, store, since=since, until=until, more=more, tags=tag, sql=sql
    )
    if out is not None:
        ready_directory(out, PICTURE)
    found = None
    if not (store or more or conf or spark or where or outcomes):
        found = _count_here(settings, group, since, until, tag, sql, reason_property)
    if found is None:
        found = _count_on_spark(
            group, spark or HERE, conf, outcomes, reason_property, where, options
        )
    files = () if out is None else found.write(out)
    table = found.table()
    if output is Output.JSON:
        print_json(
            {
                "group": group,
                "messages": found.messages,
                "groups": table.facts(),
                "left_out": found.left_out,
                "files": [str(path) for path in files],
            }
        )
        return
    print_table((name.replace("_", " ") for name in table.head), table.rows[:SHOWN_MAX])
    print_line(f"{found.messages} dead letters in {len(table.rows)} lines")
    if files:
        print_line(f"written to {', '.join(path.name for path in files)} in {files[0].parent}")


def _count_here(
    settings: ClientSettings,
    group: str,
    since: str | None,
    until: str | None,
    tag: str | None,
    sql: str | None,
    reason_property: str | None,
) -> DeadLetterReport | None:
    """The report, counted in this process; None when there is too much for that."""
    from flintmq.client.admin import Admin
    from flintmq.reports.dead_letter_count import count_dead_letters, counted_letter
    from flintmq.reports.topic_count import LOCAL_MESSAGES_MAX

    topic = dead_letter_topic(group)
    with Admin(**settings) as admin:
        reading = TopicReading.between(admin, since, until, tags=tag, sql=sql)
        try:
            count = reading.count([topic])
        except NoRoute:
            exit_with(f"{group} has no dead letters", FAILED, "flintmq dlq list shows who has")
        if count > LOCAL_MESSAGES_MAX:
            say(f"{count:,} dead letters: they are counted on Spark")
            return None
        letters = (
            counted_letter(message, bad, reason_property)
            for message, bad in reading.messages(topic)
        )
        return count_dead_letters(group, letters)


def _count_on_spark(
    group: str,
    master: str,
    conf: list[str] | None,
    outcomes: str | None,
    reason_property: str | None,
    where: str | None,
    options: dict[str, str],
) -> DeadLetterReport:
    _require_letters(group, options)
    from flintmq.spark.pipelines.dead_letter_report import dead_letter_report

    with spark_for("dlq report", master, conf) as session:
        return dead_letter_report(
            session,
            group,
            outcomes=outcomes,
            reason_property=reason_property,
            where=where,
            **options,
        )


Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        help="Only of this original topic; may be given several times.",
        show_default=False,
    ),
]
Days = Annotated[
    list[str] | None,
    typer.Option(
        "--day",
        metavar="YYYY-MM-DD",
        help="Only buried on this day, in UTC; may be given several times.",
        show_default=False,
    ),
]
LogFile = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Write what was sent to this CSV file, and pass over what it has as sent.",
        show_default=False,
    ),
]


@app.command("bulk-replay")
@connected
def bulk_replay(
    settings: ClientSettings,
    group: GroupName,
    to: To = ReplayTo.GROUP,
    topics: Topics = None,
    days: Days = None,
    since: Since = None,
    until: Until = None,
    tag: Tags = None,
    sql: Sql = None,
    where: Where = None,
    outcomes: Outcomes = None,
    reason_property: ReasonProperty = None,
    rate: Rate = REPLAY_RATE,
    log: LogFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    more: MoreOptions = None,
    spark: Master = HERE,
    conf: SparkConf = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send many dead letters again, from tasks of Spark. Shows first which, and asks.

    --where sees the columns topic, day, reason, tries, message_id, tags, keys, properties, body,
    born_time, store_time and bad_reason. Dead letters that cannot be decoded are not sent. The dead
    letters themselves stay: who replays twice sends twice, unless the second run has the log of
    the first.

    Examples:
        flintmq dlq bulk-replay billing --where "reason = 'timeout'" --log sent.csv --yes
    """
    if output is Output.JSON and not yes and not dry_run:
        exit_with("nothing is sent without --yes or --dry-run", USAGE_ERROR)
    options = source_options(settings, since=since, until=until, more=more, tags=tag, sql=sql)
    _require_letters(group, options)
    from flintmq.spark.pipelines.dead_letter_replay import plan_replay

    result: Replayed | None = None
    with spark_for("dlq bulk-replay", spark, conf) as session:
        plan = plan_replay(
            session,
            group,
            topics=topics or (),
            days=days or (),
            where=where,
            outcomes=outcomes,
            reason_property=reason_property,
            **options,
        )
        if not plan.messages:
            bad = f" that can be decoded; {plan.bad_records} cannot" if plan.bad_records else ""
            exit_with(f"{group} has no such dead letter{bad}", FAILED)
        if output is Output.TABLE:
            _show(plan, to, rate)
        if is_confirmed(dry_run=dry_run, yes=yes):
            with replay_progress() as progress:
                result = plan.run(to=to, rate=rate, log=log, progress=progress)
    if output is Output.JSON:
        _print_facts(plan, to, result)
    elif result is not None:
        print_line(_sentence(result))
    if result is not None and (result.failed or result.not_tried):
        for error, count in sorted(result.errors.items(), key=lambda item: -item[1])[:SHOWN_MAX]:
            say(f"{count} times: {error}")
        raise typer.Exit(FAILED)


def _require_letters(group: str, options: dict[str, str]) -> None:
    """Check that there are dead letters before Spark starts."""
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from flintmq.spark.pipelines.dead_letter_report import dead_letter_options
    from flintmq.spark.source.preflight import check_source

    there = False
    with suppress(NoRoute):
        check_source(dead_letter_options(group, options), stream=False)
        there = True
    if not there:
        exit_with(f"{group} has no dead letters", FAILED, "flintmq dlq list shows who has")


def _show(plan: ReplayPlan, to: ReplayTo, rate: float) -> None:
    lines = [(each.topic, each.day, each.messages) for each in plan.chosen]
    print_table(("topic", "day", "dead letters"), lines[:SHOWN_MAX])
    print_left_out(plan.without_topic, plan.bad_records)
    seconds = round(plan.messages / rate)
    print_line(
        f"{plan.messages} dead letters to the {to}, {rate:g} a second: {seconds} seconds or more"
    )


def _print_facts(plan: ReplayPlan, to: ReplayTo, result: Replayed | None) -> None:
    print_json(
        {
            "group": plan.group,
            "to": to,
            "chosen": plan.chosen,
            "without_topic": plan.without_topic,
            "bad_records": plan.bad_records,
            "sent": 0 if result is None else result.sent,
            "failed": 0 if result is None else result.failed,
            "passed_over": 0 if result is None else result.passed_over,
        }
    )


def _sentence(result: Replayed) -> str:
    parts = [f"{result.sent} dead letters are sent again"]
    if result.passed_over:
        parts.append(f"{result.passed_over} were sent before")
    if result.failed:
        parts.append(f"{result.failed} failed")
    if result.not_tried:
        parts.append(f"{result.not_tried} were not tried")
    return ", ".join(parts)
