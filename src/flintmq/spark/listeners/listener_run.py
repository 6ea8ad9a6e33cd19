"""`flintmq.spark.run`: the listeners of an app as a query of Spark.

    run = flintmq.spark.run(app, spark, sink={"format": "parquet", "path": "outcomes"})
    run.await_termination()

The query is a member of the app's group beside whoever else is in it.  Where it goes on is what
the group's offsets at the brokers say, so no checkpoint is needed: without one a temporary one is
used, and a program that was ended goes on where its last finished batch ended.  With one, files
written by a sink have each outcome once, also after a crash.

    run ──► running ──stop──► comes to rest: the batch ends, is committed ──► out of the group
                    └──until now, with ``available_now``──────────────────►

Listeners run once for each message and attempt, whatever is done with the rows.  At least once is
what remains after failures: a task or a batch that fails runs again.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.core.group.app import App
from flintmq.core.group.consumer_settings import check_range
from flintmq.errors import InvalidSetting, WrongState
from flintmq.logs import logger
from flintmq.net.clock import wall_ms
from flintmq.spark.listeners import control_files as names
from flintmq.spark.listeners.control_files import Notes
from flintmq.spark.listeners.listener_source import MAX_MESSAGES, NAME, NOTES, PARTITIONS, source_of
from flintmq.spark.listeners.outcome_rows import OutcomeKind
from flintmq.spark.listeners.outcome_sinks import Sink, attach, read_sinks
from flintmq.spark.listeners.packed_app import Program, pack, read_program
from flintmq.spark.listeners.progress import (
    Figures,
    LiveLine,
    log_batch,
    observe_bad,
    plot,
    require_plots,
)

log = logger("flintmq.spark")

MESSAGES_MAX: Final = 100_000
"""Of one batch: what a crash may make listeners do again."""

STOP_S: Final = 30.0
"""How long a stop waits for the batch that runs."""

LEAVE_S: Final = 10.0
"""How long a query may take to leave its group once it is ended."""

LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How a run stands.  ``lag`` and the rate are of the last batch."""

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
    progress: bool = False,
    plot: str | None = None,
) -> Run:
    """Start the listeners of an app on Spark; come back once the query runs.

    ``trigger`` is how often a batch begins, as "5 seconds"; without it, as soon as there is
    something.  ``available_now`` ends the run when all that is there now was consumed.
    ``messages_max`` is how many one batch takes.  ``progress`` shows a live line on a terminal,
    and ``plot`` is where to write a picture of rate and lag at the end.
    """
    program = read_program(app)
    sinks = read_sinks(sink)
    _check(program, spark, checkpoint, trigger, available_now, messages_max)
    if plot is not None:
        require_plots(plot)
    cleanup = ExitStack()
    try:
        notes_dir = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-run-"))
        if checkpoint is None:
            made = tempfile.TemporaryDirectory(prefix="flintmq-", ignore_cleanup_errors=True)
            checkpoint = cleanup.enter_context(made)
        notes = Notes(notes_dir)
        spark.dataSource.register(source_of(pack(program)))
        frame = (
            spark.readStream.format(NAME)
            .option(NOTES, notes_dir)
            .option(MAX_MESSAGES, messages_max)
            .option(PARTITIONS, spark.sparkContext.defaultParallelism)
            .load()
        )
        frame = observe_bad(frame, f.col("outcome") == OutcomeKind.BAD_RECORD.value)
        check = (lambda: check_lease(notes)) if program.has_ordered else None
        writer = attach(frame.writeStream, sinks, check).option("checkpointLocation", checkpoint)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        query = writer.start()
    except BaseException:
        cleanup.close()
        raise
    return Run(app.group, query, notes, cleanup, progress=progress, plot=plot)


def _check(
    program: Program,
    spark: SparkSession,
    checkpoint: str | None,
    trigger: str | None,
    available_now: bool,
    messages_max: int,
) -> None:
    session: object = spark
    if not isinstance(session, SparkSession):
        reason = "through Spark Connect there is no driver to be a member of the group"
        raise InvalidSetting("spark", type(session).__name__, reason)
    if trigger is not None and available_now:
        raise InvalidSetting("trigger", trigger, "give trigger or available_now, not both")
    check_range("messages_max", messages_max, (1, MESSAGES_MAX * 1_000))
    if checkpoint is None and not program.config.is_clustering:
        reason = "in broadcasting nobody else remembers how far the app got: give a directory"
        raise InvalidSetting("checkpoint", "", reason)
    speculates = spark.sparkContext.getConf().get("spark.speculation", "false")
    if program.has_ordered and str(speculates).lower() == "true":
        reason = "an ordered listener would run twice at once: set it to false"
        raise InvalidSetting("spark.speculation", str(speculates), reason)


