"""Spark reads a store directory as it reads a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import flintmq.spark
from flintmq.embedded.broker import EmbeddedBroker
from support.spark.support import create_topic, read, run_until_now, send, write_held
from support.store.real_stores import PLAIN, manifest, unpack_store


@pytest.fixture(autouse=True, scope="module")
def _format(spark: SparkSession) -> None:
    flintmq.spark.register(spark)


@pytest.mark.parametrize("name", PLAIN)
def test_a_store_of_a_real_broker_is_a_table(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    directory = unpack_store(name, tmp_path)
    reader = spark.read.format("rocketmq").option("store", str(directory))

    frame = reader.option("subscribe", "orders").option("minPartitions", 7).load()

    rows = {(row.broker, row.queue_id, row.queue_offset, row.tags) for row in frame.collect()}
    assert rows == {
        ("broker-a", m["queueId"], m["queueOffset"], m["properties"].get("TAGS"))
        for m in manifest(name)["messages"]
        if m["topic"] == "orders"
    }


def test_a_directory_that_a_broker_has_open_gives_what_the_broker_gives(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topic = create_topic(broker, "both", 2)
    for queue_id in range(2):
        send(broker, topic, [f"{queue_id}-{n}" for n in range(50)], queue_id=queue_id, tags="a")
        send(broker, topic, ["x"] * 5, queue_id=queue_id, tags="b")
    write_held(broker)
    options = {"subscribe": topic, "tags": "a", "properties": "raw"}

    reader = spark.read.format("rocketmq").option("store", str(broker.directory))
    from_files = reader.options(**options).load().drop("broker").collect()

    from_broker = read(spark, broker, **options).drop("broker").collect()
    assert len(from_files) == 100
    assert sorted(from_files) == sorted(from_broker)


def test_a_stream_follows_a_directory(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    topic = create_topic(broker, "followed")
    reader = spark.readStream.format("rocketmq").option("store", str(broker.directory))
    send(broker, topic, ["a", "b"])
    write_held(broker)
    frame = reader.options(subscribe=topic, startingOffsets="earliest").load()
    sink = run_until_now(frame, checkpoint)
    send(broker, topic, ["c"])
    write_held(broker)

    run_until_now(frame, checkpoint, sink)

    assert sink.rows == ["a", "b", "c"]
