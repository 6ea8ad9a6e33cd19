"""`flintmq lake`: topics as tables of Parquet, Delta or Iceberg, each message once.

    flintmq lake TOPIC… --to DIR      writes; `flintmq lake write` in full, for a topic "compact"
    flintmq lake compact --to DIR     writes small files together

A first signal ends it between two batches, a second at once; started again, it goes on where it
was.  Exit codes are those of `output`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from flintmq.cli.run_spark import LOOK_S, RunMetrics, serving_metrics
from flintmq.cli.shared.cluster_options import connected
from flintmq.cli.shared.help_page import EXIT_CODES
from flintmq.cli.shared.offset_argument import PLACES, PLACES_HELP, parse_target
from flintmq.cli.shared.options import Sql
from flintmq.cli.shared.output import (
    Output,
    OutputOption,
    exit_on_errors,
    print_json,
    print_line,
    say,
    with_json,
)
from flintmq.cli.shared.spark_job import (
    HERE,
    Master,
    MoreOptions,
    SparkConf,
    Store,
    source_options,
    spark_for,
    stopping,
)
from flintmq.client.engine.client_config import ClientSettings
from flintmq.core.admin.spans import ToEnd, ToOffset, ToStart, ToTime

if TYPE_CHECKING:
    from flintmq.spark.pipelines.lake_compaction import Compacted

GROUP = "group"


Topics = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC", help="What to write; may be several.", show_default=False),
]
FormatName = Annotated[
    str,
    typer.Option(
        "--format", metavar="parquet|delta|iceberg", help="The format of the lake's tables."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="SCHEMA",
        help="Make columns of bodies: Spark's DDL, JSON Schema or Avro, as text or @FILE, or "
        "FILE.desc:MESSAGE of Protobuf.",
        show_default=False,
    ),
]
Into = Annotated[
    str | None,
    typer.Option(
        "--into", metavar="COLUMN", help="One column for all of the schema.", show_default=False
    ),
]
LakeFormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="parquet|delta|iceberg",
        help="Of a lake that is on no local disk; else its files say it.",
        show_default=False,
    ),
]
To = Annotated[str, typer.Option("--to", metavar="DIR", help="The directory of the lake.")]
UntilNow = Annotated[bool, typer.Option("--until-now", help="Write what is there now, and end.")]
From = Annotated[
    str,
    typer.Option(
        "--from", metavar=f"{PLACES}|group", help=f"Where to start, the first time; {PLACES_HELP}."
    ),
]
Tags = Annotated[
    str | None, typer.Option("--tags", "--tag", help="Tags, as in a || b.", show_default=False)
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,NAME",
        help="The columns of the files; topic and day always are.",
        show_default=False,
    ),
]
LagGroup = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        help="A consumer group that shows at the brokers how far it is.",
        show_default=False,
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Where to remember what was read; by default in the lake itself.",
        show_default=False,
    ),
]
Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=0, help="How often to write files.")
]
Files = Annotated[
    int | None,
    typer.Option(
        "--files",
        min=1,
        help="Files a batch writes for each topic and day, at most; else one for each core.",
        show_default=False,
    ),
]


app = typer.Typer(
    help="Topics as tables: `flintmq lake TOPIC --to DIR` writes one; `write` may be left out.",
    no_args_is_help=True,
    epilog=EXIT_CODES,
)


@app.command("write")
@connected
def lake(
    settings: ClientSettings,
    to: To,
    topics: Topics,
    format_name: FormatName = "parquet",
    schema: Schema = None,
    into: Into = None,
    until_now: UntilNow = False,
    start: From = "earliest",
    tags: Tags = None,
    sql: Sql = None,
    columns: Columns = None,
    group: LagGroup = None,
    store: Store = None,
    checkpoint: Checkpoint = None,
    every: Every = 60.0,
    files: Files = None,
    more: MoreOptions = None,
    spark: Master = HERE,
    conf: SparkConf = None,
    metrics: RunMetrics = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write topics as tables, partitioned by topic and day, each message exactly once.

    It follows the topics until it is told to stop; started again, it goes on where it was. Read
    Parquet with spark.read.parquet(DIR): Spark knows which files count. Days are those of the
    store time, in UTC. Messages that do not fit --schema are in the partition quarantined=1.

    Examples:
        flintmq lake write orders --to lake --until-now
        flintmq lake write orders --to lake --schema "order STRING NOT NULL, amount DOUBLE"
    """
    _log()
    chosen = {"consumerGroup": group, "tags": tags, "sql": sql, "columns": columns}
    options = source_options(settings, store, more=more, **chosen, **start_option(start))
    lake_choices: dict[str, Any] = {
        "format": format_name,
        "schema": schema,
        "into": into,
        "until_now": until_now,
    }
    lake_choices |= {"checkpoint": checkpoint, "every_s": every, "files": files}
    _write(topics, to, options, lake_choices, (spark, conf), metrics, output)


