"""The Arrow schema of a shape is the one that Spark makes of its Spark schema."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from flintmq.arrow.schema import (
    COLUMNS,
    KAFKA_COLUMNS,
    Form,
    Properties,
    Shape,
    arrow_schema,
)
from flintmq.spark.options.spark_schema import spark_schema

SHAPES = [
    *(Shape(properties=properties) for properties in Properties),
    Shape(("body", "topic"), properties=Properties.MAP),
    Shape(KAFKA_COLUMNS, Form.KAFKA),
    Shape(("value", "key"), Form.KAFKA),
    Shape(()),
    Shape(("body",), properties=Properties.MAP, bad_record=True),
    Shape(("value",), Form.KAFKA, bad_record=True),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_spark_and_arrow_agree(shape: Shape) -> None:
    expected = to_arrow_schema(spark_schema(shape), timezone="UTC")

    assert arrow_schema(shape).equals(expected, check_metadata=True)


def test_our_columns_and_their_types() -> None:
    types = {field.name: field.dataType.simpleString() for field in spark_schema(Shape())}

    assert tuple(types) == COLUMNS
    assert types == {
        "topic": "string",
        "broker": "string",
        "queue_id": "int",
        "queue_offset": "bigint",
        "message_id": "string",
        "tags": "string",
        "keys": "array<string>",
        "body": "binary",
        "flag": "int",
        "sys_flag": "int",
        "born_time": "timestamp",
        "store_time": "timestamp",
        "reconsume_times": "int",
    }


def test_kafkas_columns_and_their_types() -> None:
    schema = spark_schema(Shape(KAFKA_COLUMNS, Form.KAFKA))

    assert schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )


@pytest.mark.parametrize(
    ("properties", "kind"),
    [(Properties.RAW, "binary"), (Properties.MAP, "map<string,string>")],
)
def test_properties_come_last_in_the_form_that_was_asked_for(
    properties: Properties, kind: str
) -> None:
    schema = spark_schema(replace(Shape(("topic",)), properties=properties))

    assert schema.simpleString() == f"struct<topic:string,properties:{kind}>"


def test_columns_keep_the_order_they_were_asked_for_in() -> None:
    assert arrow_schema(Shape(("body", "flag", "topic"))).names == ["body", "flag", "topic"]


def test_a_schema_travels() -> None:
    schema = arrow_schema(Shape(properties=Properties.MAP))

    assert pickle.loads(pickle.dumps(schema)) == schema
