"""A record that cannot be decoded stops no reading on Spark, and what becomes of it is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import flintmq.spark
from flintmq.core.admin.dead_letters import ReplayTo
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.protocol.records.record import decode_record
from flintmq.spark import dead_letter_report, lake, plan_replay, topic_report
from support.spark.bad_records import (
    BAD,
    BAD_OFFSETS,
    COUNT,
    GARBAGE,
    GOOD,
    NOT_COPIED,
    WORDS,
    send_mixed,
    send_with_flag,
    spoil,
)
from support.spark.support import (
    PATIENCE_S,
    create_topic,
    lag,
    read,
    read_stream,
    run_until_now,
    wait_for,
    write_held,
)


@pytest.fixture(autouse=True, scope="module")
def _format(spark: SparkSession) -> None:
    flintmq.spark.register(spark)


@pytest.fixture
def mixed(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A topic with one bad record of each kind between good ones."""
    topic = create_topic(broker, request.node.name.split("[")[0][5:60])
    send_mixed(broker, topic)
    return topic


def good_and_bad(frame: DataFrame, body: str = "body") -> tuple[list[str], list[int]]:
    """The bodies there are, and the offsets of the rows that have none."""
    offset = "offset" if body == "value" else "queue_offset"
    rows = frame.select(offset, body).orderBy(offset).collect()
    good = [bytes(row[1]).decode() for row in rows if row[1] is not None]
    return good, [row[0] for row in rows if row[1] is None]


def test_a_batch_reads_past_bad_records_and_has_a_row_without_a_body_for_each(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str
) -> None:
    frame = read(spark, broker, subscribe=mixed)
    kafka = read(spark, broker, subscribe=mixed, schema="kafka")

    assert good_and_bad(frame) == (GOOD, list(BAD_OFFSETS))
    assert good_and_bad(kafka, "value") == (GOOD, list(BAD_OFFSETS))
    assert "bad_record" not in frame.columns + kafka.columns
    row = frame.where("queue_offset = 1").collect()[0]
    assert (row.topic, row.queue_id, row.sys_flag) == (mixed, 0, BAD["zlib"][0])
    assert row.store_time is not None


def test_the_column_bad_record_says_why_and_has_the_bytes(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str
) -> None:
    options: list[dict[str, Any]] = [
        {"includeBadRecord": True},
        {"columns": "queue_offset,bad_record,body"},
        {"includeBadRecord": True, "properties": "map"},
    ]
    for more in options:
        frame = read(spark, broker, subscribe=mixed, **more)

        assert frame.columns[-1] == "bad_record"
        rows = {row.queue_offset: row.bad_record for row in frame.collect()}
        assert {offset for offset, bad in rows.items() if bad is not None} == set(BAD_OFFSETS)
        for offset, kind in BAD_OFFSETS.items():
            assert WORDS[kind] in rows[offset].reason
            record = decode_record(bytes(rows[offset].raw), verify_crc=False)
            assert record.queue_offset == offset
        assert decode_record(bytes(rows[1].raw)).body == GARBAGE
    kafka = read(spark, broker, subscribe=mixed, schema="kafka", includeBadRecord=True)
    assert kafka.where("bad_record.reason IS NOT NULL").count() == len(BAD)


def test_the_user_chooses_to_skip_or_to_stop(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str
) -> None:
    skipped = read(spark, broker, subscribe=mixed, onBadRecord="skip")
    stopped = read(spark, broker, subscribe=mixed, onBadRecord="stop")

    assert good_and_bad(skipped) == (GOOD, [])
    with pytest.raises(PySparkException, match=rf"{mixed}.*1 cannot be decoded: .*zlib"):
        stopped.count()


def test_a_stream_goes_on_behind_bad_records_and_its_group_has_no_lag(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str, checkpoint: str
) -> None:
    options = {"maxOffsetsPerTrigger": 2, "consumerGroup": "bad-streams", "onBadRecord": "skip"}
    frame = read_stream(spark, broker, subscribe=mixed, startingOffsets="earliest", **options)

    sink = run_until_now(frame, checkpoint)
    send_with_flag(broker, mixed, GARBAGE, BAD["zstd"][0])
    send_with_flag(broker, mixed, b"late")
    run_until_now(frame, checkpoint, sink)

    assert sink.rows == [*GOOD, "late"]
    wait_for(lambda: lag(broker, "bad-streams") == 0)


def test_a_stream_with_its_defaults_gives_every_offset_once(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str, checkpoint: str
) -> None:
    frame = read_stream(spark, broker, subscribe=mixed, startingOffsets="earliest")
    named = frame.selectExpr("coalesce(body, cast(concat('bad-', queue_offset) AS binary)) AS body")

    sink = run_until_now(named, checkpoint)
    run_until_now(named, checkpoint, sink)

    assert sink.rows == sorted([*GOOD, *(f"bad-{offset}" for offset in BAD_OFFSETS)])


def test_a_store_directory_is_read_past_bad_records(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str
) -> None:
    write_held(broker)
    reader = spark.read.format("rocketmq").option("store", str(broker.directory))

    frame = reader.options(subscribe=mixed, includeBadRecord=True).load()

    assert good_and_bad(frame) == (GOOD, list(BAD_OFFSETS))
    reasons = {row.queue_offset: row.bad_record.reason for row in frame.collect() if row.bad_record}
    assert all(WORDS[kind] in reasons[offset] for offset, kind in BAD_OFFSETS.items())


