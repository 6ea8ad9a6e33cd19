"""One run of the demo: a broker, Spark, the steps, the results.

    Spark joins ──► orders are sent ──► threads join ──► both consume ──► Spark leaves
                                                                             │
                    all is consumed, no lag, nothing waits ◄── threads go on ┘

A step that takes longer than its limit ends the run with what was waited for.

Invariant: when `play` returns or raises, no server, no Spark and no consumer of it is left.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.cli.demo.demo_report import FILES, DemoSample, Ending, draw, progress_line
from flintmq.cli.demo.evidence import Evidence, Tally, check_all, write_orders
from flintmq.cli.demo.orders import (
    DIRECTORY,
    GROUP,
    LEDGER,
    ORDERS,
    PROCESS,
    SPARK,
    THREADS,
    Planned,
    app,
    plan,
)
from flintmq.client.producer.threaded_producer import Producer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import FlintError, WrongState
from flintmq.logs import logger
from flintmq.model.group import dead_letter_topic, retry_topic
from flintmq.net.address import Address
from flintmq.spark.listeners.listener_run import run
from flintmq.spark.session import spark_session
from flintmq.store.files.store_config import Flush, StoreConfig, parse_delay_levels

log = logger(__name__)

FIRST, THREADS_JOIN, SPARK_LEAVES, ALL = 0.05, 0.40, 0.65, 1.0
"""Shares of the messages that are sent by then."""

REASON_S: Final = 30.0
"""How long the reason of a query that ended is waited for."""

SENDING_S: Final = 30.0
"""How long sending takes if it never has to wait."""

PACED: Final = "for watching, not for speed"

RATE_MIN: Final = 100.0
"""Messages a second at least: a small demo is a short one."""

STEP_S: Final = 180.0
"""The limit of one step, for a machine that is very busy."""

SEND_MS: Final = 15_000
LOOK_S: Final = 0.1
LINE_EVERY_S: Final = 5.0
QUEUES: Final = {ORDERS: 8, LEDGER: 4}

DELAYS: Final = "1s 1s 2s 3s 4s"
"""A retry waits for the third level or a later one: 2 s, then 3 s."""

SPARK_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    # A JVM that lives for a minute has no use for a thorough compiler and a parallel collector.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": 1,
    "spark.ui.showConsoleProgress": False,
}


def play(
    directory: Path, count: int, listeners: int, listen: tuple[Address, Address], console: Console
) -> Ending:
    """Run the demo.  ``listen`` is where the name server and the broker do."""
    handler = logging.FileHandler(directory / FILES["log"], encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger("flintmq").addHandler(handler)
    logging.getLogger("flintmq").setLevel(logging.INFO)
    began_s = time.monotonic()
    try:
        with ExitStack() as stack:
            broker = stack.enter_context(_broker(directory, *listen))
            console.print(f"name server {broker.namesrv}, broker {broker.broker}", style="grey62")
            console.print(
                "starting Spark: a JVM and its workers, nothing is fetched", style="grey62"
            )
            spark = stack.enter_context(_spark(directory))
            app.use(namesrv=broker.namesrv, threads_max=listeners)
            producer = stack.enter_context(broker.producer("shop"))
            story = Story(broker, producer, count, Tally(directory / FILES["attempts"]), console)
            story_s = time.monotonic()
            rate = f"{sending_rate(count):,.0f} a second"
            console.print(f"{count:,} messages, paced to {rate}: {PACED}", style="grey62")
            story.play(spark)
            table = write_orders(broker.messages(ORDERS), story.tally, directory / FILES["table"])
            checks = check_all(story.evidence(directory / FILES["ledger"], table.num_rows))
            draw(
                story.first_s, story.samples, story.marks, story.tally, directory / FILES["picture"]
            )
            ended_s = time.monotonic()
    except Exception:
        log.exception("the demo failed")
        raise
    return Ending(directory, checks, story.tally, table, story_s - began_s, ended_s - story_s)


class Story:
    """The steps.  One thread sends, looks and prints; consumers have their own."""

    def __init__(
        self, broker: EmbeddedBroker, producer: Producer, count: int, tally: Tally, console: Console
    ) -> None:
        self.tally = tally
        self.sent: list[tuple[Planned, str]] = []  # what the broker acknowledged, with its id
        self.samples: list[DemoSample] = []
        self.marks: dict[str, float] = {}  # words of the picture, with their time
        self.began_s = time.time()
        self.first_s = self.began_s  # of the first message
        self._broker, self._producer, self._console = broker, producer, console
        self._count, self._plan = count, plan(count)
        self._check_spark: Callable[[], None] = lambda: None
        self._step, self._printed_s = "", 0.0

    def play(self, spark: Any) -> None:
        """All steps, on this Spark session."""
        with self._broker.admin() as admin:
            for topic, queues in QUEUES.items():
                admin.create_topic(topic, queues=queues)
        with ThreadPoolExecutor(1) as pool, ExitStack() as on_threads, ExitStack() as on_spark:
            query = run(app, spark)
            on_spark.callback(query.stop, STEP_S)
            self._check_spark = lambda: _check(query)
            self._until("Spark joins the group", lambda: query.client_id is not None)
            self.first_s = time.time()
            self._send("Spark starts to consume", FIRST, SPARK)
            self._send("Spark consumes", THREADS_JOIN, SPARK)
            self.marks["threads join"] = time.time()
            on_threads.enter_context(app.consumer())
            self._send("Spark and threads share the group", SPARK_LEAVES, THREADS)
            self._check_spark = lambda: None
            leaving = pool.submit(on_spark.close)
            leaving.add_done_callback(lambda _: self.marks.update({"Spark is gone": time.time()}))
            self._send("Spark leaves the group", ALL, THREADS)
            self._until("Spark leaves the group", leaving.done)
            leaving.result()
            with suppress(StepTooLong):  # the checks say what is missing
                self._until("threads finish what is left", self._is_settled)
        self._take_sample("all is stopped")

    def evidence(self, ledger: Path, table_rows: int) -> Evidence:
        """What each side says now."""
        buried = self._broker.messages(dead_letter_topic(GROUP))
        consumed = self.tally.consumed
        return Evidence(
            wanted=frozenset(key for planned, key in self.sent if planned.is_wanted),
            unwanted=frozenset(key for planned, key in self.sent if not planned.is_wanted),
            hopeless=frozenset(key for planned, key in self.sent if planned.is_hopeless),
            entries=Counter(planned.customer for planned, _ in self.sent if planned.customer),
            consumed=frozenset(consumed),
            dead=frozenset(each.message_id for each in buried),
            ledger=tuple(ledger.read_text().splitlines()) if ledger.exists() else (),
            lag=self.samples[-1].lag,
            waiting=self.samples[-1].waiting,
            consumed_orders=sum(each.topic == ORDERS for each in consumed.values()),
            table_rows=table_rows,
            by=self.tally.by,
        )

    def _send(self, step: str, share: float, runner: str) -> None:
        """Send up to a share of the messages, and wait until a runner has consumed some."""
        rate, goal = sending_rate(self._count), round(self._count * share)
        due_s = looked_s = time.monotonic()
        while len(self.sent) < goal:
            batch = next(self._plan)
            messages, customer = [each.message for each in batch], batch[0].customer
            if customer is None:
                receipts = self._producer.send_batch(messages, timeout_ms=SEND_MS)
            else:  # one at a time: the entries of a customer are stored in their order
                send = self._producer.send
                receipts = [send(messages[0], sharding_key=customer, timeout_ms=SEND_MS)]
            self.sent += zip(batch, (each.message_id for each in receipts), strict=True)
            due_s += len(batch) / rate
            if time.monotonic() - looked_s > LOOK_S:
                self._take_sample(step)
                looked_s = time.monotonic()
            time.sleep(max(0.0, due_s - time.monotonic()))
        self._until(step, lambda: self.tally.by[runner] > 0)

    def _is_settled(self) -> bool:
        now, done = self.samples[-1], len(self.tally.consumed) + len(self.tally.dead)
        wanted = sum(planned.is_wanted for planned, _ in self.sent)
        return done >= wanted and not now.lag and not now.waiting

    def _until(self, step: str, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + STEP_S
        self._take_sample(step)
        while not condition():
            if time.monotonic() > deadline_s:
                raise StepTooLong("the demo", "stuck", f"waited {STEP_S:g} s: {step}")
            time.sleep(LOOK_S)
            self._take_sample(step)

    def _take_sample(self, step: str) -> None:
        """Take a sample of the counts; print a line at each new step and every few seconds."""
        self._check_spark()
        self.tally.update()
        topics = (*QUEUES, retry_topic(GROUP))
        lag = sum(self._broker.lag(GROUP, topic) for topic in topics)
        now = DemoSample(time.time(), len(self.sent), lag, self._broker.delayed())
        self.samples.append(now)
        if step != self._step or time.monotonic() - self._printed_s > LINE_EVERY_S:
            self._step, self._printed_s = step, time.monotonic()
            line = progress_line(step, now.time_s - self.began_s, self._count, now, self.tally)
            self._console.print(line, highlight=False, soft_wrap=True)


def sending_rate(count: int) -> float:
    """How many messages are sent in a second, so that there is something to watch."""
    return max(RATE_MIN, count / SENDING_S)


class StepTooLong(WrongState):
    """A step did not end within its limit."""


def _check(query: Any) -> None:
    """Raise when a query of Spark has ended by itself."""
    if not query.query.isActive:
        query.await_termination(REASON_S)  # raises what ended it, once its watcher has seen it
        raise WrongState("the query of Spark", "ended", "nobody asked it to")


@contextmanager
def _broker(directory: Path, namesrv: Address, broker: Address) -> Iterator[EmbeddedBroker]:
    """A broker that runs.  When it cannot start, the directory is removed: it holds nothing."""
    store = StoreConfig(flush=Flush.ASYNC, delay_levels_ms=parse_delay_levels(DELAYS))
    config, path = BrokerConfig(store=store), directory / FILES["store"]
    made = EmbeddedBroker(path, config=config, namesrv_listen=namesrv, broker_listen=broker)
    try:
        made.start()
    except FlintError:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def _spark(directory: Path) -> Iterator[Any]:
    """A session whose JVM and workers write to our log, and leave Ctrl-C to us."""
    os.environ |= {DIRECTORY: str(directory), PROCESS: str(os.getpid())}  # for the listeners
    handler, kept = signal.getsignal(signal.SIGINT), {number: os.dup(number) for number in (1, 2)}
    try:
        with (directory / FILES["log"]).open("ab") as file:
            for number in kept:
                os.dup2(file.fileno(), number)
        spark = spark_session("flintmq demo", "local[2]", **SPARK_SETTINGS)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, own in kept.items():
            os.dup2(own, number)
            os.close(own)
        signal.signal(signal.SIGINT, handler)
    try:
        yield spark
    finally:
        spark.stop()
