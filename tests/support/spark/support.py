"""What the tests on Spark share: topics, messages, queries, and looking at the result."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.admin import Admin
from flintmq.client.producer.threaded_producer import Producer
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from flintmq.errors import FlintError
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.topic import TopicTable
from flintmq.spark.environment.query_start import start_query
from flintmq.spark.session import spark_session
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import Flush, StoreConfig

if TYPE_CHECKING:
    from flintmq.spark.listeners.listener_run import Run

PATIENCE_S = 60.0
"""How long a test waits for what must happen, on a machine that may be very busy."""

BROKER = "broker-a"

PAGES_OF_ERRORS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers that PySpark makes with its first error.  They pass nothing on, so pytest adds its
handler to them, and they give that handler a format of their own: for all tests that come later."""


class Reachable(Protocol):
    """Servers in this process or in others, ours or not."""

    @property
    def namesrv(self) -> str: ...


@contextmanager
def session(scratch: Path, master: str = "local[2]", **more: object) -> Iterator[SparkSession]:
    """A small Spark: no web page, and workers with the Python of the tests."""
    for name in PAGES_OF_ERRORS:  # plain loggers: nobody changes the format of pytest then
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings: dict[str, object] = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": scratch / "warehouse",
        "spark.local.dir": scratch / "local",
        "spark.ui.showConsoleProgress": False,
        **more,
    }
    made = spark_session("flintmq-tests", master, **settings)
    try:
        yield made
    finally:
        made.stop()