def check_lease(notes: Notes) -> None:
    """Raise `WrongState` when locks were lost while a batch ran: it may not be committed."""
    lease = notes.read(names.LEASE)
    if lease is None:
        return
    reason = "others may consume it now; the batch is not committed, and runs again"
    if lease["broken"]:
        raise WrongState(f"the lock of {', '.join(lease['broken'])}", "lost", reason)
    until_ms = lease["until_ms"]
    if until_ms is not None and wall_ms() > until_ms:
        raise WrongState("the locks of this batch", "not renewed in time", reason)


class Run:
    """A query that runs listeners.  Leaving a ``with`` block stops it."""

    def __init__(
        self,
        group: str,
        query: StreamingQuery,
        notes: Notes,
        cleanup: ExitStack,
        *,
        progress: bool,
        plot: str | None,
    ) -> None:
        self.group = group
        self.query = query
        self._notes = notes
        self._cleanup = cleanup
        self._plot = plot
        self._figures = Figures()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watcher = threading.Thread(
            target=self._watch, args=(progress,), name=f"flintmq-run-{group}", daemon=True
        )
        self._watcher.start()

    def __repr__(self) -> str:
        state = "running" if self.query.isActive else "ended"
        return f"<Run of {self.group!r}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def client_id(self) -> str | None:
        """Who it is in its group; None before it joined."""
        told = self._notes.read(names.MEMBER)
        return None if told is None else str(told["client_id"])

    def status(self) -> RunStatus:
        """How far it is."""
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

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False when time is up.  Raises what ended the query, if it failed."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while self.query.isActive:
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    return False
                self._ended.wait(LOOK_S)
            self.query.awaitTermination(1)  # raises what went wrong
        finally:
            if not self.query.isActive:
                self._end()
        return True

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """Let the batch that runs end, commit it, leave the group.

        False when the batch did not end in time: it was interrupted, and its messages come again
        to somebody.
        """
        query, notes = self.query, self._notes
        notes.write(names.FINISH)
        deadline_s = time.monotonic() + timeout_s
        while query.isActive and not notes.has(names.RESTING):
            if time.monotonic() >= deadline_s:
                log.warning("%s: its batch did not end in %s s", self.group, timeout_s)
                break
            time.sleep(LOOK_S / 5)
        rested = notes.has(names.RESTING) or not query.isActive
        self._look()
        query.stop()
        self._end()
        return rested

    # Inside

    def _watch(self, shows_line: bool) -> None:
        """Look at the query until it ends."""
        with ExitStack() as stack:
            line = stack.enter_context(LiveLine(self.group)) if shows_line else None
            while not self._ended.wait(LOOK_S):
                try:
                    self._look()
                except Exception:  # Spark may be gone; the program hears of it elsewhere
                    log.debug("no progress of %s", self.group, exc_info=True)
                if line is not None:
                    line.show(self._figures)

    def _look(self) -> None:
        """Take in what Spark tells of its batches, and pass on which are done."""
        with self._lock:
            before = self._figures.end
            progress: list[dict[str, Any]] = [dict(each) for each in self.query.recentProgress]
            for batch in self._figures.take(progress):
                log_batch(self.group, batch)
            if self._figures.end is not None and self._figures.end != before:
                self._notes.write(names.FINISHED, self._figures.end)

    def _end(self) -> None:
        """After the query: wait until it is out of the group, and leave nothing behind."""
        if self._ended.is_set():
            return
        deadline_s = time.monotonic() + LEAVE_S
        while self._notes.has(names.MEMBER) and not self._notes.has(names.LEFT):
            if time.monotonic() >= deadline_s:
                log.warning("%s: the query did not leave its group in time", self.group)
                break
            time.sleep(LOOK_S / 10)
        self._look()
        self._ended.set()
        self._watcher.join()
        if self._plot is not None:
            plot(list(self._figures.points), self._plot, self.group)
        self._cleanup.close()
