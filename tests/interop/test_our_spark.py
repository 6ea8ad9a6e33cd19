"""Source, sink and listeners on Spark do the same on every broker, and Java agrees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import flintmq.spark
from flintmq import App, Message, Producer, QueueRef
from flintmq.net.clock import wall_ms
from flintmq.spark.sink.row_identity import ROW_PROPERTY
from support.client.support import stored
from support.interop.beside import CALL_MS, Java
from support.interop.cluster import Cluster, route, running_cluster
from support.interop.filled import (
    SEND_MS,
    filled,
    new_topic,
    numbered,
    patiently,
    send_to,
    stands_at,
)
from support.interop.javaclient import NEW, OLD, JavaClient, MqAdmin
from support.interop.ours import Kind, Served, chosen_kind
from support.spark.support import (
    PATIENCE_S,
    bodies,
    create_topic,
    lag,
    read,
    read_stream,
    run_until_now,
    session,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

QUEUES = 4


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def mqadmin_beside(
    java: None, each: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MqAdmin]:
    """The tools of the release that belongs to the broker."""
    release = OLD if each.kind is Kind.REAL_4_9 else NEW
    with MqAdmin(release, each.namesrv, tmp_path_factory.mktemp("mqadmin")) as up:
        yield up


def texts(count: int, start: int = 0) -> list[str]:
    return [body.decode() for body in numbered(count, start)]


def app_of(namesrv: str, name: str, **settings: Any) -> App:
    given = {"start_from": "first", "call_timeout_ms": CALL_MS, **settings}
    return App(name, namesrv=namesrv, **given)


def test_a_topic_is_a_table_and_the_broker_filters_it(spark: SparkSession, each: Served) -> None:
    topic = "spark-table"
    queues = new_topic(each, topic, QUEUES)
    messages = [
        Message(
            topic,
            body,
            tags="odd" if number % 2 else "even",
            keys=[f"k{number}"],
            properties={"number": str(number)},
        )
        for number, body in enumerate(numbered(40))
    ]
    send_to(each, messages, queues)

    rows = read(spark, each, subscribe=topic, properties="map").collect()
    odd = read(spark, each, subscribe=topic, tags="odd || none", columns="body")
    some = read(spark, each, subscribe=topic, sql="number BETWEEN 10 AND 19 AND TAGS = 'even'")

    assert {(row.queue_id, row.queue_offset, bytes(row.body)) for row in rows} == {
        (number % QUEUES, number // QUEUES, body) for number, body in enumerate(numbered(40))
    }
    found = {row.message_id: row for row in rows}
    for message in stored(each, topic):
        row = found.pop(message.message_id)
        assert bytes(row.body) == message.body
        assert (row.tags, row["keys"]) == (message.tags, list(message.keys))
        assert row.properties["number"] == message.properties["number"]
        assert round(row.store_time.timestamp() * 1000) == message.store_ms
        assert round(row.born_time.timestamp() * 1000) == message.born_ms
    assert not found
    assert bodies(odd) == texts(40)[1::2]
    assert bodies(some) == texts(10, 10)[::2]


def is_past(time_ms: int) -> bool:
    return wall_ms() > time_ms


def test_a_range_of_times_is_exact(spark: SparkSession, each: Served) -> None:
    """4.9 answers with an earlier message when asked for a time between two."""
    topic = "spark-timed"
    (queue,) = new_topic(each, topic, 1)
    with Producer("timers", namesrv=each.namesrv) as producer:
        for start in range(0, 15, 3):
            batch = [Message(topic, body) for body in numbered(3, start)]
            producer.send_batch(batch, queue=queue, timeout_ms=SEND_MS)
            later_ms = wall_ms() + 20
            patiently(partial(is_past, later_ms))
    messages = stored(each, topic)
    first_ms, middle_ms, last_ms = (messages[n].store_ms for n in (0, 7, -1))

    ranges = [
        (middle_ms, last_ms),
        (middle_ms + 1, last_ms + 1),
        (first_ms - 5_000, middle_ms - 1),
        (first_ms + 1, first_ms + 2),
        (last_ms, last_ms + 5_000),
    ]
    for start_ms, end_ms in ranges:
        frame = read(
            spark, each, subscribe=topic, startingTimestamp=start_ms, endingTimestamp=end_ms
        )
        within = [m.body.decode() for m in messages if start_ms <= m.store_ms < end_ms]
        assert bodies(frame) == within, (start_ms - first_ms, end_ms - first_ms)


def test_a_stream_goes_on_from_its_checkpoint_and_mqadmin_sees_no_lag(
    spark: SparkSession, each: Served, mqadmin_beside: MqAdmin, tmp_path: Path
) -> None:
    topic, group, checkpoint = "spark-stream", "spark-streamers", str(tmp_path / "checkpoint")
    queues = filled(each, topic, numbered(50), QUEUES)
    frame = read_stream(
        spark,
        each,
        subscribe=topic,
        startingOffsets="earliest",
        consumerGroup=group,
        maxOffsetsPerTrigger=20,
    )

    first = run_until_now(frame, checkpoint)
    told = mqadmin_beside("consumerProgress", "-g", group)
    send_to(each, [Message(topic, body) for body in numbered(10, 50)], queues)
    behind = lag(each, group)
    second = run_until_now(frame, checkpoint)
    at_last = mqadmin_beside("consumerProgress", "-g", group)

    assert first.rows == texts(50)
    assert [len(batch) for batch in first.batches] == [20, 20, 10]
    assert behind == 10
    assert second.rows == texts(10, 50)
    for printed, count in ((told, 50), (at_last, 60)):
        rows = [line.split() for line in printed.splitlines() if line.startswith(topic)]
        assert sum(int(row[4]) for row in rows) == count
        assert re.search(r"Diff Total: 0\b", printed)
    assert lag(each, group) == 0


def test_a_stream_behind_a_filter_has_no_lag_either(
    spark: SparkSession, each: Served, tmp_path: Path
) -> None:
    topic = "spark-sparse"
    queues = new_topic(each, topic, 2)
    tagged = [Message(topic, b, tags="a" if n == 7 else "b") for n, b in enumerate(numbered(60))]
    send_to(each, tagged, queues)

    for number, wanted in enumerate(({"tags": "a"}, {"sql": "TAGS IS NOT NULL AND TAGS <> 'b'"})):
        group = f"spark-sparse-{number}"
        frame = read_stream(
            spark,
            each,
            subscribe=topic,
            startingOffsets="earliest",
            consumerGroup=group,
            **wanted,
        )
        assert run_until_now(frame, str(tmp_path / group)).rows == ["0007"]
        assert lag(each, group) == 0


def test_a_java_consumer_reads_what_the_sink_wrote(
    spark: SparkSession, each: Served, java_client: JavaClient, tmp_path: Path
) -> None:
    prefix = "spark_sunk_"
    topic, source = f"{prefix}t", "spark-sunk"
    new_topic(each, topic, QUEUES)
    filled(each, source, numbered(30, 100), 2)
    rows = spark.range(100, numPartitions=2).selectExpr(
        "lpad(id, 4, '0') AS body",
        "if(id % 2 = 0, 'even', 'odd') AS tags",
        "array(concat('k', id)) AS keys",
        "map('n', string(id)) AS properties",
    )
    rows.write.format("rocketmq").mode("append").options(namesrv=each.namesrv, topic=topic).save()
    stream = read_stream(spark, each, subscribe=source, startingOffsets="earliest")
    query = (
        stream.select("body", f.lit("stream").alias("tags"))
        .writeStream.format("rocketmq")
        .options(namesrv=each.namesrv, topic=topic, checkpointLocation=str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(PATIENCE_S))

    java = Java(java_client, prefix)
    java.play("join")
    patiently(lambda: len(java.seen()) >= 130)
    seen = java.play("leave").all("seen")

    assert sorted(event["body"] for event in seen) == texts(130)
    identities = {event["properties"][ROW_PROPERTY] for event in seen}
    assert len(identities) == 130
    for event in seen:
        number, found = int(event["body"]), event["properties"]
        if number >= 100:
            assert found["TAGS"] == "stream"
            continue
        assert (found["TAGS"], found["KEYS"], found["n"]) == (
            "odd" if number % 2 else "even",
            f"k{number}",
            str(number),
        )


def test_listeners_retry_and_give_up_as_they_do_on_threads(
    spark: SparkSession, each: Served, tmp_path: Path
) -> None:
    topic = group = "spark-failing"
    filled(each, topic, numbered(20), QUEUES)
    app, diary = app_of(each.namesrv, group, retry_max=2), str(tmp_path / "diary")

    @app.listener(topic)
    def judge(messages: Any) -> None:
        for message in messages:
            with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
                file.write(f"{message.body.decode()} {message.reconsume_times} {message.topic}\n")
            if message.body == b"0007" or (message.body == b"0008" and not message.reconsume_times):
                raise ValueError("bad as ever")

    rows: list[Any] = []
    sink = lambda frame, _: rows.extend(frame.collect())  # noqa: E731
    with flintmq.spark.run(app, spark, sink=sink) as run:
        patiently(lambda: len(rows) >= 23 or not run.query.isActive)
        patiently(lambda: stored(each, f"%DLQ%{group}"))

    told = Counter(Path(diary).read_text().splitlines())
    wanted = [(body, 0) for body in texts(20)] + [("0007", 1), ("0007", 2), ("0008", 1)]
    assert told == {f"{body} {times} {topic}": 1 for body, times in wanted}
    assert Counter(row.outcome for row in rows) == {"consumed": 19, "sent back": 3, "dead": 1}
    (dead,) = stored(each, f"%DLQ%{group}")
    assert (dead.body, dead.reconsume_times) == (b"0007", 3)
    (first,) = [message for message in stored(each, topic) if message.body == b"0007"]
    assert dead.properties["ORIGIN_MESSAGE_ID"] == first.offset_message_id
    assert dead.properties["RETRY_TOPIC"] == topic
    assert lag(each, group) == 0


def test_popped_messages_are_a_work_queue(spark: SparkSession, each: Served) -> None:
    """Acknowledged after their micro-batch; one that fails comes again, and is given up then."""
    if each.kind is Kind.REAL_4_9:
        pytest.skip("brokers before 5.0 have no pop consumption")
    topic = group = "spark-popped"
    filled(each, topic, numbered(60), QUEUES)
    app = app_of(each.namesrv, group, mode="pop", retry_max=1, invisible_ms=30_000)

    @app.listener(topic)
    def judge(messages: Any) -> None:
        if messages[0].body == b"0007":
            raise ValueError("bad as ever")

    rows: list[Any] = []
    sink = lambda frame, _: rows.extend(frame.collect())  # noqa: E731
    with flintmq.spark.run(app, spark, sink=sink, messages_max=20) as run:
        patiently(lambda: len(rows) >= 61 or not run.query.isActive)
        patiently(lambda: stored(each, f"%DLQ%{group}"))
    assert Counter(row.outcome for row in rows) == {"consumed": 59, "sent back": 1, "dead": 1}
    (dead,) = stored(each, f"%DLQ%{group}")
    assert dead.body == b"0007"

    again = flintmq.spark.run(app, spark, sink=sink, available_now=True)
    assert again.await_termination(PATIENCE_S)
    assert len(rows) == 61, "what was acknowledged does not come again"


def test_listeners_keep_the_order_of_queues_while_one_message_fails(
    spark: SparkSession, each: Served, tmp_path: Path
) -> None:
    topic = group = "spark-ordered"
    filled(each, topic, numbered(40), QUEUES)
    app, diary = (
        app_of(each.namesrv, group, ordered=True, ordered_suspend_ms=50),
        str(tmp_path / "diary"),
    )

    @app.listener(topic)
    def note(messages: Any) -> None:
        (message,) = messages
        with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
            file.write(f"{message.queue_id} {message.queue_offset}\n")
        if message.body == b"0009" and message.reconsume_times < 2:
            raise ValueError("not yet")

    run = flintmq.spark.run(app, spark, available_now=True)
    assert run.await_termination(PATIENCE_S)

    told = [tuple(map(int, line.split())) for line in Path(diary).read_text().splitlines()]
    expected = {queue: list(range(10)) for queue in range(QUEUES)}
    expected[1][2:3] = [2, 2, 2]
    assert {q: [at for queue, at in told if queue == q] for q in range(QUEUES)} == expected
    assert [stands_at(each, group, topic, number) for number in range(QUEUES)] == [10] * QUEUES


# Two brokers in one cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as up:
        yield up


@pytest.mark.skipif(chosen_kind() is not Kind.OURS, reason="it starts processes of ours")
def test_two_brokers_are_one_source_one_sink_and_one_group(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """One of them ends and comes back while a stream runs; nothing is lost, nothing comes twice."""
    topic = create_topic(cluster, "both", 2)
    copied = create_topic(cluster, "copied", 2)
    spread(cluster, topic, 0)
    frame = read_stream(
        spark, cluster, subscribe=topic, startingOffsets="earliest", consumerGroup="both-readers"
    )
    query = (
        frame.select("body", f.concat_ws("-", "broker", "queue_id").alias("tags"))
        .writeStream.format("rocketmq")
        .options(namesrv=cluster.namesrv, topic=copied, checkpointLocation=str(tmp_path / "c"))
        .start()
    )
    try:
        patiently(lambda: len(stored(cluster, copied)) == 40)
        query.processAllAvailable()  # its answers have come: no row needs to be sent again
        cluster.brokers["broker-b"].kill()
        cluster.brokers["broker-b"].start()
        both = {name: broker.address for name, broker in cluster.brokers.items()}
        patiently(lambda: all(route(s.address, copied) == both for s in cluster.name_servers))
        spread(cluster, topic, 40)
        patiently(lambda: len(stored(cluster, copied)) == 80 or not query.isActive)
        query.processAllAvailable()
    finally:
        query.stop()
    found = stored(cluster, copied)
    app, diary = app_of(cluster.namesrv, "both-listeners"), str(tmp_path / "diary")

    @app.listener(copied)
    def note(messages: Any) -> None:
        for message in messages:
            with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
                file.write(f"{message.broker} {message.body.decode()}\n")

    run = flintmq.spark.run(app, spark, available_now=True)
    assert run.await_termination(PATIENCE_S)

    assert sorted(message.body.decode() for message in found) == texts(80)
    assert {message.tags for message in found} == {
        f"{broker}-{number}" for broker in cluster.brokers for number in range(2)
    }
    told = [line.split() for line in Path(diary).read_text().splitlines()]
    assert sorted(body for _, body in told) == texts(80)
    assert {broker for broker, _ in told} == set(cluster.brokers)
    assert lag(cluster, "both-readers") == 0
    assert lag(cluster, "both-listeners") == 0


def spread(cluster: Cluster, topic: str, start: int) -> None:
    """Forty messages, ten to each queue of each broker."""
    queues = [QueueRef(topic, broker, number) for broker in cluster.brokers for number in range(2)]
    with Producer("spreaders", namesrv=cluster.namesrv) as producer:
        for number, body in enumerate(numbered(40, start)):
            queue = queues[number % len(queues)]
            producer.send(Message(topic, body), queue=queue, timeout_ms=SEND_MS)
