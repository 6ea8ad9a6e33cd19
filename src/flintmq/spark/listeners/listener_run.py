"""`flintmq.spark.run`: runs the listeners of an app as a streaming query.

    run = flintmq.spark.run(app, spark, sink={"format": "parquet", "path": "outcomes"})
    run.await_termination()

The query is a member of the app's group beside all other members.  It continues at the committed
offsets of the group, so no checkpoint is needed: without one a temporary one is used, and a program
that is started again continues after its last finished micro-batch.  With a checkpoint, files
written by a sink have each outcome once, also after a crash.

    run ──► running ──stop, or a signal──► the micro-batch ends, is committed ──► leaves the group
                    └──all read, with ``available_now``──────────────────────►

Listeners are called once for each message and attempt, whatever the sinks do with the rows.  After
a failure it is at least once: a task or a micro-batch that fails runs again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from flintmq.arrow.reading.patience import RETRY_MS
from flintmq.core.group.app import App
from flintmq.core.group.consumer_settings import check_range
from flintmq.errors import CircuitOpen, InvalidSetting
from flintmq.logs import logger
from flintmq.reports.report_output import require_plots
from flintmq.spark.environment.query_start import start_query
from flintmq.spark.environment.requirements import require_read_limits
from flintmq.spark.listeners.batch_checks import (
    FAILED,
    check_lease,
    report_failure,
    report_verdicts,
)
from flintmq.spark.listeners.batch_number import number_of
from flintmq.spark.listeners.batch_pace import TARGET_S_MAX, report_pace
from flintmq.spark.listeners.listener_source import (
    CONTROL_DIRECTORY,
    MAX_MESSAGES,
    NAME,
    PARTITIONS,
    SLIM,
    TARGET_MS,
    source_of,
)
from flintmq.spark.listeners.progress import (
    BatchFigures,
    observe_outcomes,
    plot,
)
from flintmq.spark.listeners.run_place import RunPlace, is_connected, open_place, setting
from flintmq.spark.listeners.watched_query import LOOK_S, STOP_S, WatchedQuery
from flintmq.spark.outcomes.circuit_breaker import (
    FAILURES_BOUNDS,
    CircuitBreaker,
    read_circuit_open,
)
from flintmq.spark.outcomes.outcome_sinks import CONSOLE, Sink, attach, read_sinks
from flintmq.spark.outcomes.outcome_summary import SummaryOf
from flintmq.spark.outcomes.task_reports import DriverReports, raised_by_topic
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.tasks.packed_app import Program, listener_names, pack, read_program

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

log = logger("flintmq.spark")

MESSAGES_MAX: Final = 100_000
"""Of one micro-batch: the most that a crash makes listeners repeat."""

RETRY_S_MAX: Final = 86_400
"""A day: nobody watches a job for longer that does nothing."""

SPECULATION: Final = "spark.speculation"

LEAVE_S: Final = 10.0
"""How long a query may take to leave its group once it has ended."""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The progress of a run.  ``lag`` and the rate are of the last micro-batches."""

    is_active: bool
    client_id: str | None
    batches: int
    messages: int
    per_second: float
    lag: int | None
    left_s: float | None
    bad_records: int = 0
    """Messages that could not be decoded."""


