"""A streaming query that this program started, and the thread that reads its progress.

    query runs ──every 0.25 s──► progress ──► figures, log, live line
    query ends ──► `_close`: what was made for the query is released ──► `await_termination` returns

A program that waits in its main thread without a limit ends well on SIGTERM and SIGINT:

    first signal ──► `stop`: the running micro-batch ends and is committed ──► the wait returns
    second signal ──► the process ends at once

Invariant: `_close` runs once, after the query has ended, also when the program neither stops nor
awaits it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pyspark.sql.streaming.query import StreamingQuery

from flintmq.client.stop_signals import StopSignals
from flintmq.logs import logger
from flintmq.net.clock import wall_ms
from flintmq.spark.listeners.progress import BatchFigures, Figures, LiveLine, log_batch
from flintmq.spark.watching.query_metrics import count_itself

if TYPE_CHECKING:
    from flintmq.metrics.client_metrics import ClientMetrics

log = logger("flintmq.spark")

LOOK_S: Final = 0.25
"""How often the progress of the query is read."""

STOP_S: Final = 30.0
"""How long a stop waits for the end of the running micro-batch."""


class WatchedQuery(ABC):
    """The base of `Run` and `Lake`.  Leaving a ``with`` block stops the query."""

    kind: ClassVar[str]
    """What metrics call it."""

    def __init__(
        self,
        name: str,
        query: StreamingQuery,
        *,
        progress: bool,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.query = query
        self._name = name
        self._figures = Figures()
        self._counts = None
        if metrics is not None:
            self._counts = metrics.spark_run(name, self.kind, wall_ms())
            count_itself(query.id)
        self._lock = threading.Lock()
        self._is_lost = False
        """Whether Spark answers no more: each further question would wait for minutes."""
        self._stopped = threading.Event()
        self._ended = threading.Event()
        self._watcher = threading.Thread(
            target=self._watch, args=(progress,), name=f"flintmq-watch-{name}", daemon=True
        )

    def __repr__(self) -> str:
        state = "running" if self.query.isActive else "ended"
        return f"<{type(self).__name__} {self._name!r}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @abstractmethod
    def stop(self, timeout_s: float = STOP_S) -> bool:
        """End the query after its running micro-batch; False when that took too long."""

    def await_termination(
        self,
        timeout_s: float | None = None,
        *,
        signals: bool = True,
        stop_timeout_s: float = STOP_S,
    ) -> bool:
        """Wait for the end; False when time is up.  Raises what ended the query, if it failed.

        Without ``timeout_s``, in the main thread, the first SIGTERM or SIGINT stops the query,
        which may take ``stop_timeout_s``; a second one ends the process.  ``signals=False``
        leaves signals to the program.
        """
        if timeout_s is None and signals:
            told = threading.Event()
            with StopSignals(told.set):
                while not self._ended.wait(LOOK_S):
                    if told.is_set():
                        self.stop(stop_timeout_s)
        elif not self._ended.wait(timeout_s):
            return False
        self._watcher.join()
        self.query.awaitTermination(1)  # raises what went wrong
        return True

    # For those who derive from it

    def _stop_query(self) -> None:
        """End the query now, and wait until everything made for it is released."""
        self.query.stop()
        self._stopped.set()
        self._watcher.join()

    def _read_progress(self, line: LiveLine | None = None) -> None:
        """Read the progress of the query."""
        with self._lock:
            try:
                progress: list[dict[str, Any]] = [dict(each) for each in self.query.recentProgress]
            except Exception:  # the JVM may have ended; other calls to Spark raise that
                log.debug("no progress of %s", self._name, exc_info=True)
                return
            for batch in self._figures.add(progress):
                log_batch(self._name, batch)
                self._batch_ended(batch)
                if self._counts is not None and batch.counts is not None:
                    self._counts.batch(batch.counts, wall_ms())
            if self._counts is not None:
                self._counts.behind(self._figures.lags)
            self._progressed()
        if line is not None:
            line.show(self._figures)

    def _batch_ended(self, batch: BatchFigures) -> None:  # noqa: B027  # the same
        """A micro-batch with messages ended.  Called with the lock held."""

    def _progressed(self) -> None:  # noqa: B027  # a lake has nothing to report
        """The figures are up to date.  Called with the lock held."""

    @abstractmethod
    def _close(self) -> None:
        """Release what was made for the query.  Called on the thread, after the query ended."""

    # The thread

    def _watch(self, shows_line: bool) -> None:
        with ExitStack() as stack:
            stack.callback(self._ended.set)
            if self._counts is not None:
                stack.callback(self._counts.ended)
            stack.callback(self._close)
            line = stack.enter_context(LiveLine(self._name)) if shows_line else None
            while self._is_active():
                self._read_progress(line)
                self._stopped.wait(LOOK_S)
            if not self._is_lost:
                self._read_progress(line)

    def _is_active(self) -> bool:
        try:
            return bool(self.query.isActive)
        except Exception:
            log.debug("Spark does not answer for %s", self._name, exc_info=True)
            self._is_lost = True
            return False
