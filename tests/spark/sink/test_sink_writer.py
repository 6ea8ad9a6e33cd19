"""Frames and streams end in topics, each row at least once and under a name that never changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import flintmq.spark
from flintmq.broker.requests.hooks import BrokerSend
from flintmq.broker.requests.outcome import Refusal
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.codes import ResponseCode
from flintmq.spark.environment.query_start import start_query
from flintmq.spark.sink.drop_repeats import drop_repeats
from flintmq.spark.sink.row_identity import ROW_PROPERTY, RowIdentity, parse_identity
from flintmq.spark.sink.sink_writer import Sent, stream_writer
from support.spark.support import BROKER, PATIENCE_S, create_topic, read, read_stream, send


@pytest.fixture(autouse=True, scope="module")
def _format(spark: SparkSession) -> None:
    flintmq.spark.register(spark)


def write(frame: DataFrame, servers: EmbeddedBroker, **options: Any) -> None:
    writer = frame.write.format("rocketmq").mode("append").option("namesrv", servers.namesrv)
    writer.options(**options).save()


def write_until_now(
    frame: DataFrame, servers: EmbeddedBroker, checkpoint: str, **options: Any
) -> str:
    """Write all there is; the id of the query."""
    writer = frame.writeStream.format("rocketmq").option("namesrv", servers.namesrv)
    writer = writer.options(checkpointLocation=checkpoint, **options)
    query = start_query(writer.trigger(availableNow=True))
    try:
        assert query.awaitTermination(int(PATIENCE_S)), "the query did not end"
    finally:
        query.stop()
    return str(query.id)


def identities(messages: list[ReceivedMessage]) -> list[RowIdentity]:
    found = [parse_identity(message.properties[ROW_PROPERTY]) for message in messages]
    assert None not in found
    return [identity for identity in found if identity is not None]


def texts(messages: list[ReceivedMessage]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def test_a_frame_is_stored_with_all_its_columns(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topic = create_topic(broker, "frame", 4)
    frame = spark.range(100, numPartitions=2).selectExpr(
        "concat('row-', id) as body",
        "if(id % 2 = 0, 'even', null) as tags",
        "array(concat('k-', id)) as keys",
        "map('n', cast(id as string)) as properties",
        "cast(id % 4 as int) as queue_id",
        "0 as delay_level",
    )

    write(frame, broker, topic=topic)

    messages = broker.messages(topic)
    assert texts(messages) == sorted(f"row-{n}" for n in range(100))
    for message in messages:
        number = int(message.properties["n"])
        assert message.body.decode() == f"row-{number}"
        assert message.keys == (f"k-{number}",)
        assert message.tags == ("even" if number % 2 == 0 else None)
        assert message.queue_id == number % 4
    rows = identities(messages)
    assert len({row.write for row in rows}) == 1
    assert sorted((row.batch, row.partition, row.row) for row in rows) == [
        (0, partition, row) for partition in range(2) for row in range(50)
    ]


def test_rows_say_their_own_topic_and_empty_partitions_send_nothing(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    create_topic(broker, "odd"), create_topic(broker, "even")
    frame = spark.range(10, numPartitions=4).where("id < 4")

    write(
        frame.selectExpr(
            "if(id % 2 = 0, 'even', 'odd') as topic", "cast(cast(id as string) as binary) as value"
        ),
        broker,
    )

    assert (len(broker.messages("even")), len(broker.messages("odd"))) == (2, 2)


def test_a_write_under_the_same_run_id_repeats_and_another_does_not(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topic = create_topic(broker, "runs", 4)
    frame = spark.range(6, numPartitions=2).selectExpr("cast(id as string) as body")

    for run in ("night-1", "night-1", "night-2"):
        write(frame, broker, topic=topic, runId=run)

    messages = broker.messages(topic)
    counted = Counter(map(str, identities(messages)))
    queues = {(message.properties[ROW_PROPERTY], message.queue_id) for message in messages}
    assert len(queues) == 12, "a row that is sent again goes to the queue where it is already"
    assert {queue for _, queue in queues} > {queue for name, queue in queues if "-1" in name}
    assert sorted(counted.values()) == [1] * 6 + [2] * 6
    assert {name for name, times in counted.items() if times == 2} == {
        f"night-1.0.{partition}.{row}" for partition in range(2) for row in range(3)
    }


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("id as body", {"topic": "t"}, "column body 'bigint': must be binary or string"),
        ("'x' as body, id as prize", {"topic": "t"}, "column prize .* no use for it"),
        ("'x' as body", {}, "give the option topic, or a column topic"),
        ("'x' as body", {"topik": "t"}, "the sink has no such option: did you mean topic"),
    ],
)
def test_a_frame_that_cannot_be_sent_is_refused_before_any_task_runs(
    spark: SparkSession, broker: EmbeddedBroker, columns: str, options: dict[str, str], said: str
) -> None:
    frame = spark.range(1).selectExpr(*columns.split(", "))

    with pytest.raises(AnalysisException) as caught:
        write(frame, broker, **options)

    assert re.search(said, str(caught.value))


def test_a_topic_cannot_be_overwritten(spark: SparkSession, broker: EmbeddedBroker) -> None:
    writer = spark.range(1).selectExpr("'x' as body").write.format("rocketmq")

    with pytest.raises(AnalysisException, match="can only be appended to"):
        writer.mode("overwrite").options(namesrv=broker.namesrv, topic="t").save()


def test_a_row_that_cannot_be_sent_fails_the_write_and_says_which(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topic = create_topic(broker, "bad-row")
    frame = spark.range(10, numPartitions=1).selectExpr("if(id = 7, null, 'x') as body")

    with pytest.raises(PySparkException) as caught:
        write(frame, broker, topic=topic, runId="bad")

    assert "row 'bad.0.0.7': its body is null" in str(caught.value)
    assert "badRows=skip leaves such rows out" in str(caught.value)


def test_a_stream_goes_on_without_rows_that_make_no_message_and_counts_them(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    source, target = create_topic(broker, "with-nulls"), create_topic(broker, "without-nulls")
    send(broker, source, [f"{number}" for number in range(10)])
    frame = read_stream(spark, broker, subscribe=source, startingOffsets="earliest")
    halves = frame.selectExpr("if(queue_offset % 2 = 0, null, body) as body")

    with pytest.raises(PySparkException, match="its body is null"):
        write_until_now(halves, broker, checkpoint, topic=target)
    write_until_now(halves, broker, checkpoint, topic=target, badRows="skip")

    assert texts(broker.messages(target)) == ["1", "3", "5", "7", "9"]


def test_the_end_of_a_batch_says_how_many_rows_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = {"namesrv": "127.0.0.1:9876", "topic": "t", "badRows": "skip"}
    schema = StructType([StructField("body", StringType())])
    sent = [Sent(0, 5, 5, 1, 2, "q.3.0.1: its body is null"), Sent(1, 7, 7, 1)]

    stream_writer(options, schema, False).commit([*sent, None], 3)

    assert "batch 3: 2 rows are not sent; the first is q.3.0.1: its body is null" in caplog.text


@pytest.mark.parametrize("kind", ["topic", "directory"])
def test_rows_that_make_no_message_go_to_quarantine_with_the_reason(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: str
) -> None:
    topic, aside = create_topic(broker, f"sifted-{kind}"), create_topic(broker, f"aside-{kind}")
    place = f"topic:{aside}" if kind == "topic" else str(tmp_path / "aside")
    frame = spark.range(6, numPartitions=1).selectExpr(
        "case id when 1 then null when 2 then repeat('x', 200) else cast(id as string) end as body",
        "if(id = 3, map('k', repeat('v', 40000)), map()) as properties",
        "'t' as tags",
    )

    for _ in range(2):
        write(
            *(frame, broker),
            topic=topic,
            runId="r",
            maxMessageBytes=100,
            badRows="quarantine",
            quarantine=place,
        )

    assert texts(broker.messages(topic)) == ["0", "0", "4", "4", "5", "5"]
    if kind == "topic":
        messages = broker.messages(aside)
        assert len(messages) == 6, "a topic has what is written again once more"
        lines = [json.loads(message.body) for message in messages[:3]]
        assert [message.properties["BAD_ROW"] for message in messages[:3]] == [
            line["reason"] for line in lines
        ]
        assert len(lines[2]["columns"]["properties"][0][1]) == 40_000
    else:
        (file,) = (tmp_path / "aside").iterdir()
        assert file.name == "r.0.0.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["row"] for line in lines] == [f"r.0.0.{n}" for n in (1, 2, 3)]
    assert [line["reason"].split(" ")[:4] for line in lines] == [
        ["its", "body", "is", "null"],
        ["its", "body", "has", "200"],
        ["its", "properties", "have", "40017"],
    ]
    assert lines[1]["columns"] == {"body": "x" * 200, "properties": [], "tags": "t"}


def test_a_quarantine_needs_its_place() -> None:
    access = {"namesrv": "127.0.0.1:9876", "topic": "t"}
    schema = StructType([StructField("body", StringType())])

    for given in ({"badRows": "quarantine"}, {"quarantine": "d"}, {"quarantine": "topic:a b"}):
        with pytest.raises(InvalidSetting):
            stream_writer({**access, **given}, schema, False)


def test_what_was_read_can_be_written_as_it_is(spark: SparkSession, broker: EmbeddedBroker) -> None:
    origin, copy = create_topic(broker, "origin", 2), create_topic(broker, "copy", 2)
    send(broker, origin, ["a", "b"], queue_id=1, tags="t", keys=["k"], properties={"p": "1"})

    frame = read(spark, broker, subscribe=origin, properties="map")
    write(frame, broker, topic=copy, dropSystemProperties=True)

    copies = broker.messages(copy)
    assert texts(copies) == ["a", "b"]
    assert {(m.queue_id, m.tags, m.keys, m.properties["p"]) for m in copies} == {
        (1, "t", ("k",), "1")
    }


def test_a_frame_for_kafka_goes_to_a_topic_by_its_options_alone(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topic = create_topic(broker, "kafka-form", 4)
    frame = spark.range(20).selectExpr(
        "cast(concat('key-', id % 3) as binary) as key",
        "cast(id as string) as value",
        "array(named_struct('key', 'h', 'value', cast('v' as binary))) as headers",
    )

    write(frame, broker, topic=topic)

    messages = broker.messages(topic)
    assert texts(messages) == sorted(map(str, range(20)))
    queues = {(message.keys, message.queue_id) for message in messages}
    assert len(queues) == 3  # one for each key
    assert {message.properties["h"] for message in messages} == {"v"}


def test_a_stream_names_its_rows_by_query_batch_and_partition(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    source, target = create_topic(broker, "into", 2), create_topic(broker, "from", 2)
    frame = read_stream(spark, broker, subscribe=source, startingOffsets="earliest")
    for batch in range(2):
        send(broker, source, [f"{batch}-{n}" for n in range(5)], queue_id=batch)
        query_id = write_until_now(frame.select("body", "tags"), broker, checkpoint, topic=target)

    messages = broker.messages(target)
    assert texts(messages) == [f"{batch}-{n}" for batch in range(2) for n in range(5)]
    for message, identity in zip(messages, identities(messages), strict=True):
        assert identity.write == query_id.replace("-", "")
        assert identity.batch == int(message.body[:1])
        assert identity.row == int(message.body[2:])


def test_a_batch_that_is_run_again_gives_its_rows_the_same_names_and_queues(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str
) -> None:
    """A task fails after it has sent some; then a batch is lost from the list of finished ones."""
    source, target = create_topic(broker, "replayed", 2), create_topic(broker, "repeated", 4)
    for queue_id in range(2):
        send(broker, source, [f"{queue_id}-{n:03}" for n in range(200)], queue_id=queue_id)
    frame = read_stream(spark, broker, subscribe=source, startingOffsets="earliest")
    rows = frame.select("body")
    options = {"topic": target, "batchBytes": "4096"}
    hooks = broker.call(lambda servers: servers.brokers[BROKER].state.hooks.before_send)

    def refuse(sending: BrokerSend) -> None:
        if sending.topic == target and b"1-150" in sending.body:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the disk broke")

    hooks.append(refuse)
    with pytest.raises(PySparkException, match="the disk broke"):
        write_until_now(rows, broker, checkpoint, **options)
    hooks.remove(refuse)
    partly = len(broker.messages(target))
    write_until_now(rows, broker, checkpoint, **options)
    whole = len(broker.messages(target))
    (Path(checkpoint) / "commits" / "0").unlink()
    write_until_now(rows, broker, checkpoint, **options)

    messages = broker.messages(target)
    assert 0 < partly < 400
    assert (whole, len(messages)) == (partly + 400, partly + 800)
    names: dict[bytes, set[tuple[str, int]]] = {}
    for message in messages:
        name = (message.properties[ROW_PROPERTY], message.queue_id)
        names.setdefault(message.body, set()).add(name)
    assert len(names) == 400
    assert {len(found) for found in names.values()} == {1}


@pytest.mark.parametrize("form", ["map", "raw", "kafka"])
def test_repeats_are_dropped_from_a_frame_and_nothing_else_is(
    spark: SparkSession, broker: EmbeddedBroker, form: str
) -> None:
    topic = create_topic(broker, f"doubled-{form}", 2)
    frame = spark.range(20, numPartitions=2).selectExpr("concat('r', id) as body")
    for _ in range(2):
        write(frame, broker, topic=topic, runId="same")
    changed = spark.range(1, numPartitions=1).selectExpr("'changed' as body")
    write(changed, broker, topic=topic, runId="same")
    send(broker, topic, ["plain", "plain"])
    options = {"schema": "kafka"} if form == "kafka" else {"properties": form}

    found = drop_repeats(read(spark, broker, subscribe=topic, **options))

    body = "value" if form == "kafka" else "body"
    bodies = sorted(bytes(row[0]).decode() for row in found.select(body).collect())
    assert bodies == sorted([f"r{n}" for n in range(20)] + ["changed", "plain", "plain"])
    assert not [name for name in found.columns if name.startswith("__")]


def test_repeats_are_dropped_from_a_stream_over_its_restarts(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, clean = create_topic(broker, "doubled"), create_topic(broker, "clean")
    frame = spark.range(10, numPartitions=1).selectExpr("concat('r', id) as body")
    source = read_stream(
        spark, broker, subscribe=topic, startingOffsets="earliest", properties="map"
    )
    for _ in range(2):
        write(frame, broker, topic=topic, runId="same")
        rows = drop_repeats(source, within="1 hour").select("body")
        write_until_now(rows, broker, str(tmp_path / "checkpoint"), topic=clean)

    assert texts(broker.messages(clean)) == [f"r{n}" for n in range(10)]