def run(
    app: App,
    spark: SparkSession,
    *,
    sink: Sink | Sequence[Sink] = "none",
    checkpoint: str | None = None,
    trigger: str | None = None,
    available_now: bool = False,
    messages_max: int = MESSAGES_MAX,
    batch_target_s: float | None = None,
    failures_max: int | None = None,
    retry_timeout_s: float = RETRY_MS / 1000,
    progress: bool = False,
    plot: str | None = None,
    metrics: ClientMetrics | None = None,
) -> Run:
    """Start the listeners of an app on Spark; returns once the query runs.

    ``trigger`` is the interval between micro-batches, as "5 seconds"; without it one begins as
    soon as there are messages.  ``available_now`` ends the run when all messages stored now were
    consumed.  ``messages_max`` limits one micro-batch; ``batch_target_s`` is how long one is to
    take, and makes them smaller or larger within that limit.  ``failures_max`` ends the run with
    `CircuitOpen` when a listener raised in so many calls in a row.  Servers that do not answer
    are asked again for ``retry_timeout_s``.  ``progress`` shows a live line on a terminal, and
    ``plot`` is the file for a picture of rate and lag at the end.  ``metrics`` counts
    micro-batches, outcomes and times of listeners; without it the app's own are used.
    """
    check_range("retry_timeout_s", round(retry_timeout_s), (0, RETRY_S_MAX))
    metrics = metrics or app.settings.get("metrics")
    program = read_program(app, round(retry_timeout_s * 1000), failures_max)
    sinks = read_sinks(sink)
    _check(program, spark, sinks, checkpoint, trigger, available_now, messages_max)
    target_ms = _target_ms(batch_target_s)
    if plot is not None:
        require_plots(plot)
    cleanup = ExitStack()
    try:
        place = open_place(spark, checkpoint, cleanup)
        spark.dataSource.register(source_of(pack(program), pops=program.pops))
        breaker = _breaker(program)
        options: dict[str, str | int] = {CONTROL_DIRECTORY: place.directory}
        options |= {MAX_MESSAGES: messages_max, PARTITIONS: place.cores}
        options[SLIM] = str(not sinks).lower()
        if target_ms is not None:
            options[TARGET_MS] = target_ms
        frame = observe_outcomes(spark.readStream.format(NAME).options(**options).load())
        run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, place.checkpoint))
        writer = _attached(frame, sinks, program, place, run_id)
        writer = writer.option("checkpointLocation", place.checkpoint)
        query = start_query(_triggered(writer, trigger, available_now))
    except BaseException:
        cleanup.close()
        raise
    return Run(
        app.group,
        query,
        place.files,
        cleanup,
        breaker=breaker,
        paces=target_ms is not None,
        progress=progress,
        plot=plot,
        metrics=metrics,
    )


def _breaker(program: Program) -> CircuitBreaker | None:
    if program.failures_max is None:
        return None
    return CircuitBreaker(program.config.group, listener_names(program), program.failures_max)


def _triggered(
    writer: DataStreamWriter, trigger: str | None, available_now: bool
) -> DataStreamWriter:
    if available_now:
        return writer.trigger(availableNow=True)
    return writer if trigger is None else writer.trigger(processingTime=trigger)


def _attached(
    frame: DataFrame,
    sinks: Sequence[Sink],
    program: Program,
    place: RunPlace,
    run_id: str,
) -> DataStreamWriter:
    """The writer of a run, with its sinks.  What it calls runs on the driver's machine."""
    check = partial(check_lease, place.there) if program.has_ordered else None
    settle = partial(report_verdicts, place.there) if program.pops else None
    of = SummaryOf(program.config.group, listener_names(program), run_id)
    on_error = None if program.failures_max is None else partial(report_failure, place.there)
    return attach(frame, sinks, of, check, settle, on_error)


def _check(
    program: Program,
    spark: SparkSession,
    sinks: Sequence[Sink],
    checkpoint: str | None,
    trigger: str | None,
    available_now: bool,
    messages_max: int,
) -> None:
    if CONSOLE in sinks and is_connected(spark):
        reason = "through Spark Connect it would be the console of the server"
        raise InvalidSetting("sink", CONSOLE, reason)
    if available_now:
        require_read_limits("available_now")
    if trigger is not None and available_now:
        raise InvalidSetting("trigger", trigger, "give trigger or available_now, not both")
    check_range("messages_max", messages_max, (1, MESSAGES_MAX * 1_000))
    if program.failures_max is not None:
        check_range("failures_max", program.failures_max, FAILURES_BOUNDS)
    if checkpoint is None and not program.config.is_clustering:
        reason = "in broadcasting nobody else remembers how far the app got: give a directory"
        raise InvalidSetting("checkpoint", "", reason)
    if program.has_ordered and setting(spark, SPECULATION, "false").lower() == "true":
        reason = "an ordered listener would run twice at once: set it to false"
        raise InvalidSetting(SPECULATION, "true", reason)


def _target_ms(batch_target_s: float | None) -> int | None:
    """The time that a micro-batch is to take, in milliseconds."""
    if batch_target_s is None:
        return None
    if not 0 < batch_target_s <= TARGET_S_MAX:
        reason = f"is a time in seconds, above 0 and up to {TARGET_S_MAX}"
        raise InvalidSetting("batch_target_s", str(batch_target_s), reason)
    return max(1, round(batch_target_s * 1000))