def test_properties_that_are_no_text_are_no_reason(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    topic = create_topic(broker, "no-text")
    send_with_flag(broker, topic, b"body", properties="color\x01bl\u00e9u-noir\x02")
    spoil(broker, b"bl\xc3\xa9u-noir", b"bl\xff\xfeu-noir")

    (row,) = read(spark, broker, subscribe=topic, properties="map", includeBadRecord=True).collect()

    assert (bytes(row.body), row.bad_record) == (b"body", None)
    assert row.properties["color"] == "bl\ufffd\ufffdu-noir"


def test_a_lake_holds_bad_records_too_and_their_bytes_where_they_are_asked_for(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str, tmp_path: Path
) -> None:
    plain, kept, skipped = (str(tmp_path / name) for name in ("plain", "kept", "skipped"))
    options: dict[str, dict[str, Any]] = {
        plain: {},
        kept: {"includeBadRecord": True, "columns": "queue_offset,body"},
        skipped: {"onBadRecord": "skip"},
    }

    for to, more in options.items():
        written = lake(spark, mixed, to, until_now=True, namesrv=broker.namesrv, **more)
        assert written.await_termination(PATIENCE_S)

    assert good_and_bad(spark.read.parquet(plain)) == (GOOD, list(BAD_OFFSETS))
    assert good_and_bad(spark.read.parquet(skipped)) == (GOOD, [])
    frame = spark.read.parquet(kept)
    assert frame.columns == ["queue_offset", "body", "bad_record", "topic", "day"]
    rows = frame.where("bad_record IS NOT NULL").collect()
    assert {row.queue_offset for row in rows} == set(BAD_OFFSETS)
    assert all(decode_record(bytes(row.bad_record.raw), verify_crc=False) for row in rows)


def test_a_topic_report_counts_bad_records(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str, tmp_path: Path
) -> None:
    report = topic_report(spark, mixed, str(tmp_path), namesrv=broker.namesrv)

    assert (report.total.messages, report.total.bad_records) == (COUNT, len(BAD))
    assert report.total.body_bytes == sum(map(len, GOOD))
    (line,) = [line for line in report.tables()[0].facts() if line["topic"] == mixed]
    assert line["bad_records"] == len(BAD)


def test_dead_letters_that_cannot_be_decoded_are_counted_and_not_replayed(
    spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(own_broker, "orders")
    letters = create_topic(own_broker, "%DLQ%billing")
    send_mixed(own_broker, letters, "RETRY_TOPIC\x01orders\x02")

    report = dead_letter_report(spark, "billing", str(tmp_path), namesrv=own_broker.namesrv)
    plan = plan_replay(spark, "billing", namesrv=own_broker.namesrv)
    result = plan.run(rate=1000, to=ReplayTo.TOPIC)

    assert report.messages == COUNT
    reasons = {each.reason for each in report.groups}
    for word in WORDS.values():  # numbers are written as # in reasons
        assert any(word.replace("4", "#") in reason for reason in reasons), word
    assert (plan.messages, plan.bad_records) == (len(GOOD), len(BAD))
    assert (result.sent, result.failed, result.not_tried) == (len(GOOD), 0, 0)
    replayed = own_broker.messages("orders")  # in any order: it goes to several queues
    assert sorted(message.body.decode() for message in replayed) == sorted(GOOD)


def test_a_stream_of_a_group_makes_dead_letters_of_bad_records(
    spark: SparkSession, own_broker: EmbeddedBroker, checkpoint: str
) -> None:
    topic = create_topic(own_broker, "dead-streams")
    send_mixed(own_broker, topic)
    options = {"consumerGroup": "streamers", "onBadRecord": "dead_letter"}
    frame = read_stream(spark, own_broker, subscribe=topic, startingOffsets="earliest", **options)
    named = frame.selectExpr("coalesce(body, cast(concat('bad-', queue_offset) AS binary)) AS body")

    sink = run_until_now(named, checkpoint)

    refused = [f"bad-{offset}" for offset, kind in BAD_OFFSETS.items() if kind in NOT_COPIED]
    assert sink.rows == sorted([*GOOD, *refused])
    dead = read(spark, own_broker, subscribe="%DLQ%streamers", includeBadRecord=True)
    assert (
        dead.where("bad_record IS NOT NULL").count() == dead.count() == len(BAD) - len(NOT_COPIED)
    )


def test_listeners_on_spark_go_past_bad_records_and_the_run_counts_them(
    spark: SparkSession, broker: EmbeddedBroker, mixed: str, tmp_path: Path
) -> None:
    app = App("bad-runs", namesrv=broker.namesrv, start_from="first")
    heard = str(tmp_path / "heard")

    @app.listener(mixed)
    def hear(messages: Any) -> None:
        with open(heard, "a") as file:  # noqa: PTH123  # it travels, and a text is enough
            file.writelines(f"{message.body.decode()}\n" for message in messages)

    outcomes = str(tmp_path / "outcomes")
    sink = {"format": "parquet", "path": outcomes}
    run = flintmq.spark.run(app, spark, sink=sink, available_now=True)
    assert run.await_termination(PATIENCE_S)

    assert Path(heard).read_text().split() == GOOD
    rows = spark.read.parquet(outcomes)
    assert {row.queue_offset for row in rows.where("outcome = 'bad record'").collect()} == {
        *BAD_OFFSETS
    }
    assert rows.count() == COUNT
    assert (run.status().messages, run.status().bad_records) == (COUNT, len(BAD))
    wait_for(lambda: lag(broker, "bad-runs") == 0)
    report = dead_letter_report(spark, "bad-runs", outcomes=outcomes, namesrv=broker.namesrv)
    assert report.messages == len(BAD) - len(NOT_COPIED)
    assert all("it is a dead letter" in each.reason for each in report.groups)
