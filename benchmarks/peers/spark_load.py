"""A Spark that reads from both brokers: the process whose work is measured.

It is started with the addresses of our name server and of Kafka, with the Python of `spark_python`.
Each line of its input is a command in JSON, and is answered with a line of JSON: rows and seconds.

    fill     rows of a topic, the same for both brokers
    check    that a topic has exactly these rows
    read     a batch over a topic into nothing
    batches  a stream in small batches: the median time of one, in milliseconds
    listen   a listener inside the tasks that read, pulled or popped (ours alone)
    map      the same work on the rows of a source, in a second step in Python
    stream   a stream over a whole topic into nothing, in a few large batches
    sink     a batch of rows into a topic

Both sources are read in one session of Spark, so that whatever is set is set for both.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zlib import crc32

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import flintmq.spark
from benchmarks.peers.spark_workloads import BATCH_PARTS
from flintmq import App, Message, Producer, QueueRef
from flintmq.client.admin import Admin
from flintmq.core.group.consumer_settings import ConsumeMode

OURS, KAFKA = "flintmq", "kafka"
FIVE = "topic,queue_id,queue_offset,store_time,body"
BROKER = "broker-a"

SEND_THREADS = 4
SEND_BYTES = 128 * 1024
SEND_MS = 30_000
DIGITS = 12  # of the number at the end of a body

WARM_BATCHES = 5
STREAM_BATCHES = 5  # of a stream at full speed

Result = dict[str, Any]

_ids = (f"bench{os.getpid()}-{number}" for number in itertools.count())


def body_of(number: int, size: int) -> str:
    return f"{number:0{size}d}"


class Bench:
    """The commands."""

    def __init__(self, spark: SparkSession, namesrv: str, kafka: str) -> None:
        self._spark = spark
        self._namesrv = namesrv
        self._kafka = kafka

    def fill(self, side: str, topic: str, queues: int, rows: int, size: int) -> Result:
        started = time.perf_counter()
        if side == KAFKA:
            self._fill_kafka(topic, queues, rows, size)
        else:
            self._fill_ours(topic, queues, rows, size)
        return {"count": rows, "seconds": time.perf_counter() - started}

    def check(self, side: str, topic: str, rows: int, size: int) -> Result:
        frame = self._frame(side, topic, 7, self._spark.read)
        number = f.right(f.col("value").cast("string"), f.lit(DIGITS)).cast("long")
        key = f.col("key").cast("string") == f.concat(f.lit("k"), number.cast("string"))
        sums = frame.agg(
            f.count("*"), f.sum(f.length("value")), f.sum(number), f.count_if(key)
        ).collect()[0]
        wanted = (rows, rows * size, rows * (rows - 1) // 2, rows)
        if tuple(sums) != wanted:
            raise ValueError(f"{side} {topic} has {tuple(sums)}, not {wanted}")
        return {"count": rows, "seconds": 0.0}

    def read(self, side: str, topic: str, rows: int, columns: int = 7) -> Result:
        frame = self._frame(side, topic, columns, self._spark.read)
        started = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return {"count": rows, "seconds": time.perf_counter() - started}

    def batches(self, side: str, topic: str, rows: int, each: int) -> Result:
        """All rows, so many in each batch; the first batches are not counted."""
        reader = self._spark.readStream.option("maxOffsetsPerTrigger", each)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            frame = self._frame(side, topic, 7, reader)
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            progress = _run(writer.trigger(availableNow=True).start())
        _must_be(rows, progress)
        later = progress[WARM_BATCHES:]
        return {
            "count": len(later),
            "seconds": sum(each["durationMs"]["triggerExecution"] for each in later) / 1000,
            "median_ms": statistics.median(p["durationMs"]["triggerExecution"] for p in later),
            "parts_ms": {
                name: statistics.median(p["durationMs"].get(name, 0) for p in later)
                for name in BATCH_PARTS
            },
        }

    def listen(
        self, topic: str, rows: int, mode: ConsumeMode = "pull", sink: str = "none"
    ) -> Result:
        app = App(next(_ids), namesrv=self._namesrv, start_from="first", mode=mode)

        @app.listener(topic, batch_max=1_024)
        def work(messages: tuple[Any, ...]) -> None:
            for message in messages:
                crc32(message.body)

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            place = {"format": sink, "path": directory} if sink != "none" else "none"
            run = flintmq.spark.run(
                app, self._spark, sink=place, available_now=True, messages_max=rows
            )
            run.await_termination()
        return _rate(rows, run.query)

    def map(self, side: str, topic: str, rows: int) -> Result:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for value in batch.column("value").to_pylist():
                    crc32(value)
                yield batch.select(["topic", "partition", "offset", "timestamp"])

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            reader = self._spark.readStream.option("maxOffsetsPerTrigger", rows)
            frame = self._frame(side, topic, 7, reader)
            schema = frame.select("topic", "partition", "offset", "timestamp").schema
            mapped = frame.mapInArrow(work, schema)
            writer = mapped.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        return _rate(rows, query)

    def stream(self, side: str, topic: str, rows: int) -> Result:
        """A topic from its first row to its last, by Trigger.AvailableNow."""
        reader = self._spark.readStream.option("maxOffsetsPerTrigger", -(-rows // STREAM_BATCHES))
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            frame = self._frame(side, topic, 7, reader)
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        return _rate(rows, query)

    def sink(self, side: str, topic: str, rows: int, size: int) -> Result:
        frame = self._spark.range(0, rows, 1, 2).selectExpr(
            f"cast(lpad(cast(id AS string), {size}, '0') AS binary) AS value"
        )
        writer = frame.write.mode("append").option("topic", topic)
        if side == KAFKA:
            writer = writer.format("kafka").option("kafka.bootstrap.servers", self._kafka)
        else:
            writer = writer.format("rocketmq").option("namesrv", self._namesrv)
        started = time.perf_counter()
        writer.save()
        return {"count": rows, "seconds": time.perf_counter() - started}

    def _frame(self, side: str, topic: str, columns: int, reader: Any) -> DataFrame:
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        frame: DataFrame
        if side == KAFKA:
            frame = reader.format("kafka").option("kafka.bootstrap.servers", self._kafka).load()
            return frame
        reader = reader.format("rocketmq").option("namesrv", self._namesrv)
        if columns == 5:
            frame = reader.option("columns", FIVE).load()
        else:
            frame = reader.option("schema", "kafka").option("includeHeaders", "false").load()
        return frame

    def _fill_kafka(self, topic: str, queues: int, rows: int, size: int) -> None:
        jvm = self._spark.sparkContext._jvm
        assert jvm is not None
        settings = jvm.java.util.Properties()
        settings.put("bootstrap.servers", self._kafka)
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        replicas = jvm.java.lang.Short.parseShort("1")
        made = jvm.org.apache.kafka.clients.admin.NewTopic(topic, queues, replicas)
        admin.createTopics(jvm.java.util.List.of(made)).all().get()
        admin.close()
        frame = self._spark.range(0, rows, 1, 2).selectExpr(
            "concat('k', id) AS key",
            f"lpad(cast(id AS string), {size}, '0') AS value",
            f"cast(id % {queues} AS int) AS partition",
        )
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", self._kafka)
        writer.option("topic", topic).save()

    def _fill_ours(self, topic: str, queues: int, rows: int, size: int) -> None:
        with Admin(namesrv=self._namesrv) as admin:
            admin.create_topic(topic, queues=queues)
        batch = max(1, SEND_BYTES // (size + 100))
        with Producer("fillers", namesrv=self._namesrv) as producer:

            def send(queue_id: int) -> None:
                queue = QueueRef(topic, BROKER, queue_id)
                numbers = iter(range(queue_id, rows, queues))
                while some := list(itertools.islice(numbers, batch)):
                    messages = [
                        Message(topic, body_of(n, size).encode(), keys=[f"k{n}"]) for n in some
                    ]
                    producer.send_batch(messages, queue=queue, timeout_ms=SEND_MS)

            with ThreadPoolExecutor(SEND_THREADS) as pool:
                list(pool.map(send, range(queues)))


def _run(query: StreamingQuery) -> list[dict[str, Any]]:
    """The batches of a query that ends by itself; those without rows left out."""
    query.awaitTermination()
    return [dict(one) for one in query.recentProgress if one["numInputRows"]]


def _rate(rows: int, query: StreamingQuery) -> Result:
    progress = _run(query)
    _must_be(rows, progress)
    milliseconds = sum(one["durationMs"]["triggerExecution"] for one in progress)
    return {"count": rows, "seconds": milliseconds / 1000}


def _must_be(rows: int, progress: list[dict[str, Any]]) -> None:
    count = sum(one["numInputRows"] for one in progress)
    if count != rows:
        raise ValueError(f"{count} rows came, not {rows}")


def main() -> None:
    namesrv, kafka, jars = sys.argv[1:4]
    answers, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        settings: dict[str, object] = {
            "spark.driver.memory": "2g",
            "spark.driver.extraClassPath": f"{jars}/*",
            "spark.sql.shuffle.partitions": 1,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.local.dir": f"{scratch}/local",
            "spark.ui.showConsoleProgress": False,
        }
        spark = flintmq.spark.spark_session("bench", "local[2]", **settings)
        flintmq.spark.register(spark)
        bench = Bench(spark, namesrv, kafka)
        commands: dict[str, Callable[..., Result]] = {
            "fill": bench.fill,
            "check": bench.check,
            "read": bench.read,
            "batches": bench.batches,
            "listen": bench.listen,
            "map": bench.map,
            "stream": bench.stream,
            "sink": bench.sink,
        }
        for line in sys.stdin:
            command = json.loads(line)
            try:
                result = {"failed": 0, **commands[command.pop("do")](**command)}
            except Exception as error:  # whoever asked is to know
                result = {"error": repr(error)[:2_000]}
            print("RESULT " + json.dumps(result), file=answers, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
