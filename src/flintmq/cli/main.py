"""The `flintmq` command: where its parts are put together."""

from __future__ import annotations

from typing import Annotated

import typer

from flintmq import __version__
from flintmq.cli import dlq, dlq_spark, group, message, store, topic, topic_spark
from flintmq.cli.broker import broker
from flintmq.cli.demo.command import demo
from flintmq.cli.lake import lake
from flintmq.cli.namesrv import namesrv
from flintmq.cli.output import EXIT_CODES
from flintmq.cli.run import run
from flintmq.cli.send import send
from flintmq.cli.serve import serve
from flintmq.cli.tail import TAIL_HELP, tail

app = typer.Typer(
    name="flintmq",
    help="Apache RocketMQ from Python and Spark.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(demo)
app.command()(serve)
app.command()(namesrv)
app.command()(broker)
app.command()(run)
app.command(epilog=EXIT_CODES)(send)
app.command(help=TAIL_HELP, epilog=EXIT_CODES)(tail)
app.command(epilog=EXIT_CODES)(lake)
topic.app.command("report")(topic_spark.report)
dlq.app.command("report")(dlq_spark.report)
dlq.app.command("bulk-replay")(dlq_spark.bulk_replay)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(message.app, name="message")
app.add_typer(dlq.app, name="dlq")
app.add_typer(store.app, name="store")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flintmq {__version__}")
        raise typer.Exit


@app.callback()
def flintmq(
    version: Annotated[  # typer calls back before the value is used
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Apache RocketMQ from Python and Spark."""


def main() -> None:
    app()
