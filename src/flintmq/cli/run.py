"""`flintmq run MODULE:APP`: an application's listeners on threads or on Spark, until told to stop.

    first SIGTERM or SIGINT ──► listeners end, offsets are committed ──► exit
    second ──► at once

Once the consumer is a member of its group, one line goes to stdout, from each process:

    flintmq ready app=MODULE:APP group=GROUP client=CLIENT_ID

With ``--processes N`` a parent starts N of these and passes signals on.  One that ends by itself
takes the others with it; children whose parent is gone stop too.  With ``--spark MASTER`` the
listeners run in tasks of Spark (`cli.run_spark`).

    exit 0   it was asked to stop, and every listener came to its end
    exit 1   it could not start, or listeners still ran when the time was up: which is on stderr
    exit 2   usage error, or there is no such app
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, TypeAlias

import typer

from flintmq.cli.load_app import load
from flintmq.cli.run_spark import (
    BatchTarget,
    Checkpoint,
    FailuresMax,
    MessagesMax,
    OutcomeSink,
    PlotFile,
    RunLimits,
    RunMetrics,
    RunSinks,
    SparkMaster,
    SparkPlan,
    SummarySink,
    UntilNow,
    run_on_spark,
    serving_metrics,
)
from flintmq.cli.shared.cluster_options import GivenConnection, overriding
from flintmq.cli.shared.server_process import LogLevel, exit_with_error, say
from flintmq.cli.shared.spark_job import SparkConf
from flintmq.client.engine.client_config import ClientSettings
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_status import ListenerStatus
from flintmq.client.push.threaded_push import PushConsumer
from flintmq.client.run_app import App
from flintmq.client.stop_signals import StopSignals
from flintmq.errors import FlintError

LEFT_RUNNING: Final = 1
PROCESSES_MAX: Final = 1_024
WAIT_MAX_S: Final = 86_400
"""A day; what is not there by then is not on its way."""

LOOK_S: Final = 0.05
"""How often the parent looks whether its children still run."""

AppTarget: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:APP", help="Where the app is, as shop.main:app or ./shop.py:app."
    ),
]
StopTimeout: TypeAlias = Annotated[
    float, typer.Option("--stop-timeout", min=0, help="Seconds that listeners may take to end.")
]
StartWait: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        max=WAIT_MAX_S,
        help="Wait so long for a name server that is not there yet; 0 fails at once. "
        "[default: the app's start_timeout_ms, 30 s]",
        show_default=False,
    ),
]


@overriding
def run(
    connection: GivenConnection,
    target: AppTarget,
    processes: Annotated[
        int, typer.Option("--processes", min=1, max=PROCESSES_MAX, help="How many to run.")
    ] = 1,
    stop_timeout: StopTimeout = STOP_S,
    wait: StartWait = None,
    metrics: RunMetrics = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="How much to log, on stderr.")
    ] = LogLevel.INFO,
    spark: SparkMaster = None,
    sink: OutcomeSink = "none",
    checkpoint: Checkpoint = None,
    until_now: UntilNow = False,
    summary: SummarySink = None,
    messages_max: MessagesMax = None,
    batch_target: BatchTarget = None,
    failures_max: FailuresMax = None,
    plot: PlotFile = None,
    conf: SparkConf = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Run the listeners of an application until it is told to stop.

    Options of the connection stand in for what the app says itself.

    Examples:
        flintmq run shop.main:app
        flintmq run shop.main:app --processes 4
        flintmq run shop.main:app --spark 'local[*]' --until-now
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if metrics is not None and processes > 1:
        raise typer.BadParameter("--metrics is for one process")
    if spark is not None:
        if processes > 1:
            raise typer.BadParameter("--processes is for threads; Spark has its executors")
        sinks = RunSinks(sink, summary)
        limits = RunLimits(messages_max, batch_target, failures_max)
        given = tuple(conf or ())
        plan = SparkPlan(spark, sinks, limits, checkpoint, until_now, plot, given, wait)
        raise typer.Exit(_on_spark(target, connection.settings, plan, stop_timeout, metrics))
    if processes > 1:
        app = load(target)  # a name that is wrong is told once
        command = _command(target, connection, stop_timeout, wait, log_level)
        raise typer.Exit(AppProcesses(command, processes).run())
    app = load(target)
    app.use(**connection.settings)
    if wait is not None:
        app.use(start_timeout_ms=round(wait * 1000))
    if with_parent:
        threading.Thread(target=_stop_without_parent, args=(app,), daemon=True).start()

    def ready(consumer: PushConsumer) -> None:
        typer.echo(f"flintmq ready app={target} group={app.group} client={consumer.client_id}")

    try:
        with _watched(app, metrics):
            left = app.run(stop_timeout_s=stop_timeout, on_ready=ready)
    except FlintError as error:
        exit_with_error(error)
    if left:
        _name(left)
        raise typer.Exit(LEFT_RUNNING)


@contextmanager
def _watched(app: App, listen: str | None) -> Iterator[None]:
    """Serve the metrics of an app while it runs, if that is asked for."""
    with serving_metrics(listen) as metrics:
        if metrics is not None:
            app.use(metrics=metrics)
        yield


def _on_spark(
    target: str,
    settings: ClientSettings,
    plan: SparkPlan,
    stop_timeout: float,
    metrics: str | None,
) -> int:
    app = load(target)
    app.use(**settings)
    try:
        with _watched(app, metrics):
            return run_on_spark(app, target, plan, stop_timeout)
    except FlintError as error:
        exit_with_error(error)


class AppProcesses:
    """A parent and its children, which all run the same app."""

    def __init__(self, command: list[str], count: int) -> None:
        self._command = command
        self._count = count
        self._is_stopping = False
        self._children: list[subprocess.Popen[bytes]] = []

    def run(self) -> int:
        """Start all, wait for all; the worst of their exit codes."""
        with StopSignals(self._stop):
            return self._run()

    def _run(self) -> int:
        # In a session of their own they do not get the Ctrl-C that is meant for the parent.
        # A pipe tells them when the parent is gone.
        self._children = [
            subprocess.Popen(  # noqa: S603  # our own command
                self._command, stdin=subprocess.PIPE, start_new_session=True
            )
            for _ in range(self._count)
        ]
        while any(child.poll() is None for child in self._children):
            ended = [child for child in self._children if child.poll() is not None]
            if ended and not self._is_stopping:
                code = ended[0].returncode
                say(f"process {ended[0].pid} ended with {code}; the others are stopped")
                self._stop()
            time.sleep(LOOK_S)
        codes: list[int] = [abs(child.returncode) for child in self._children]
        return max(codes)

    def _stop(self) -> None:
        self._is_stopping = True
        for child in self._children:
            if child.poll() is None:
                child.terminate()


def _command(
    target: str,
    connection: GivenConnection,
    stop_timeout: float,
    wait: float | None,
    log_level: LogLevel,
) -> list[str]:
    command = [sys.executable, "-m", "flintmq", *connection.cluster_words, "run", target]
    command += [*connection.words, "--with-parent", "--stop-timeout", str(stop_timeout)]
    if wait is not None:
        command += ["--wait", str(wait)]
    return [*command, "--log-level", log_level.value]


def _stop_without_parent(app: App) -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing ever comes but the end
    app.stop()


def _name(left: list[ListenerStatus]) -> None:
    for each in left:
        say(
            f"still running after {each.running_ms} ms: {each.worker} on {each.message_id} "
            f"of {each.queue}\n{each.stack}"
        )
