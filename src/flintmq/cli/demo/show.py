"""The show from its first moment to its last: servers, Spark, the story, and the evidence.

    directory/store       the broker's files
             /attempts    every call of a listener, as Parquet
             /orders      the consumed orders, as Parquet
             /ledger.txt  the book that the ordered listener writes
             /demo.png    rates and lag over time
             /demo.log    what Spark and the client log

Invariant: when it comes back or raises, no server, no Spark and no thread of it is left.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.cli.demo.attempts import Attempts
from flintmq.cli.demo.checks import Check, Evidence, check_all
from flintmq.cli.demo.order_table import Line, lines_of, write_orders
from flintmq.cli.demo.orders import BOOK, GROUP, ORDERS, app
from flintmq.cli.demo.picture import Course, draw
from flintmq.cli.demo.sender import Sender
from flintmq.cli.demo.story import Interrupted, Story
from flintmq.cli.demo.tally import SPARK, THREADS, Tally, Totals
from flintmq.cli.demo.view import View
from flintmq.cli.demo.watch import Watcher
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import ANY_PORT
from flintmq.errors import FlintError, WrongState
from flintmq.logs import logger
from flintmq.model.group import dead_letter_topic
from flintmq.net.address import Address
from flintmq.spark.session import spark_session
from flintmq.store.files.store_config import Flush, StoreConfig, parse_delay_levels

log = logger(__name__)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAYS: Final = "1s 1s 2s 3s 4s"
"""A retry waits for the third level or a later one: 2 s, then 3 s."""

LOOK_S: Final = 0.25

LOG_FILE: Final = "demo.log"

SPARK_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    # A JVM that lives for a minute has no use for a thorough compiler and a parallel collector.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": 1,
    "spark.ui.showConsoleProgress": False,
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says."""

    directory: Path
    count: int
    listeners: int
    namesrv_listen: Address = ANY_PORT
    broker_listen: Address = ANY_PORT


@dataclass(frozen=True, slots=True)
class Ending:
    """How it went."""

    directory: Path
    checks: list[Check]
    totals: Totals
    lines: list[Line]
    set_up_s: float
    story_s: float

    @property
    def is_good(self) -> bool:
        return all(check.is_good for check in self.checks)


def show(wishes: Wishes, console: Console) -> Ending:
    """Play it."""
    with _logging_to(wishes.directory / LOG_FILE):
        try:
            return _show(wishes, console)
        except Exception:
            log.exception("the demo failed")
            raise


def _show(wishes: Wishes, console: Console) -> Ending:
    directory, began_s = wishes.directory, time.monotonic()
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(_broker(wishes))
        except FlintError:  # nothing was played: leave nothing behind
            shutil.rmtree(directory, ignore_errors=True)
            raise
        console.print(f"name server {broker.namesrv}, broker {broker.broker}", style="grey62")
        console.print("starting Spark …", style="grey62")
        spark = stack.enter_context(_spark(directory))
        app.use(namesrv=broker.namesrv, threads_max=wishes.listeners)
        producer = stack.enter_context(broker.producer("shop"))
        tally = Tally()
        attempts = Attempts(directory / "attempts", tally)
        sender = Sender(producer, wishes.count)
        story = Story(broker, spark, app, wishes.count, attempts, tally, sender)
        set_up_s = time.monotonic() - began_s
        course = _watch(story, console)
        stored = broker.messages(ORDERS)
        table = write_orders(stored, attempts.directory, directory / "orders")
        evidence = _evidence(story, directory, table.num_rows)
        draw(course, directory / "demo.png")
        story_s = time.monotonic() - began_s - set_up_s
    return Ending(
        directory,
        check_all(evidence),
        tally.totals(),
        list(lines_of(table)),
        set_up_s,
        story_s,
    )


def _watch(story: Story, console: Console) -> Course:
    """Let the story be told on a thread, and show it meanwhile."""
    failure: list[BaseException] = []

    def tell() -> None:
        try:
            story.tell()
        except BaseException as error:
            failure.append(error)

    telling = threading.Thread(target=tell, name="flintmq-demo-story", daemon=True)
    telling.start()
    watcher = Watcher(story)
    try:
        with View(console) as view:
            while telling.is_alive():
                view.show(watcher.look())
                telling.join(LOOK_S)
            view.show(watcher.look())
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        story.stop()
        telling.join()
        watcher.close()
    if failure:
        raise failure[0]
    tally = story.tally
    return Course(
        dict(story.sender.seconds),
        tally.seconds(SPARK),
        tally.seconds(THREADS),
        watcher.samples,
        story.moments,
    )


def _evidence(story: Story, directory: Path, table_rows: int) -> Evidence:
    sent, tally, broker = story.sender.sent, story.tally, story.broker
    book = directory / "ledger.txt"
    return Evidence(
        wanted=frozenset(sent.wanted),
        unwanted=frozenset(sent.unwanted),
        hopeless=frozenset(sent.hopeless),
        entries=dict(sent.entries),
        consumed=tally.consumed(),
        dead=frozenset(each.message_id for each in broker.messages(dead_letter_topic(GROUP))),
        book=tuple(book.read_text().splitlines()) if book.exists() else (),
        lag=story.lag(),
        waiting=broker.delayed(),
        consumed_orders=len(tally.consumed(ORDERS)),
        table_rows=table_rows,
        by=tally.totals().by,
    )


# What runs


def _broker(wishes: Wishes) -> EmbeddedBroker:
    store = StoreConfig(flush=Flush.ASYNC, delay_levels_ms=parse_delay_levels(DELAYS))
    return EmbeddedBroker(
        wishes.directory / "store",
        config=BrokerConfig(store=store),
        namesrv_listen=wishes.namesrv_listen,
        broker_listen=wishes.broker_listen,
    )


@contextmanager
def _spark(directory: Path) -> Iterator[SparkSession]:
    """A session whose JVM and workers write to our log, and leave Ctrl-C to us."""
    os.environ[BOOK] = str(directory / "ledger.txt")  # listeners here and there write to it
    handler = signal.getsignal(signal.SIGINT)
    try:
        with _outputs_to(directory / LOG_FILE):
            spark = spark_session("flintmq demo", "local[2]", **SPARK_SETTINGS)
    except FlintError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        reason = f"{told}; see {directory / LOG_FILE}"
        raise WrongState("Spark", "not started", reason) from error
    signal.signal(signal.SIGINT, handler)
    try:
        yield spark
    finally:
        spark.stop()
        os.environ.pop(BOOK, None)


@contextmanager
def _outputs_to(path: Path) -> Iterator[None]:
    """Let what is started now write to a file for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        for number in kept:
            os.dup2(file, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, own in kept.items():
            os.dup2(own, number)
            os.close(own)
        os.close(file)


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    ours = logging.getLogger("flintmq")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(before)
        handler.close()
