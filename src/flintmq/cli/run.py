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
    exit 2   the command line makes no sense, or there is no such app
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Final

import typer

from flintmq.cli.run_spark import (
    Checkpoint,
    OutcomeSink,
    PlotFile,
    SparkMaster,
    SparkPlan,
    UntilNow,
    run_on_spark,
)
from flintmq.cli.shared.server_process import LogLevel, exit_with_error, say
from flintmq.cli.shared.spark_job import SparkConf
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_status import ListenerStatus
from flintmq.client.push.threaded_push import PushConsumer
from flintmq.client.run_app import App
from flintmq.errors import FlintError

LEFT_RUNNING: Final = 1
PROCESSES_MAX: Final = 1_024
LOOK_S: Final = 0.05
"""How often the parent looks whether its children still run."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="Where the app is, as shop.main:app.")
    ],
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv",
            "-n",
            metavar="HOST:PORT",
            help="The name server, in place of the one the app or NAMESRV_ADDR names.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, max=PROCESSES_MAX, help="How many to run.")
    ] = 1,
    stop_timeout: Annotated[
        float,
        typer.Option("--stop-timeout", min=0, help="Seconds that listeners may take to end."),
    ] = STOP_S,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="How much to log, on stderr.")
    ] = LogLevel.INFO,
    spark: SparkMaster = None,
    sink: OutcomeSink = "none",
    checkpoint: Checkpoint = None,
    until_now: UntilNow = False,
    plot: PlotFile = None,
    conf: SparkConf = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Run the listeners of an application until it is told to stop."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if spark is not None:
        if processes > 1:
            raise typer.BadParameter("--processes is for threads; Spark has its executors")
        plan = SparkPlan(spark, sink, checkpoint, until_now, plot, tuple(conf or ()))
        raise typer.Exit(_on_spark(target, namesrv, plan, stop_timeout))
    if processes > 1:
        app = load(target)  # a name that is wrong is told once
        raise typer.Exit(
            Family(_command(target, namesrv, stop_timeout, log_level), processes).run()
        )
    app = load(target)
    if namesrv is not None:
        app.use(namesrv=namesrv)
    on_signal(app.stop)
    if with_parent:
        threading.Thread(target=_stop_without_parent, args=(app,), daemon=True).start()

    def ready(consumer: PushConsumer) -> None:
        typer.echo(f"flintmq ready app={target} group={app.group} client={consumer.client_id}")

    try:
        left = app.run(stop_timeout_s=stop_timeout, on_ready=ready)
    except FlintError as error:
        exit_with_error(error)
    if left:
        _name(left)
        raise typer.Exit(LEFT_RUNNING)


def _on_spark(target: str, namesrv: str | None, plan: SparkPlan, stop_timeout: float) -> int:
    app = load(target)
    if namesrv is not None:
        app.use(namesrv=namesrv)
    try:
        return run_on_spark(app, target, plan, stop_timeout, on_signal)
    except FlintError as error:
        exit_with_error(error)


def load(target: str) -> App:
    """Import an app.  What is in the current directory can be imported."""
    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        raise typer.BadParameter(f"{target!r} is not MODULE:APP")
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109  # sys.path has texts
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # something that the module itself needs
        raise typer.BadParameter(f"there is no module {module_name!r}") from None
    app = getattr(module, name, None)
    if not isinstance(app, App):
        found = "nothing" if app is None else f"a {type(app).__name__}"
        raise typer.BadParameter(f"{module_name} has {found} called {name!r}, not an App")
    return app


def on_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` at the first signal; the second has the effect it always has."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        stop()

    for each in SIGNALS:
        signal.signal(each, handle)


class Family:
    """A parent and its children, which all run the same app."""

    def __init__(self, command: list[str], count: int) -> None:
        self._command = command
        self._count = count
        self._is_stopping = False
        self._children: list[subprocess.Popen[bytes]] = []

    def run(self) -> int:
        """Start all, wait for all; the worst of their exit codes."""
        on_signal(self._stop)
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
    target: str, namesrv: str | None, stop_timeout: float, log_level: LogLevel
) -> list[str]:
    command = [sys.executable, "-m", "flintmq", "run", target, "--with-parent"]
    command += ["--stop-timeout", str(stop_timeout), "--log-level", log_level.value]
    return command if namesrv is None else [*command, "--namesrv", namesrv]


def _stop_without_parent(app: App) -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing ever comes but the end
    app.stop()


def _name(left: list[ListenerStatus]) -> None:
    for each in left:
        say(
            f"still running after {each.running_ms} ms: {each.worker} on {each.message_id} "
            f"of {each.queue}\n{each.stack}"
        )
