"""The story: Spark begins, threads join the group, Spark leaves, threads finish.

    Spark joins ──► the shop sends ──► threads join ──► both consume ──► Spark leaves
                                                                             │
                     all is settled, no lag, nothing waits ◄── threads go on ┘

It runs on a thread of its own, so that somebody can watch.  A turn that does not come in its time
ends the story with what was waited for.

Invariant: when `tell` comes back or raises, nobody sends or consumes any more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flintmq.cli.demo.attempts import Attempts, watched
from flintmq.cli.demo.orders import GROUP, LEDGER, ORDERS
from flintmq.cli.demo.sender import Sender
from flintmq.cli.demo.tally import SPARK, THREADS, Tally
from flintmq.client.run_app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import WrongState
from flintmq.model.group import retry_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintmq.spark.listeners.listener_run import Run

FIRST: Final = 0.05
THREADS_JOIN: Final = 0.40
SPARK_LEAVES: Final = 0.65
"""Shares of the messages that are sent by then."""

TURN_S: Final = 180.0
"""How long to wait for any turn of the story, on a machine that is very busy."""

LOOK_S: Final = 0.05

QUEUES: Final = {ORDERS: 8, LEDGER: 4}


class Interrupted(Exception):
    """Somebody did not want to see the end."""


@dataclass(slots=True)
class Moments:
    """When the story turned, in seconds since 1970."""

    began_s: float = 0.0
    threads_joined_s: float | None = None
    spark_left_s: float | None = None
    ended_s: float | None = None


@dataclass(slots=True)
class Story:
    """What happens, and what a watcher may look at meanwhile."""

    broker: EmbeddedBroker
    spark: SparkSession
    app: App
    count: int
    attempts: Attempts
    tally: Tally
    sender: Sender
    act: str = "starting"
    moments: Moments = field(default_factory=Moments)
    threads_id: str | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """End it before its end."""
        self._stopping.set()

    def tell(self) -> None:
        """Everything, in its order."""
        from flintmq.spark.listeners.listener_run import run

        self._make_topics()
        self.act = "Spark joins the group"
        with ExitStack() as at_the_end:
            at_the_end.callback(self.attempts.flush)
            with ExitStack() as with_spark:
                on_spark = run(self.app, self.spark, sink=self.attempts.take_frame)
                with_spark.callback(self._leave, on_spark)
                self._until(lambda: on_spark.client_id is not None, "Spark to join", on_spark)
                at_the_end.callback(self._end_sending)
                self._send_to_spark(on_spark)
                self.act = "threads join the group"
                at_the_end.enter_context(self._on_threads())
                self._share(on_spark)
                self.act = "Spark leaves the group"
                self.sender.allow(self.count)
            self._finish()

    # Who comes and goes

    @contextmanager
    def _on_threads(self) -> Iterator[None]:
        consumer = watched(self.app, self.attempts.take_rows).consumer()
        self.threads_id = consumer.client_id
        self.moments.threads_joined_s = time.time()
        with consumer:
            yield
        self.threads_id = None

    def _leave(self, on_spark: Run) -> None:
        on_spark.stop(TURN_S)
        self.moments.spark_left_s = time.time()

    def _end_sending(self) -> None:
        self.sender.stop()
        if self.sender.is_alive():
            self.sender.join()

    # Acts

    def _make_topics(self) -> None:
        with self.broker.admin() as admin:
            for topic, queues in QUEUES.items():
                admin.create_topic(topic, queues=queues)

    def _send_to_spark(self, on_spark: Run) -> None:
        self.act = "Spark warms up"
        self.moments.began_s = time.time()
        self.sender.allow(round(self.count * FIRST))
        self.sender.start()
        self._until(lambda: self._consumed_by(SPARK) > 0, "Spark to consume", on_spark)
        self.act = "Spark consumes"
        goal = round(self.count * THREADS_JOIN)
        self.sender.allow(goal)
        self._until(lambda: self.sender.acknowledged >= goal, "the shop to send", on_spark)

    def _share(self, on_spark: Run) -> None:
        self.act = "Spark and threads share the group"
        goal = round(self.count * SPARK_LEAVES)
        self.sender.allow(goal)
        self._until(
            lambda: self.sender.acknowledged >= goal and self._consumed_by(THREADS) > 0,
            "threads to consume",
            on_spark,
        )

    def _finish(self) -> None:
        self.act = "threads consume"
        self._until(lambda: not self.sender.is_alive(), "the shop to send everything")
        self.act = "threads finish what is left"
        is_settled = self._wait(self._is_settled)
        self.moments.ended_s = time.time()
        # what is missing then, the checks tell
        self.act = "everything is consumed" if is_settled else "something is left over"

    def _is_settled(self) -> bool:
        totals = self.tally.totals()
        if totals.consumed + totals.dead < len(self.sender.sent.wanted):
            return False
        return self.lag() == 0 and self.broker.delayed() == 0

    def lag(self) -> int:
        """What is stored and not committed, also where the group has committed nothing yet."""
        return sum(self.broker.lag(GROUP, topic) for topic in (*QUEUES, retry_topic(GROUP)))

    def _consumed_by(self, runner: str) -> int:
        return self.tally.totals().by.get(runner, 0)

    def _until(self, condition: Callable[[], bool], what: str, on_spark: Run | None = None) -> None:
        if not self._wait(condition, on_spark):
            raise WrongState("the demo", "stuck", f"waited {TURN_S:g} s for {what}")

    def _wait(self, condition: Callable[[], bool], on_spark: Run | None = None) -> bool:
        """Whether it came true in time; raises what makes waiting vain."""
        deadline_s = time.monotonic() + TURN_S
        while not condition():
            if self._stopping.wait(LOOK_S):
                raise Interrupted
            if self.sender.error is not None:
                raise self.sender.error
            if on_spark is not None and not on_spark.query.isActive:
                on_spark.await_termination(0)  # raises what ended it
                raise WrongState("the query of Spark", "ended", "nobody asked it to")
            if time.monotonic() > deadline_s:
                return False
        return True