def wait_for(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition; fail when it does not come true."""
    deadline_s = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come true"
        threading.Event().wait(0.01)


def create_topic(servers: Reachable, topic: str, queues: int = 1) -> str:
    """Make a topic, or see that it is as wanted; its name, to be written in one line."""
    with Admin(namesrv=servers.namesrv) as admin:
        admin.create_topic(topic, queues=queues)
    return topic


def send(
    servers: Reachable,
    topic: str,
    bodies: Iterable[bytes | str],
    *,
    queue_id: int | None = 0,
    broker: str = BROKER,
    tags: str | None = None,
    keys: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    batch: int = 500,
) -> None:
    """Send messages in this order to one queue, or to all in turn with ``queue_id`` None."""
    messages = [
        Message(
            topic,
            body.encode() if isinstance(body, str) else body,
            tags=tags,
            keys=list(keys),
            properties=dict(properties or {}),
        )
        for body in bodies
    ]
    with Producer("senders", namesrv=servers.namesrv) as producer:
        if queue_id is None:
            for message in messages:
                producer.send(message)
            return
        queue = QueueRef(topic, broker, queue_id)
        for start in range(0, len(messages), batch):
            producer.send_batch(messages[start : start + batch], queue=queue)


def write_held(servers: EmbeddedBroker) -> None:
    """Have the broker write what it holds in memory, for those who read its files.

    Records are written here; the broker saves its table of topics on a thread of its own, so wait
    until the file has the table of now.
    """

    def flush(running: Servers) -> TopicTable:
        (broker,) = running.brokers.values()
        assert broker.state.log.flush()
        return broker.state.topics.table()

    topics = servers.call(flush)
    saved = Tables(Disk(), servers.directory).topics
    wait_for(lambda: saved.load() == topics)


@contextmanager
def traffic(
    servers: Reachable, topic: str, queues: int, each_s: float = 0.1
) -> Iterator[Callable[[], int]]:
    """Numbers that keep coming, ten to each queue at a time; how many there are so far."""
    stopping, count = threading.Event(), [0]

    def go() -> None:
        with Producer("senders", namesrv=servers.namesrv) as producer:
            while not stopping.wait(each_s):
                for queue_id in range(queues):
                    numbers = range(count[0], count[0] + 10)
                    batch = [Message(topic, b"%06d" % number) for number in numbers]
                    producer.send_batch(batch, queue=QueueRef(topic, BROKER, queue_id))
                    count[0] += 10

    sender = threading.Thread(target=go)
    sender.start()
    try:
        yield lambda: count[0]
    finally:
        stopping.set()
        sender.join()


def lag(servers: Reachable, group: str) -> int | None:
    """How far a group is behind; None when it has no offsets anywhere."""
    with Admin(namesrv=servers.namesrv) as admin:
        found = admin.lag(group)
    return found.lag if found.queues else None


def dead_letters(servers: Reachable, group: str) -> int:
    """How many dead letters a group has."""
    with Admin(namesrv=servers.namesrv) as admin:
        try:
            return sum(each.count for each in admin.topic_stats(f"%DLQ%{group}"))
        except FlintError:  # none yet, and so no topic
            return 0


def read(spark: SparkSession, servers: Reachable, **options: object) -> DataFrame:
    """A batch over a topic of these servers."""
    reader = spark.read.format("rocketmq").option("namesrv", servers.namesrv)
    return reader.options(**cast(Any, options)).load()


def read_stream(spark: SparkSession, servers: Reachable, **options: object) -> DataFrame:
    """A stream over a topic of these servers."""
    reader = spark.readStream.format("rocketmq").option("namesrv", servers.namesrv)
    return reader.options(**cast(Any, options)).load()


def bodies(frame: DataFrame, column: str = "body") -> list[str]:
    """Every body as text, sorted."""
    return sorted(bytes(row[0]).decode() for row in frame.select(column).collect())


class Sink:
    """Rows of a query, collected batch by batch in this process."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.seen = threading.Condition()

    def take(self, frame: DataFrame, _batch_id: int) -> None:
        rows = [bytes(row[0]).decode() for row in frame.select("body").collect()]
        with self.seen:
            self.batches.append(rows)
            self.seen.notify_all()

    @property
    def rows(self) -> list[str]:
        """All rows so far, sorted."""
        return sorted(row for batch in self.batches for row in batch)

    def wait_for(self, count: int, patience_s: float = PATIENCE_S) -> list[str]:
        """Wait until so many rows are there."""
        with self.seen:
            enough = self.seen.wait_for(lambda: len(self.rows) >= count, patience_s)
            assert enough, f"only {len(self.rows)} rows of {count} came"
            return self.rows


def run_until_now(frame: DataFrame, checkpoint: str, sink: Sink | None = None) -> Sink:
    """Everything there is now, by Trigger.AvailableNow; the rows."""
    sink = sink or Sink()
    query = start(frame, checkpoint, sink, availableNow=True)
    assert query.awaitTermination(int(PATIENCE_S)), "the query did not end"
    return sink


def start(frame: DataFrame, checkpoint: str, sink: Sink, **trigger: Any) -> StreamingQuery:
    """A query into a sink."""
    writer = frame.writeStream.foreachBatch(sink.take).option("checkpointLocation", checkpoint)
    writer = writer.trigger(**trigger) if trigger else writer
    return start_query(writer)


def run_to_end(app: App, spark: SparkSession, **options: Any) -> Run:
    """Run listeners over all there is now."""
    from flintmq.spark.listeners.listener_run import run as spark_run  # pyspark 3.5 has none

    run = spark_run(app, spark, available_now=True, **options)
    assert run.await_termination(PATIENCE_S), "the run did not end"
    return run


def forgetful(**settings: int) -> EmbeddedBroker:
    """A broker with small files, so that `forget_old` finds some to delete."""
    store = StoreConfig(flush=Flush.ASYNC, commit_log_file_bytes=4_096, queue_file_bytes=100)
    return EmbeddedBroker(config=BrokerConfig(store=store, **cast(Any, settings)))


def forget_old(servers: EmbeddedBroker) -> None:
    """Let the broker delete every file of its log but the last, as after three days."""
    later_ms = 100 * 3_600_000

    def act(running: Servers) -> None:
        broker = running.brokers[BROKER]
        assert broker.state.log.retain(broker.now_ms() + later_ms, due=True)

    servers.call(act)
