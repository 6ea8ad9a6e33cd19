"""A schema is recognised by its language, and one that cannot be kept is refused before a query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from flintmq.errors import InvalidSetting
from flintmq.spark.bodies.body_schema import read_schema
from support.spark.schemas import AVRO, JSON_SCHEMA, PROTOBUF_MESSAGE, descriptor_set


def shape(given: Any) -> str:
    return read_schema(given).columns.simpleString()


def test_every_language_makes_columns(spark: SparkSession, tmp_path: Path) -> None:
    descriptors = tmp_path / "shop.desc"
    descriptors.write_bytes(descriptor_set())
    (tmp_path / "order.json").write_text(json.dumps(JSON_SCHEMA))
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))

    assert shape("order STRING NOT NULL, amount DOUBLE") == "struct<order:string,amount:double>"
    assert shape(StructType([StructField("a", StringType())])) == "struct<a:string>"
    assert shape(JSON_SCHEMA) == (
        "struct<order:string,amount:double,count:bigint,paid_at:timestamp,"
        "buyer:struct<name:string,mails:array<string>>,labels:map<string,string>>"
    )
    assert shape(tmp_path / "order.json") == shape(json.dumps(JSON_SCHEMA)) == shape(JSON_SCHEMA)
    assert (
        shape(AVRO)
        == shape(f"@{tmp_path}/order.avsc")
        == (
            "struct<order:string,amount:double,state:string,paid_at:timestamp,price:decimal(9,2),"
            "items:array<struct<name:string,count:int>>,labels:map<string,bigint>,note:string>"
        )
    )
    assert shape(f"{descriptors}:{PROTOBUF_MESSAGE}") == (
        "struct<order:string,amount:double,state:string,paid_at:timestamp,number:decimal(20,0),"
        "items:array<struct<name:string,count:int>>,labels:map<string,bigint>,note:string>"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "give a schema"),
        ("order STRINK", "no schema in Spark's DDL"),
        ("{broken", "is no JSON"),
        ('{"a": 1}', "neither JSON Schema of an object nor a record of Avro"),
        ("no-such-file.json", "cannot be read"),
        ({"type": "object", "properties": {"a": {"oneOf": []}}}, "a.*oneOf cannot be checked"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "one type"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "not in this document"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            "more than 32 objects deep",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "integer", "minimum": 1}}},
            },
            "minimum cannot be checked in an array",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]},
            "null and one other type",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]},
            "contains itself",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "nope"}]}, "Avro"),
    ],
)
def test_what_cannot_be_columns_is_refused(spark: SparkSession, given: Any, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        read_schema(given)


def test_a_message_that_is_not_in_the_descriptor_set_is_named(tmp_path: Path) -> None:
    descriptors = tmp_path / "shop.desc"
    descriptors.write_bytes(descriptor_set())
    (tmp_path / "other.desc").write_bytes(b"\xff no descriptors")

    with pytest.raises(InvalidSetting, match=r"not among the messages.*shop\.Order"):
        read_schema(f"{descriptors}:shop.Ordr")
    with pytest.raises(InvalidSetting, match="no descriptor set"):
        read_schema(f"{tmp_path}/other.desc:shop.Order")