class Run(WatchedQuery):
    """A query that runs listeners.  Leaving a ``with`` block stops it."""

    kind = "listeners"

    def __init__(
        self,
        group: str,
        query: StreamingQuery,
        files: ControlFiles,
        cleanup: ExitStack,
        *,
        breaker: CircuitBreaker | None = None,
        paces: bool = False,
        progress: bool,
        plot: str | None,
        metrics: ClientMetrics | None = None,
    ) -> None:
        super().__init__(group, query, progress=progress, metrics=metrics)
        self.group = group
        self._files = files
        self._cleanup = cleanup
        self._plot = plot
        self._client_id: str | None = None
        self._reported: dict[str, Any] | None = None
        self._warnings = DriverReports()
        self._breaker = breaker
        self._paces = paces
        self._circuit_open: CircuitOpen | None = None
        self._watcher.start()

    @property
    def client_id(self) -> str | None:
        """The client id of the query in its group; None before it joined."""
        if self._client_id is None:
            member = self._files.read(names.MEMBER)
            self._client_id = None if member is None else str(member["client_id"])
        return self._client_id

    def status(self) -> RunStatus:
        """How many messages are consumed, and how many are left."""
        figures = self._figures
        return RunStatus(
            self.query.isActive,
            self.client_id,
            figures.batches,
            figures.messages,
            figures.per_second,
            figures.lag,
            figures.left_s,
            figures.bad_records,
        )

    def await_termination(
        self,
        timeout_s: float | None = None,
        *,
        signals: bool = True,
        stop_timeout_s: float = STOP_S,
    ) -> bool:
        """Wait for the end, as `WatchedQuery.await_termination`; then the plot is written.

        Raises `CircuitOpen` if a listener raised in ``failures_max`` calls in a row.
        """
        try:
            has_ended = super().await_termination(
                timeout_s, signals=signals, stop_timeout_s=stop_timeout_s
            )
        except StreamingQueryException as error:
            told = None if self._breaker is None else self._breaker.opened
            found = read_circuit_open(str(error)) or told
            if found is None:
                raise
            self._circuit_open = found
            raise found from error
        finally:
            self._draw()
        if has_ended and self._circuit_open is not None:
            raise self._circuit_open
        return has_ended

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """Let the running micro-batch end, commit it, and leave the group.

        False when it did not end in time: it was interrupted, and its messages are redelivered.
        """
        self._files.write(names.FINISH)
        deadline_s = time.monotonic() + timeout_s
        while not (rested := self._is_resting()):
            if time.monotonic() >= deadline_s:
                log.warning(
                    "%s: its micro-batch did not end in %s s and is interrupted; the group gets "
                    "its messages again.  A smaller messages_max makes micro-batches shorter",
                    self.group,
                    timeout_s,
                )
                break
            time.sleep(LOOK_S / 5)
        self._read_progress()
        self._stop_query()
        self._draw()
        return rested

    def _is_resting(self) -> bool:
        """Whether no micro-batch runs, and none is planned any more once ``finish`` is written."""
        query = self.query
        return (
            not query.isActive
            or self._files.has(names.RESTING)
            or not query.status["isTriggerActive"]  # the next one may be hours away
        )

    def _batch_ended(self, batch: BatchFigures) -> None:
        """Log what the tasks of a micro-batch reported; stop if a listener always raises."""
        self._warnings.log_all(batch.reports)
        if self._paces and batch.counts is not None:
            calls_ms = batch.counts.calls.sum_ms
            report_pace(self._files, number_of(batch.end), batch.tasks_ms, calls_ms)
        if self._breaker is not None and self._circuit_open is None:
            opened = self._breaker.batch_ended(batch.calls, raised_by_topic(batch.reports))
            if opened is not None:
                self._circuit_open = opened
                log.error("%s", opened)
                name = f"flintmq-circuit-{self.group}"
                threading.Thread(target=self.stop, name=name, daemon=True).start()

    def _progressed(self) -> None:
        """Report the last finished micro-batch to the source process, which commits it."""
        end = self._figures.end
        if end is not None and end != self._reported:
            self._reported = end
            self._files.write(names.FINISHED, end)

    def _close(self) -> None:
        """Wait until the query is out of its group, and remove its temporary directories."""
        if self._is_lost:
            self._files.lose()
        deadline_s = time.monotonic() + LEAVE_S
        while self.client_id is not None and not self._files.has(names.LEFT):
            if time.monotonic() >= deadline_s:
                log.warning("%s: the query did not leave its group in time", self.group)
                break
            time.sleep(LOOK_S / 10)
        if self._breaker is not None:
            self._breaker.batch_failed(self._files.read(FAILED) or "")
        self._cleanup.close()

    def _draw(self) -> None:
        """Write the plot, once, when the query has ended."""
        if self._plot is not None and self._ended.is_set():
            path, self._plot = self._plot, None
            plot(list(self._figures.points), path, self.group)