def _write(
    topics: list[str],
    to: str,
    options: Mapping[str, str],
    choices: Mapping[str, Any],
    spark: tuple[str, list[str] | None],
    metrics: str | None,
    output: Output,
) -> None:
    """Run a lake to its end.  ``options`` are those of the source."""
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from flintmq.spark.bodies.body_schema import check_schema
    from flintmq.spark.pipelines.lake_query import lake as start_lake
    from flintmq.spark.pipelines.lake_query import lake_options
    from flintmq.spark.source.preflight import check_source

    master, conf = spark
    needed = _settings_of(choices["format"], conf)
    if choices["schema"] is not None:
        check_schema(choices["schema"])
    check_source(lake_options(topics, options), stream=True)
    with (
        stopping() as told,  # before Spark starts, which takes seconds
        serving_metrics(metrics) as counted,
        spark_for("lake", master, [*needed, *(conf or ())]) as session,
    ):
        shown = {"progress": output is Output.TABLE, "metrics": counted}
        query = start_lake(session, topics, to, **cast(Any, {**choices, **shown, **options}))
        while not query.await_termination(LOOK_S):
            if told.is_set():
                if not query.stop():
                    say("a batch was interrupted; it is written when the lake goes on")
                break
        status = query.status()
    done, batches = status.messages, status.batches
    if output is Output.JSON:
        facts = {"to": query.path, "topics": topics, "messages": done, "batches": batches}
        print_json({**facts, "lag": status.lag, "quarantined": status.quarantined})
    else:
        bad = f", {status.quarantined} of them quarantined" if status.quarantined else ""
        print_line(f"{done} messages in {batches} batches are added to {query.path}{bad}")


@app.command("compact")
@with_json
def compact_lake(
    to: To,
    format_name: LakeFormatName = None,
    spark: Master = HERE,
    conf: SparkConf = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write the small files of a lake together.

    Delta and Iceberg may be written meanwhile; a lake in Parquet has to be stopped.

    Examples:
        flintmq lake compact --to lake
    """
    _log()
    with exit_on_errors():
        done = _compact(to, format_name, spark, conf)
    if output is Output.JSON:
        print_json({"to": to, "before": done.files_before, "after": done.files_after})
    elif done.files_before:
        print_line(f"{done.files_before} files of {to} are {done.files_after} now")
    else:
        print_line(f"{to} has no small files to write together")


def _compact(to: str, format_name: str | None, master: str, conf: list[str] | None) -> Compacted:
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from flintmq.spark.pipelines.lake_compaction import compact
    from flintmq.spark.pipelines.lake_formats import kind_in

    settings = _settings_of(format_name or kind_in(to), conf)
    with spark_for("lake", master, [*settings, *(conf or ())]) as session:
        return compact(session, to)


def _settings_of(format_name: str, conf: list[str] | None) -> list[str]:
    """What Spark needs for the format; jars that are given are not fetched."""
    from flintmq.spark.pipelines.lake_formats import JARS, JARS_PACKAGES, lake_settings

    has_jars = any(text.startswith(f"{JARS}=") for text in conf or ())
    return [
        f"{name}={value}"
        for name, value in lake_settings(format_name).items()
        if not (has_jars and name == JARS_PACKAGES)
    ]


def start_option(text: str) -> dict[str, str]:
    """The option of the source for ``--from``: ``group``, or what `parse_target` takes."""
    if text == GROUP:
        return {"startingOffsets": text}
    match parse_target(text):
        case ToTime(time_ms):
            return {"startingTimestamp": str(time_ms)}
        case ToOffset(offset):
            return {"startingOffsets": str(offset)}
        case ToStart():
            return {"startingOffsets": "earliest"}
        case ToEnd():
            return {"startingOffsets": "latest"}


def _log() -> None:
    """A line for each batch, where no live line shows them."""
    level = logging.WARNING if sys.stderr.isatty() else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
