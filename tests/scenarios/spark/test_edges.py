"""Every option of the source does its work inside a real query, also where little is to be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_queues import ClusterQueues
from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.records.properties import parse_properties
from flintmq.spark.source.stream_offset import StreamOffset
from support.spark.support import (
    BROKER,
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

IDLE_PROGRESS = "spark.sql.streaming.noDataProgressEventInterval"


def test_topics_of_a_pattern_come_as_kafkas_columns_in_batches_of_so_many_bytes(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    for topic in ("like-a", "like-b", "unlike"):
        create_topic(broker, topic, 2)
        send(broker, topic, [f"{topic}-{n}".ljust(1_000) for n in range(10)], queue_id=1, tags="t")
    frame = read_stream(
        spark,
        broker,
        subscribePattern="like-.",
        schema="kafka",
        startingOffsets="earliest",
        maxBytesPerTrigger=12_000,
    )

    chosen = frame.selectExpr(
        "binary(concat_ws(' ', trim(string(value)), partition, offset)) AS body"
    )
    sink = run_until_now(chosen, checkpoint)

    assert sink.rows == [f"{t}-{n} 1 {n}" for t in ("like-a", "like-b") for n in range(10)]
    assert len(sink.batches) >= 2
    assert max(map(len, sink.batches)) <= 12


def test_some_queues_of_a_topic_from_where_a_group_stands_with_a_filter(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    """Queue 0 has nothing new; queue 1 is sparse behind the filter and ends in what it drops."""
    topic, group = create_topic(broker, "assigned", 3), "assigned"
    for number in range(12):
        send(broker, topic, [f"{number:02}"], queue_id=1, properties={"number": str(number)})
    for queue_id in (0, 2):
        send(broker, topic, ["no"], queue_id=queue_id, properties={"number": "8"})
    stands = {QueueRef(topic, BROKER, queue_id): at for queue_id, at in enumerate((1, 3, 0))}
    with closing(ClusterQueues(Access((broker.namesrv,)))) as cluster:
        cluster.commit(group, {queue: QueueOffset(at) for queue, at in stands.items()})
    frame = read_stream(
        spark,
        broker,
        assign=json.dumps({topic: {BROKER: [0, 1]}}),
        sql="number IN ('1', '4', '8')",
        startingOffsets="group",
        consumerGroup=group,
        properties="raw",
        columns="body,queue_offset,properties",
        maxRecordsPerPartition=2,
    )

    sink = run_until_now(frame.drop("properties"), checkpoint)

    assert frame.columns == ["body", "queue_offset", "properties"]
    assert sink.rows == ["04", "08"]
    assert lag(broker, group) == 1, "queue 2 was not asked for"


@pytest.fixture
def prompt_progress(spark: SparkSession) -> Iterator[None]:
    """Idle queries tell how they stand twice a second, and not every ten seconds."""
    spark.conf.set(IDLE_PROGRESS, "500ms")
    yield
    spark.conf.unset(IDLE_PROGRESS)


@pytest.mark.usefixtures("prompt_progress")
def test_a_batch_waits_for_so_many_messages_but_not_for_ever(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    topic = create_topic(broker, "waited")
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 3}
    send(broker, topic, ["first"] * 3)
    patient, hasty = Sink(), Sink()

    waiting = start(
        read_stream(spark, broker, **options, maxTriggerDelay="1h"), f"{checkpoint}-1", patient
    )
    going = start(
        read_stream(spark, broker, **options, maxTriggerDelay="1s"), f"{checkpoint}-2", hasty
    )
    try:
        patient.wait_for(3)
        hasty.wait_for(3)
        send(broker, topic, ["alone"])
        hasty.wait_for(4)
        # The one that waits knows of the message: its progress shows the lag.
        wait_for(lambda: behind(waiting) == 1)
        assert patient.batches == [["first"] * 3]
        send(broker, topic, ["alone"] * 2)
        patient.wait_for(6)
    finally:
        waiting.stop()
        going.stop()

    assert patient.batches == [["first"] * 3, ["alone"] * 3]


def behind(query: StreamingQuery) -> int:
    """How far a query is behind, by what Spark shows of its only queue."""
    progress = query.lastProgress
    assert progress is not None
    [source] = progress["sources"]

    def stop(name: str) -> int:
        [offset] = StreamOffset.from_json(json.loads(source[name])).stops.values()
        return offset

    return stop("latestOffset") - stop("endOffset")


def test_a_batch_with_properties_as_stored_from_a_time_in_a_namespace(
    spark: SparkSession, own_broker: EmbeddedBroker
) -> None:
    topic = create_topic(own_broker, "ns%timed", 2)
    for number in range(3):
        for queue_id in range(2):
            body = f"{queue_id}-{number}"
            send(own_broker, topic, [body], queue_id=queue_id, properties={"number": str(number)})
        own_broker.advance(3600)
    with Admin(namesrv=own_broker.namesrv) as admin:
        times = {
            m.body.decode(): m.store_ms
            for located in admin.locate_spans(topic)
            for m in admin.read(located)
        }
    options = {"namespace": "ns", "subscribe": "timed", "startingTimestamp": times["0-1"]}

    frame = read(spark, own_broker, **options, properties="raw", maxRecordsPerPartition=1)
    nothing = read(spark, own_broker, **options, endingTimestamp=times["0-1"])

    rows = frame.collect()
    assert {row.topic for row in rows} == {"timed"}
    assert sorted(bytes(row.body).decode() for row in rows) == ["0-1", "0-2", "1-1", "1-2"]
    assert frame.rdd.getNumPartitions() == 4
    for row in rows:
        found = parse_properties(bytes(row.properties))
        assert found["number"] == bytes(row.body).decode()[-1]
    assert bodies(nothing) == []
