"""Rows become messages as their columns say; a frame that cannot be sent is refused by name."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.arrow.reading.access import Access
from flintmq.errors import InvalidSetting
from flintmq.model.properties import SHARDING_KEY
from flintmq.spark.options.sink_options import OnBadRow, SinkOptions
from flintmq.spark.sink.bad_rows import BadRows
from flintmq.spark.sink.row_identity import ROW_PROPERTY, RowIdentity, parse_identity, prefix_of
from flintmq.spark.sink.sink_rows import (
    ANYWHERE,
    COLUMNS,
    PASSED_OVER,
    OutRow,
    Target,
    plan_rows,
)

ACCESS = Access(("127.0.0.1:9876",))
PREFIX = prefix_of("job", 7, 3)


KINDS: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "short": ShortType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "array<string>": ArrayType(StringType()),
    "array<int>": ArrayType(IntegerType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
    "struct<reason:string,raw:binary>": StructType(
        [StructField("reason", StringType()), StructField("raw", BinaryType())]
    ),
}


def schema_of(ddl: str) -> StructType:
    """A schema as Spark writes it; Spark's own parser needs a JVM."""
    fields = [field.split(" ") for field in ddl.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in fields])


def rows_of(
    ddl: str,
    *rows: dict[str, Any],
    first: int = 0,
    bad: BadRows | None = None,
    **options: Any,
) -> list[OutRow]:
    """What rows of a schema become."""
    schema = schema_of(ddl)
    plan = plan_rows(schema, SinkOptions(ACCESS, **({"topic": "t"} | options)))
    plan = pickle.loads(pickle.dumps(plan))
    batch = pa.RecordBatch.from_pylist(list(rows), to_arrow_schema(schema, timezone="UTC"))
    return list(plan.rows(batch, PREFIX, first, bad or BadRows(SinkOptions(ACCESS))))


def test_a_row_of_our_own_columns_becomes_the_message_it_describes() -> None:
    (row,) = rows_of(
        "topic string, body binary, tags string, keys array<string>, "
        "properties map<string,string>, delay_level int, flag int",
        {
            "topic": "bills",
            "body": b"\x00\xff",
            "tags": "paid",
            "keys": ["o-1", "o-2"],
            "properties": [("region", "eu"), ("empty", None)],
            "delay_level": 3,
            "flag": 9,
        },
        topic=None,
    )

    message = row.message
    assert (message.topic, message.body, message.tags) == ("bills", b"\x00\xff", "paid")
    assert (message.keys, message.delay_level, message.flag) == (("o-1", "o-2"), 3, 9)
    assert message.properties == {"region": "eu", ROW_PROPERTY: "job.7.3.0"}
    assert row.target is ANYWHERE


def test_text_and_nulls_are_taken_as_meant() -> None:
    (row,) = rows_of(
        "value string, tags string, keys string, properties map<string,string>, queue_id int",
        {"value": "süß", "tags": None, "keys": "a b", "properties": None, "queue_id": None},
    )

    assert row.message.body == "süß".encode()
    assert row.message.tags is None
    assert row.message.keys == ("a", "b")
    assert row.target == ANYWHERE


def test_the_option_topic_goes_before_the_column() -> None:
    (row,) = rows_of("topic string, body string", {"topic": "there", "body": "x"}, topic="here")

    assert row.message.topic == "here"


def test_rows_are_counted_through_all_batches_of_a_partition() -> None:
    rows = rows_of("body string", {"body": "a"}, {"body": "b"}, first=40)

    identities = [parse_identity(row.message.properties[ROW_PROPERTY]) for row in rows]
    assert identities == [RowIdentity("job", 7, 3, 40), RowIdentity("job", 7, 3, 41)]
    assert [str(identity) for identity in identities] == ["job.7.3.40", "job.7.3.41"]


def test_a_row_for_kafka_becomes_a_message_with_its_key_and_headers() -> None:
    ddl = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int"
    headers = [{"key": "h", "value": b"1"}, {"key": "none", "value": None}]

    free, placed = rows_of(
        ddl,
        {"key": b"k-1", "value": b"v", "headers": headers, "partition": None},
        {"key": b"k-1", "value": b"v", "headers": None, "partition": 5},
    )

    assert free.message.keys == ("k-1",)
    assert free.target == Target(sharding_key="k-1")
    assert free.message.properties["h"] == "1"
    assert "none" not in free.message.properties
    assert placed.target == Target(place=5)
    assert placed.message.keys == ("k-1",)


def test_a_row_goes_where_its_most_exact_wish_says() -> None:
    ddl = "body string, queue_id long, broker string, partition short, sharding_key string"
    full = {"body": "x", "queue_id": 2, "broker": "b", "partition": 1, "sharding_key": "k"}

    targets = [
        row.target
        for row in rows_of(
            ddl,
            full,
            full | {"queue_id": None},
            full | {"queue_id": None, "partition": None},
            full | {"queue_id": None, "partition": None, "sharding_key": ""},
        )
    ]

    assert targets == [
        Target(broker="b", queue_id=2),
        Target(place=1),
        Target(sharding_key="k"),
        ANYWHERE,
    ]


