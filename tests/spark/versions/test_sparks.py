"""What every supported version of pyspark can do; `make test-sparks` runs it with each of them.

The table of docs/support.md says the same: each test names its row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import flintmq.spark
from flintmq import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.spark.environment.query_start import start_query
from flintmq.spark.environment.requirements import (
    SOURCES_SINCE,
    has_read_limits,
    parsed,
    pyspark_version,
)
from support.client.support import stored
from support.spark.schemas import AVRO, avro_body
from support.spark.support import (
    Sink,
    bodies,
    create_topic,
    lag,
    read,
    read_stream,
    run_until_now,
    send,
    start,
    wait_for,
)

ROWS: dict[str, str] = {}
"""The rows of the table, and since which pyspark each of them is a yes."""


def row(name: str, since: str = "4.0") -> pytest.MarkDecorator:
    """The row that a test holds.  Without sources in Python it skips, unless it needs none."""
    ROWS[name] = since
    here = pyspark_version()
    is_skipped = here < SOURCES_SINCE <= parsed(since)
    return pytest.mark.skipif(is_skipped, reason=f"{name} needs pyspark {since}")


INTERVAL: dict[str, str] = {} if has_read_limits() else {"trigger": "interval"}
"""What older versions have to be told about queries with a limit."""


def filled(servers: EmbeddedBroker, topic: str, each: int = 5) -> list[str]:
    """A topic of two queues with messages; their bodies."""
    create_topic(servers, topic, 2)
    texts = [[f"{queue_id}-{n:02}" for n in range(each)] for queue_id in range(2)]
    for queue_id, some in enumerate(texts):
        send(servers, topic, some, queue_id=queue_id)
    return texts[0] + texts[1]


def writer(
    frame: DataFrame, checkpoint: str, take: Callable[[DataFrame, int], None]
) -> DataStreamWriter:
    return frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)


@row("batch read")
def test_a_batch_reads_all_there_is(spark: SparkSession, broker: EmbeddedBroker) -> None:
    sent = filled(broker, "batch")

    frame = read(spark, broker, subscribe="batch", properties="map")

    assert bodies(frame) == sent
    assert bodies(frame.where("queue_id = 1 AND queue_offset < 2")) == ["1-00", "1-01"]
    assert frame.where("store_time IS NULL OR properties IS NULL").count() == 0


@row("sink, batch")
def test_a_frame_is_written(spark: SparkSession, broker: EmbeddedBroker) -> None:
    create_topic(broker, "written", 2)
    rows = spark.sql(
        "SELECT 'a' AS body, 'new' AS tags, array('k') AS keys UNION SELECT 'b', 't', array()"
    )

    rows.write.format("rocketmq").options(namesrv=broker.namesrv, topic="written").mode(
        "append"
    ).save()

    assert sorted((m.body, m.tags) for m in stored(broker, "written")) == [
        (b"a", "new"),
        (b"b", "t"),
    ]


@row("stream")
def test_a_stream_follows_a_topic(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    sent = filled(broker, "followed")
    frame = read_stream(
        spark, broker, subscribe="followed", startingOffsets="earliest", consumerGroup="followers"
    )
    sink = Sink()
    query = start(frame, checkpoint, sink)
    try:
        sink.wait_for(len(sent))
        send(broker, "followed", ["late"])
        sink.wait_for(len(sent) + 1)
        wait_for(lambda: lag(broker, "followers") == 0)
    finally:
        query.stop()

    assert sink.rows == sorted([*sent, "late"])


@row("maxOffsetsPerTrigger")
def test_a_limit_holds_also_right_after_a_restart(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    sent = filled(broker, "limited", 10)
    frame = read_stream(
        spark,
        broker,
        subscribe="limited",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=3,
        **INTERVAL,
    )
    batches: dict[int, list[str]] = {}
    again: list[tuple[int, list[str]]] = []

    def take(rows: DataFrame, batch_id: int) -> None:
        texts = bodies(rows)
        if batches.setdefault(batch_id, texts) != texts:
            again.append((batch_id, texts))

    first = start_query(writer(frame, checkpoint, take).trigger(processingTime="1 second"))
    wait_for(lambda: batches)
    first.stop()
    left = len(sent) - sum(map(len, batches.values()))
    second = start_query(writer(frame, checkpoint, take))
    try:
        wait_for(lambda: sum(map(len, batches.values())) >= len(sent))
    finally:
        second.stop()

    assert left > 0, "the restart has something to do"
    assert not again, "a batch that runs again has the same rows"
    assert sorted(text for texts in batches.values() for text in texts) == sent
    assert max(map(len, batches.values())) == 3


@row("AvailableNow")
def test_available_now_reads_all_and_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    sent = filled(broker, "until-now")
    frame = read_stream(
        spark, broker, subscribe="until-now", startingOffsets="earliest", consumerGroup="comers"
    )

    first = run_until_now(frame, checkpoint)
    wait_for(lambda: lag(broker, "comers") == 0)
    send(broker, "until-now", ["late"])
    second = run_until_now(frame, checkpoint)

    assert (first.rows, second.rows) == (sent, ["late"])
    wait_for(lambda: lag(broker, "comers") == 0)


@row("AvailableNow with maxOffsetsPerTrigger", since="4.2")
def test_available_now_keeps_a_limit_or_says_that_it_cannot(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    sent = filled(broker, "both")
    options = {"subscribe": "both", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 3}

    if has_read_limits():
        sink = run_until_now(read_stream(spark, broker, **options), checkpoint)
        assert sink.rows == sent
        assert max(map(len, sink.batches)) == 3
    else:
        with pytest.raises(AnalysisException, match=r"trigger=interval .* pyspark 4\.2"):
            read_stream(spark, broker, **options)


@row("restart after a crash")
def test_a_batch_that_failed_runs_again_with_the_same_rows(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    filled(broker, "crashed")
    options = {"subscribe": "crashed", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    frame = read_stream(spark, broker, **options, **INTERVAL)
    seen = Sink()

    def fail(rows: DataFrame, batch_id: int) -> None:
        seen.take(rows, batch_id)
        raise RuntimeError("the sink is full")

    query = start_query(writer(frame, checkpoint, fail))
    wait_for(lambda: not query.isActive)
    send(broker, "crashed", ["late"])
    sink = Sink()
    query = start(frame, checkpoint, sink)
    try:
        sink.wait_for(11)
    finally:
        query.stop()

    assert sink.batches[0] == seen.batches[0]
    assert max(map(len, sink.batches)) == 4
    assert len(set(sink.rows)) == len(sink.rows) == 11


@row("sink, stream")
def test_a_stream_is_written(spark: SparkSession, broker: EmbeddedBroker, checkpoint: str) -> None:
    sent = filled(broker, "here")
    create_topic(broker, "there")
    frame = read_stream(spark, broker, subscribe="here", startingOffsets="earliest")

    query = (
        frame.select("body", "tags", "keys")
        .writeStream.format("rocketmq")
        .options(namesrv=broker.namesrv, topic="there", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)

    assert sorted(m.body.decode() for m in stored(broker, "there")) == sent


@row("flintmq.spark.run")
def test_listeners_consume(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    sent = filled(broker, "heard")
    diary = tmp_path / "diary"
    app = App("hearers", namesrv=broker.namesrv, start_from="first")

    @app.listener("heard")
    def note(messages):  # type: ignore[no-untyped-def]
        with diary.open("a") as file:
            file.writelines(f"{message.body.decode()}\n" for message in messages)

    if not has_read_limits():
        with pytest.raises(InvalidSetting, match=r"pyspark 4\.2 or newer is needed"):
            flintmq.spark.run(app, spark, available_now=True)
    run = flintmq.spark.run(app, spark, messages_max=3)
    try:
        wait_for(lambda: run.status().messages >= len(sent))
    finally:
        run.stop()

    assert sorted(diary.read_text().split()) == sent
    assert lag(broker, "hearers") == 0


@row("flintmq.spark.read", since="3.5")
def test_a_topic_is_a_frame_without_a_source(spark: SparkSession, broker: EmbeddedBroker) -> None:
    sent = filled(broker, "framed")

    frame = flintmq.spark.read(spark, "framed", namesrv=broker.namesrv, properties="map")
    send(broker, "framed", ["late"])

    assert bodies(frame) == sent, "planned when it was called"
    assert bodies(frame.where("queue_id = 1 AND queue_offset < 2")) == ["1-00", "1-01"]
    assert frame.where("store_time IS NULL OR properties IS NULL").count() == 0


@row("flintmq.spark.for_each_batch", since="3.5")
def test_a_loop_keeps_limits_and_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    sent = filled(broker, "looped")
    batches: list[tuple[int, list[str]]] = []

    def take(rows: DataFrame, number: int) -> None:
        batches.append((number, bodies(rows)))
        if number == 1 and len(batches) == 2:
            raise RuntimeError("the sink is full")

    def loop() -> int:
        return flintmq.spark.for_each_batch(
            spark,
            "looped",
            take,
            checkpoint,
            available_now=True,
            namesrv=broker.namesrv,
            startingOffsets="earliest",
            consumerGroup="loopers",
            maxOffsetsPerTrigger=4,
        )

    with pytest.raises(RuntimeError, match="full"):
        loop()
    behind = lag(broker, "loopers")
    send(broker, "looped", ["late"])
    count = loop()

    (first, second, again, *_rest) = batches
    assert behind == len(sent) - 4, "only the finished batch is committed"
    assert second == again, "the same range under the same number"
    assert count == 2
    assert [number for number, _ in batches] == [0, 1, 1, 2]
    assert max(len(rows) for _, rows in batches) == 4
    assert sorted(text for _, rows in [first, *batches[2:]] for text in rows) == [*sent, "late"]
    assert lag(broker, "loopers") == 0


@row("flintmq.spark.decode")
def test_bodies_become_columns(spark: SparkSession) -> None:
    rows = [(0, b'{"order":"o-1","amount":1.5}'), (1, b"no order")]
    frame = spark.createDataFrame(rows, "queue_offset BIGINT, body BINARY")

    decoded = flintmq.spark.decode(frame, "order STRING NOT NULL, amount DOUBLE")

    good, bad = decoded.orderBy("queue_offset").collect()
    assert (good.order, good.amount, good.decode_error) == ("o-1", 1.5, None)
    assert (bad.order, bytes(bad.body)) == (None, b"no order")
    assert bad.decode_error == "the body is no JSON object"


@row("flintmq.spark.decode of Avro and Protobuf", since="4.1")
def test_binary_bodies_become_columns_or_it_is_said_that_they_cannot(spark: SparkSession) -> None:
    rows = [(0, avro_body("o-1")), (1, b"no order")]
    frame = spark.createDataFrame(rows, "queue_offset BIGINT, body BINARY")

    if pyspark_version() < (4, 1):
        with pytest.raises(InvalidSetting, match=r"pyspark 4\.1 or newer is needed for bodies of"):
            flintmq.spark.decode(frame, AVRO)
        return
    good, bad = flintmq.spark.decode(frame, AVRO).orderBy("queue_offset").collect()
    assert (good.order, good.decode_error) == ("o-1", None)
    assert (bad.order, bytes(bad.body)) == (None, b"no order")


@row("flintmq.spark.lake")
def test_a_lake_has_each_message_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    sent, to = filled(broker, "kept"), str(tmp_path / "lake")

    for late in (None, "late"):
        if late is not None:
            send(broker, "kept", [late])
        written = flintmq.spark.lake(spark, "kept", to, until_now=True, namesrv=broker.namesrv)
        assert written.await_termination(120)

    assert bodies(spark.read.parquet(to)) == [*sent, "late"]
    assert flintmq.spark.compact(spark, to).files_after == 1
    assert bodies(spark.read.parquet(to)) == [*sent, "late"]
