"""``spark.read`` gives what a topic holds, and of it what the options say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from support.spark.support import bodies, create_topic, forget_old, forgetful, read, send

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def orders(broker: EmbeddedBroker) -> str:
    """Three queues; 0 and 1 have five messages each, with every other one tagged."""
    create_topic(broker, "orders", 3)
    for queue_id in range(2):
        for number in range(5):
            tags = "odd" if number % 2 else "even"
            send(
                broker,
                "orders",
                [f"{queue_id}-{number}"],
                queue_id=queue_id,
                tags=tags,
                keys=[f"k{number}", "all"],
                properties={"number": str(number)},
            )
    return "orders"


@pytest.fixture(params=["true", "false"], ids=["pushed", "not pushed"])
def pushing(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[bool]:
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, request.param)
    yield request.param == "true"
    spark.conf.set(PUSHDOWN, before or "false")


def test_reads_a_whole_topic_with_all_its_columns(
    spark: SparkSession, broker: EmbeddedBroker, orders: str
) -> None:
    frame = read(spark, broker, subscribe=orders, properties="map")

    rows = sorted(frame.collect(), key=lambda row: (row.queue_id, row.queue_offset))

    assert [bytes(row.body).decode() for row in rows] == [
        f"{q}-{n}" for q in (0, 1) for n in range(5)
    ]
    row = rows[6]
    assert (row.topic, row.broker, row.queue_id, row.queue_offset) == ("orders", "broker-a", 1, 1)
    assert (row.tags, row["keys"], row.flag, row.reconsume_times) == ("odd", ["k1", "all"], 0, 0)
    assert len(row.message_id) == 32
    assert row.properties["number"] == "1"
    age = datetime.now(UTC) - row.store_time.replace(tzinfo=UTC)
    assert abs(age.total_seconds()) < 600


def test_reads_between_offsets_and_filters_at_the_broker(
    spark: SparkSession, broker: EmbeddedBroker, orders: str
) -> None:
    def places(first: int, second: int, third: int) -> str:
        return json.dumps({"orders": {"broker-a": {"0": first, "1": second, "2": third}}})

    some = read(
        spark,
        broker,
        subscribe=orders,
        startingOffsets=places(1, -2, -1),
        endingOffsets=places(3, -1, -1),
        columns="body",
        minPartitions=4,
    )
    odd = read(spark, broker, subscribe=orders, tags="odd", columns="queue_offset,body")
    by_sql = read(spark, broker, assign='{"orders": [1]}', sql="number >= 3", columns="body")

    assert bodies(some) == ["0-1", "0-2", "1-0", "1-1", "1-2", "1-3", "1-4"]
    assert some.rdd.getNumPartitions() == 4
    assert bodies(odd) == ["0-1", "0-3", "1-1", "1-3"]
    assert bodies(by_sql) == ["1-3", "1-4"]


def test_reads_between_times(spark: SparkSession, own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "timed")
    for number in range(4):
        send(own_broker, "timed", [str(number)])
        own_broker.advance(3600)
    with Admin(namesrv=own_broker.namesrv) as admin:
        [located] = admin.locate_spans("timed")
        times = [message.store_ms for message in admin.read(located)]

    frame = read(
        spark,
        own_broker,
        subscribe="timed",
        startingTimestamp=times[1],
        endingTimestamp=times[3],
    )

    assert bodies(frame) == ["1", "2"]


def test_nothing_to_read_gives_no_rows(spark: SparkSession, broker: EmbeddedBroker) -> None:
    create_topic(broker, "empty", 2)

    assert read(spark, broker, subscribe="empty").count() == 0
    assert read(spark, broker, subscribe="empty", startingOffsets="latest").collect() == []


def test_kafkas_columns(spark: SparkSession, broker: EmbeddedBroker, orders: str) -> None:
    frame = read(spark, broker, subscribe=orders, schema="kafka", includeHeaders="false")

    rows = frame.selectExpr("CAST(value AS STRING) v", "partition", "offset", "topic").collect()

    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip
    assert ("1-4", 1, 4, "orders") in [tuple(row) for row in rows]


def test_deleted_messages_are_an_error_or_are_skipped(spark: SparkSession) -> None:
    start = json.dumps({"fading": {"broker-a": {"0": 0}}})
    with forgetful() as servers:
        create_topic(servers, "fading")
        send(servers, "fading", ["x" * 100] * 200, batch=10)
        forget_old(servers)
        options = {"subscribe": "fading", "startingOffsets": start, "columns": "queue_offset"}

        with pytest.raises(PySparkException, match="are lost"):
            read(spark, servers, **options).count()
        left = read(spark, servers, failOnDataLoss="false", **options)

        first = left.agg(f.min("queue_offset")).collect()[0][0]
        assert 0 < first < 200
        assert left.count() == 200 - first


def test_reads_a_store_directory_without_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as servers:
        create_topic(servers, "kept", 2)
        send(servers, "kept", ["a", "b"], queue_id=0)
        send(servers, "kept", ["c"], queue_id=1, tags="t")

    reader = spark.read.format("rocketmq").option("store", str(tmp_path))

    assert bodies(reader.option("subscribe", "kept").load()) == ["a", "b", "c"]
    assert bodies(reader.option("subscribe", "kept").option("tags", "t").load()) == ["c"]


def test_an_unknown_option_names_the_nearest(spark: SparkSession, broker: EmbeddedBroker) -> None:
    with pytest.raises(PySparkException, match="startingOffsets"):
        read(spark, broker, subscribe="orders", startingOffset="earliest")


def test_a_schema_of_the_users_own_is_refused(
    spark: SparkSession, broker: EmbeddedBroker, orders: str
) -> None:
    reader = spark.read.format("rocketmq").schema("a int").option("namesrv", broker.namesrv)

    with pytest.raises(PySparkException, match="choose by the options columns"):
        reader.option("subscribe", orders).load().collect()


def test_conditions_give_the_same_rows_pushed_or_not(
    spark: SparkSession, broker: EmbeddedBroker, orders: str, pushing: bool
) -> None:
    frame = read(spark, broker, subscribe=orders, maxRecordsPerPartition=5)

    chosen = frame.where("topic = 'orders' AND queue_id IN (1, 2) AND queue_offset >= 2")
    none = frame.where("store_time < TIMESTAMP '2001-01-01 00:00:00'")
    mixed = frame.where("queue_offset < 2 AND tags = 'odd' AND store_time > TIMESTAMP '2001-01-01'")

    assert bodies(chosen) == ["1-2", "1-3", "1-4"]
    assert none.count() == 0
    assert bodies(mixed) == ["0-1", "1-1"]
    assert chosen.rdd.getNumPartitions() == (1 if pushing else 2)


def test_the_source_is_found_without_being_registered(
    spark: SparkSession, broker: EmbeddedBroker, orders: str
) -> None:
    made = spark.sql(
        "CREATE TEMPORARY VIEW found USING rocketmq "
        f"OPTIONS (namesrv '{broker.namesrv}', subscribe 'orders', columns 'body')"
    )

    assert made.count() == 0
    assert spark.table("found").count() == 10