@pytest.mark.parametrize(
    ("ddl", "options", "row"),
    [
        ("body string, shardingKey string", {}, {"shardingKey": "42"}),
        ("body string, customer long", {"sharding_column": "Customer"}, {"customer": 42}),
        ("body string, tags string", {"sharding_column": "tags"}, {"tags": "42"}),
    ],
)
def test_the_sharding_key_is_a_column_of_that_name_or_the_one_an_option_names(
    ddl: str, options: dict[str, Any], row: dict[str, Any]
) -> None:
    (out,) = rows_of(ddl, {"body": "x"} | row, **options)

    assert out.target == Target(sharding_key="42")
    assert out.message.properties[SHARDING_KEY] == "42"
    assert out.message.tags == row.get("tags")


def test_what_the_source_gives_can_be_written_as_it_is() -> None:
    ddl = (
        "topic string, broker string, queue_id int, queue_offset long, message_id string, "
        "tags string, keys array<string>, body binary, flag int, sys_flag int, "
        "born_time timestamp, store_time timestamp, reconsume_times int, "
        "properties map<string,string>, bad_record struct<reason:string,raw:binary>"
    )
    row = {"topic": "t", "broker": "b", "queue_id": 1, "body": b"x", "flag": 2}

    (out,) = rows_of(
        ddl,
        row | {"properties": [("UNIQ_KEY", "1"), ("mine", "2"), (ROW_PROPERTY, "old.0.0.0")]},
        drop_system=True,
    )

    assert out.target == Target(broker="b", queue_id=1)
    assert out.message.properties == {"mine": "2", ROW_PROPERTY: "job.7.3.0"}


def test_a_property_of_the_system_is_refused_unless_it_may_be_dropped() -> None:
    row = {"body": "x", "properties": [("DELAY", "3")]}

    with pytest.raises(InvalidSetting, match="belongs to the system") as caught:
        rows_of("body string, properties map<string,string>", row)

    assert (caught.value.setting, caught.value.value) == ("row", "job.7.3.0")


@pytest.mark.parametrize(
    ("ddl", "row", "said"),
    [
        ("body string", {"body": None}, "body is null"),
        ("body string", {"body": ""}, "body is null or empty"),
        ("topic string, body string", {"topic": None, "body": "x"}, "topic is null"),
        ("key binary, value string", {"key": b"\xff", "value": "x"}, "key is no UTF-8"),
    ],
)
def test_a_row_that_cannot_be_sent_is_an_error_that_says_which(
    ddl: str, row: dict[str, Any], said: str
) -> None:
    good = {"topic": "t", "key": None, "body": "x", "value": "x"}
    first = {name: good[name] for name in schema_of(ddl).names}

    with pytest.raises(InvalidSetting, match=said) as caught:
        rows_of(ddl, first, row, first=10, topic=None if "topic" in row else "t")

    assert (caught.value.setting, caught.value.value) == ("row", "job.7.3.11")
    assert "badRows=skip leaves such rows out" in caught.value.reason


def test_skipped_rows_are_counted_and_the_others_keep_their_identities() -> None:
    bad = BadRows(SinkOptions(ACCESS, bad_rows=OnBadRow.SKIP))

    rows = rows_of(
        "body string", {"body": "a"}, {"body": None}, {"body": ""}, {"body": "d"}, bad=bad
    )

    identities = [row.message.properties[ROW_PROPERTY] for row in rows]
    assert identities == ["job.7.3.0", "job.7.3.3"]
    assert bad.skipped == 2
    assert bad.first.startswith("job.7.3.1: its body is null")


@pytest.mark.parametrize(
    ("ddl", "options", "setting", "said"),
    [
        ("body long", {}, "column body", "binary or string"),
        ("body string, keys array<int>", {}, "column keys", "array<string> or string"),
        ("body string, properties map<string,int>", {}, "column properties", "map<string,string>"),
        ("body string, properties binary", {}, "column properties", "map<string,string>"),
        ("body string, queue_id string", {}, "column queue_id", "a whole number"),
        ("body string, tags binary", {}, "column tags", "string"),
        ("value string, headers map<string,string>", {}, "column headers", "struct<key:string"),
        ("body string, tag string", {}, "column tag", "did you mean tags"),
        ("body string, price double", {}, "column price", "no use for it"),
        ("body string, value string", {}, "column value", "second column for the body"),
        ("tags string", {}, "column body", "is missing"),
        ("body string", {"topic": None}, "topic", "option topic"),
        ("body string", {"sharding_column": "who"}, "shardingKey", "no such column"),
        ("body string, x double", {"sharding_column": "x"}, "column x", "string or a whole"),
    ],
)
def test_a_frame_that_cannot_be_sent_is_refused_by_the_name_of_its_column(
    ddl: str, options: dict[str, Any], setting: str, said: str
) -> None:
    with pytest.raises(InvalidSetting, match=said) as caught:
        rows_of(ddl, **options)

    assert caught.value.setting == setting


def test_no_column_is_both_used_and_passed_over() -> None:
    assert not PASSED_OVER & COLUMNS.keys()


@pytest.mark.parametrize("text", [None, "", "a.1.2", "a.1.2.x", "a.1.2.3.4", "a b.1.2.3"])
def test_a_text_of_another_form_is_no_identity(text: str | None) -> None:
    assert parse_identity(text) is None
