"""Bodies become columns, and one that does not fit keeps its body and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidName, InvalidSetting
from flintmq.spark import decode, quarantine
from flintmq.spark.environment.query_start import start_query
from support.spark.schemas import (
    AVRO,
    JSON_SCHEMA,
    PAID_AT,
    PROTOBUF_MESSAGE,
    avro_body,
    descriptor_set,
    protobuf_body,
)
from support.spark.support import PATIENCE_S, create_topic, read_stream, send

DDL = "order STRING NOT NULL, amount DOUBLE, count INT"


def of_bodies(spark: SparkSession, bodies: Iterable[bytes | None]) -> DataFrame:
    rows = list(enumerate(bodies))
    return spark.createDataFrame(rows, "queue_offset BIGINT, body BINARY").coalesce(1)


def errors(frame: DataFrame) -> list[str | None]:
    return [row.decode_error for row in frame.orderBy("queue_offset").collect()]


def test_a_body_that_does_not_fit_keeps_itself_and_the_reason(spark: SparkSession) -> None:
    bodies = [
        b'{"order":"o-1","amount":1.5,"count":2,"more":true}',
        b'{"order":"o-2"}',
        b'{"order":"o-3","amount":"much","count":2}',
        b'{"order":"o-4","count":3000000000}',
        b'{"amount":1}',
        b"not JSON",
        b'["o-7"]',
        b"",
        b'{"order":"\xff"}',
        None,
    ]

    rows = decode(of_bodies(spark, bodies), DDL).orderBy("queue_offset").collect()

    assert list(rows[0].asDict()) == [
        *("queue_offset", "order", "amount", "count", "body", "decode_error")
    ]
    assert [tuple(row)[1:4] for row in rows[:2]] == [("o-1", 1.5, 2), ("o-2", None, None)]
    assert {tuple(row)[1:4] for row in rows[2:]} == {(None, None, None)}
    assert [row.body for row in rows] == [None, None, *bodies[2:]]
    assert [row.decode_error for row in rows] == [
        None,
        None,
        "amount is no double",
        "count is no int",
        "order is missing",
        *["the body is no JSON object"] * 3,
        "the body is no UTF-8 text",
        "the body is null",
    ]


def test_the_conditions_of_a_json_schema_hold(spark: SparkSession) -> None:
    good = b'{"order":"o-1","amount":0,"paid_at":"2026-11-16T08:30:00Z","buyer":{"name":"ann"}}'
    bodies = [
        good,
        b'{"order":"x-1"}',
        b'{"order":"o-1","amount":-1}',
        b'{"order":"o-1","buyer":{"mails":[]}}',
        b'{"order":"o-1","colour":"red"}',
        b'{"order":"o-1","labels":{"a":"b"},"count":null}',
    ]

    frame = decode(of_bodies(spark, bodies), JSON_SCHEMA, into="o")

    assert errors(frame) == [
        None,
        'order is not as pattern "^o-[0-9]+$" asks',
        "amount is not as minimum 0 asks",
        "buyer.name is missing",
        "colour: not a name of the schema",
        None,
    ]
    first = frame.orderBy("queue_offset").select("o.*").first()
    assert first is not None
    assert (first.order, first.buyer.name) == ("o-1", "ann")
    assert first.paid_at.timestamp() == PAID_AT.timestamp()


def plain(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = row.asDict(recursive=True)
    found["paid_at"] = found["paid_at"].timestamp()
    return found


@pytest.mark.parametrize("language", ["avro", "protobuf"])
def test_binary_bodies_are_decoded_with_all_their_types(
    spark: SparkSession, tmp_path: Path, language: str
) -> None:
    if language == "avro":
        schema: Any = AVRO
        own: dict[str, Any] = {"price": Decimal("12.34")}
        body: Callable[..., bytes] = avro_body
        marked = b"\xc3\x01" + bytes(8)
        bad = [avro_body("o-9")[:-3], avro_body("o-9") + b"\x00", b"", None]
        said = ["Error", "1 bytes are left behind the record", "Error", "the body is null"]
    else:
        (tmp_path / "shop.desc").write_bytes(descriptor_set())
        schema, own = f"{tmp_path}/shop.desc:{PROTOBUF_MESSAGE}", {"number": Decimal(2**64 - 1)}
        body, marked = protobuf_body, b""
        bad = [protobuf_body("o-9")[:-3], b"\xff\xff", None]
        said = ["DecodeError", "DecodeError", "the body is null"]

    frame = decode(of_bodies(spark, [marked + body("o-1"), body("o-2", "late"), *bad]), schema)

    rows = frame.orderBy("queue_offset").collect()
    for row, order, note in zip(rows, ["o-1", "o-2"], [None, "late"], strict=False):
        assert plain(row) == {
            **own,
            "order": order,
            "amount": 1.5,
            "state": "PAID",
            "note": note,
            "items": [{"name": "tea", "count": 2}],
            "labels": {"n": 7},
            "paid_at": PAID_AT.timestamp(),
            "decode_error": None,
            "body": None,
            "queue_offset": row.queue_offset,
        }
    for row, octets, text in zip(rows[2:], bad, said, strict=True):
        assert text in row.decode_error
        assert (row.order, row.body) == (None, octets)


def test_names_that_are_there_twice_are_refused(spark: SparkSession) -> None:
    frame = of_bodies(spark, [b"{}"]).withColumnRenamed("queue_offset", "tags")

    with pytest.raises(InvalidSetting, match=r"Tags.*is a column already: give into"):
        decode(frame, "Tags STRING")
    assert decode(frame, "Tags STRING", into="told").columns == [
        *("tags", "told", "body", "decode_error")
    ]
    with pytest.raises(InvalidSetting, match="neither a column body nor value"):
        decode(frame.drop("body"), "a STRING")


@pytest.mark.parametrize("kind", ["topic", "directory"])
def test_a_stream_sets_bad_rows_apart_and_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, kind: str
) -> None:
    topic, bad_topic = create_topic(broker, f"mixed-{kind}"), create_topic(broker, f"bad-{kind}")
    to = f"topic:{bad_topic}" if kind == "topic" else str(tmp_path / "bad")
    options = {"namesrv": broker.namesrv} if kind == "topic" else {}
    saved: list[str] = []
    sift = quarantine(
        lambda rows, _batch: saved.extend(row.order for row in rows.collect()), to, **options
    )
    frame = decode(
        read_stream(spark, broker, subscribe=topic, startingOffsets="earliest"), DDL, into="o"
    ).select("topic", "queue_id", "queue_offset", "tags", "o.*", "body", "decode_error")

    for turn in range(2):
        send(broker, topic, [f'{{"order":"o-{turn}"}}', f"bad {turn}"], tags="t")
        writer = frame.writeStream.foreachBatch(sift).trigger(availableNow=True)
        query = start_query(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
        assert query.awaitTermination(int(PATIENCE_S))

    assert (saved, sift.rows) == (["o-0", "o-1"], 2)
    if kind == "topic":
        first, second = broker.messages(bad_topic)
        assert (first.body, second.body, first.tags) == (b"bad 0", b"bad 1", "t")
        assert first.properties["DECODE_ERROR"] == "the body is no JSON object"
        assert first.properties["DECODED_FROM"] == f"{topic}/0/1"
        assert first.properties["SPARK_ROW"] != second.properties["SPARK_ROW"]
    else:
        rows = spark.read.parquet(to).orderBy("queue_offset").collect()
        assert [(bytes(row.body), row.batch) for row in rows] == [(b"bad 0", 0), (b"bad 1", 1)]
        assert {row.decode_error for row in rows} == {"the body is no JSON object"}


def test_a_quarantine_that_cannot_work_is_refused_before_the_query() -> None:
    with pytest.raises(InvalidName):
        quarantine(print, "topic:no such topic")
    with pytest.raises(InvalidSetting, match="namesrv"):
        quarantine(print, "topic:bad")
    with pytest.raises(InvalidSetting, match="a directory has no options"):
        quarantine(print, "bad", namesrv="127.0.0.1:9876")
