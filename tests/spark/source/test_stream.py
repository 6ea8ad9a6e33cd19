"""``spark.readStream`` reads every message once, stops and goes on where it was, and shows lag."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from support.spark.support import (
    Sink,
    create_topic,
    forget_old,
    forgetful,
    lag,
    read_stream,
    run_until_now,
    send,
    start,
)


def test_until_now_then_again_from_the_checkpoint(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    create_topic(broker, "resumed", 2)
    send(broker, "resumed", [f"a{n}" for n in range(6)], queue_id=0)
    send(broker, "resumed", ["b0"], queue_id=1)
    frame = read_stream(
        spark,
        broker,
        subscribe="resumed",
        startingOffsets="earliest",
        consumerGroup="resumers",
        maxOffsetsPerTrigger=3,
    )

    first = run_until_now(frame, checkpoint)
    behind = lag(broker, "resumers")
    send(broker, "resumed", ["late"], queue_id=1)
    second = run_until_now(frame, checkpoint)

    assert first.rows == ["a0", "a1", "a2", "a3", "a4", "a5", "b0"]
    assert max(map(len, first.batches)) == 3
    assert behind == 0
    assert second.rows == ["late"]
    assert lag(broker, "resumers") == 0


def test_follows_a_topic_and_shows_its_lag(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    create_topic(broker, "followed")
    send(broker, "followed", ["before"])
    frame = read_stream(spark, broker, subscribe="followed", consumerGroup="followers")
    sink = Sink()

    query = start(frame, checkpoint, sink)
    try:
        query.processAllAvailable()
        send(broker, "followed", ["one"])
        sink.wait_for(1)
        with Admin(namesrv=broker.namesrv) as admin:
            admin.update_topic("followed", read_queues=2, write_queues=2)
        send(broker, "followed", ["two"], queue_id=1)
        sink.wait_for(2)
        query.processAllAvailable()
        progress = query.lastProgress
    finally:
        query.stop()

    assert sink.rows == ["one", "two"]
    assert lag(broker, "followers") == 0
    assert progress is not None
    assert '"to": 2' in progress["sources"][0]["latestOffset"]


def test_a_filter_leaves_out_what_it_does_not_want(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    create_topic(broker, "tagged")
    for number in range(6):
        send(broker, "tagged", [str(number)], tags="even" if number % 2 == 0 else "odd")
    frame = read_stream(
        spark,
        broker,
        subscribe="tagged",
        tags="odd",
        startingOffsets="earliest",
        consumerGroup="taggers",
        columns="queue_offset,body",
    )

    assert run_until_now(frame, checkpoint).rows == ["1", "3", "5"]
    assert lag(broker, "taggers") == 0


def test_messages_that_are_gone_fail_the_query_or_are_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    with forgetful() as servers:
        create_topic(servers, "fading")
        send(servers, "fading", ["first"])
        options = {"subscribe": "fading", "startingOffsets": "earliest"}
        frame = read_stream(spark, servers, **options)
        checkpoint = str(tmp_path / "checkpoint")
        assert run_until_now(frame, checkpoint).rows == ["first"]
        send(servers, "fading", ["x" * 100] * 200, batch=10)
        forget_old(servers)

        with pytest.raises(StreamingQueryException, match="are lost"):
            run_until_now(frame, checkpoint)
        lenient = read_stream(spark, servers, failOnDataLoss="false", **options)
        rows = run_until_now(lenient, checkpoint).rows

    assert 0 < len(rows) < 200
