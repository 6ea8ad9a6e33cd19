"""`flintmq run --spark`: the listeners of an app as a query of Spark, until it is told to stop.

Spark is loaded here and not before somebody asks for it.  Under spark-submit the session that is
there is used, and MASTER is what it was submitted to.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from flintmq.cli.shared.server_process import check_metrics, say
from flintmq.cli.shared.spark_job import quiet_session, read_conf
from flintmq.client.stop_signals import StopSignals
from flintmq.core.group.app import App
from flintmq.errors import FlintError
from flintmq.net.address import Address
from flintmq.spark.environment import jvm_stderr

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

INTERRUPTED: Final = 1
FAILED: Final = 1
LOOK_S: Final = 0.2


SparkMaster: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="MASTER",
        help="Run on Spark, as local[*] or spark://HOST:PORT.",
        show_default=False,
    ),
]
OutcomeSink: TypeAlias = Annotated[
    str,
    typer.Option(
        "--sink",
        metavar="none|console|FORMAT:PATH",
        help="On Spark: where the outcome of each message goes.",
    ),
]
SummarySink: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--summary",
        metavar="FORMAT:PATH",
        help="On Spark: where a row for each listener and micro-batch goes, for dashboards.",
        show_default=False,
    ),
]
MessagesMax: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--messages-max",
        min=1,
        help="On Spark: messages of one micro-batch, at most.  [default: 100000]",
        show_default=False,
    ),
]
BatchTarget: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--batch-target",
        metavar="SECONDS",
        help="On Spark: back-pressure. How long a micro-batch is to take.",
        show_default=False,
    ),
]
FailuresMax: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--failures-max",
        min=1,
        help="On Spark: circuit breaker. End when a listener raised in so many calls in a row.",
        show_default=False,
    ),
]
Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="On Spark: where the query remembers what it wrote to the sink.",
        show_default=False,
    ),
]
UntilNow: TypeAlias = Annotated[
    bool, typer.Option("--until-now", help="On Spark: consume what is there now, and end.")
]
PlotFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="On Spark: where to put a picture of rate and lag at the end.",
        show_default=False,
    ),
]


RunMetrics: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        envvar="FLINTMQ_RUN_METRICS",
        metavar="HOST:PORT",
        help="Serve /metrics for Prometheus here, of this process; needs flintmq[metrics].",
        show_default=False,
    ),
]


@contextmanager
def serving_metrics(listen: str | None) -> Iterator[ClientMetrics | None]:
    """Metrics that are served until the end of a ``with``, if that is asked for."""
    if listen is None:
        yield None
        return
    check_metrics(Address.parse(listen))
    from flintmq.metrics.client_metrics import ClientMetrics  # only who serves them waits for it

    metrics = ClientMetrics()
    metrics.serve(listen)
    try:
        yield metrics
    finally:
        metrics.close()


@dataclass(frozen=True, slots=True)
class RunSinks:
    """Where outcomes go: a row for each message, and one for each listener and micro-batch."""

    messages: str = "none"
    summary: str | None = None

    def read(self) -> list[str | dict[str, str]]:
        """All sinks, checked."""
        sinks = [read_sink(self.messages)]
        if self.summary is not None:
            summary = read_sink(self.summary)
            if isinstance(summary, str):
                raise typer.BadParameter(f"{summary!r} is not FORMAT:PATH")
            sinks.append({**summary, "rows": "listeners"})
        return sinks


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What limits micro-batches, and what ends a run."""

    messages_max: int | None = None
    batch_target_s: float | None = None
    failures_max: int | None = None


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """What the command line says about a run on Spark."""

    master: str
    sinks: RunSinks = RunSinks()
    limits: RunLimits = RunLimits()
    checkpoint: str | None = None
    until_now: bool = False
    plot: str | None = None
    conf: tuple[str, ...] = ()
    wait_s: float | None = None


def read_sink(text: str) -> str | dict[str, str]:
    """``none``, ``console``, or a format and a place, as ``parquet:outcomes``."""
    kind, colon, path = text.partition(":")
    if not colon:
        return text
    if not kind or not path:
        raise typer.BadParameter(f"{text!r} is not none, console or FORMAT:PATH")
    return {"format": kind, "path": path}


def run_on_spark(
    app: App,
    target: str,
    plan: SparkPlan,
    stop_timeout_s: float,
) -> int:
    """Run the app to its end; the exit code."""
    sinks, conf, limits = plan.sinks.read(), read_conf(plan.conf), plan.limits
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark()
    from flintmq.arrow.reading.patience import RETRY_MS
    from flintmq.spark.listeners.listener_run import MESSAGES_MAX, run

    spark = quiet_session(target, plan.master, conf)
    told_to_stop = threading.Event()
    try:
        with StopSignals(told_to_stop.set):  # after Spark, which has a handler of its own
            started = run(
                app,
                spark,
                sink=sinks,
                checkpoint=plan.checkpoint,
                available_now=plan.until_now,
                messages_max=limits.messages_max or MESSAGES_MAX,
                batch_target_s=limits.batch_target_s,
                failures_max=limits.failures_max,
                retry_timeout_s=RETRY_MS / 1000 if plan.wait_s is None else plan.wait_s,
                progress=True,
                plot=plan.plot,
            )
            return _wait(started, app, target, told_to_stop, stop_timeout_s)
    except FlintError:
        raise
    except Exception as error:  # whatever Spark says of a query that failed
        from flintmq.spark.source.preflight import sentence

        say(f"the query failed: {sentence(error)}")
        return FAILED
    finally:
        spark.stop()
        jvm_stderr.drain()


def _wait(
    started: Any, app: App, target: str, told_to_stop: threading.Event, stop_timeout_s: float
) -> int:
    is_ready = False
    while not started.await_termination(LOOK_S):
        if not is_ready and (client_id := started.client_id) is not None:
            is_ready = True
            typer.echo(f"flintmq ready app={target} group={app.group} client={client_id}")
        if told_to_stop.is_set():
            return 0 if started.stop(stop_timeout_s) else INTERRUPTED
    return 0
