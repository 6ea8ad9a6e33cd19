"""The schema of a shape, for Spark and for Arrow.

The two say the same: Spark refuses a batch whose Arrow schema is not the one it makes of its
own.  It is written down here and not asked of pyspark, which does that in a function of no
promise whose arguments change between versions.

Every column may be null in the schema, as with Spark's Kafka source.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.spark.shape import BAD_RECORD, PROPERTIES, Form, Properties, Shape


class _Type(NamedTuple):
    """One type as both spell it."""

    spark: DataType
    arrow: pa.DataType


_STRING = _Type(StringType(), pa.string())
_BINARY = _Type(BinaryType(), pa.binary())
_INT = _Type(IntegerType(), pa.int32())
_LONG = _Type(LongType(), pa.int64())
_TIME = _Type(TimestampType(), pa.timestamp("us", tz="UTC"))
_STRINGS = _Type(ArrayType(StringType()), pa.list_(pa.field("element", pa.string())))
_MAP = _Type(
    MapType(StringType(), StringType()),
    pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())),
)
_HEADERS = _Type(
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    pa.list_(pa.field("element", pa.struct({"key": pa.string(), "value": pa.binary()}))),
)
_BAD_RECORD = _Type(
    StructType([StructField("reason", StringType()), StructField("raw", BinaryType())]),
    pa.struct({"reason": pa.string(), "raw": pa.binary()}),
)

_TYPES: Final = {
    Form.ROCKETMQ: {
        "topic": _STRING,
        "broker": _STRING,
        "queue_id": _INT,
        "queue_offset": _LONG,
        "message_id": _STRING,
        "tags": _STRING,
        "keys": _STRINGS,
        "body": _BINARY,
        "flag": _INT,
        "sys_flag": _INT,
        "born_time": _TIME,
        "store_time": _TIME,
        "reconsume_times": _INT,
    },
    Form.KAFKA: {
        "key": _BINARY,
        "value": _BINARY,
        "topic": _STRING,
        "partition": _INT,
        "offset": _LONG,
        "timestamp": _TIME,
        "timestampType": _INT,
        "headers": _HEADERS,
    },
}

_PROPERTIES: Final = {Properties.RAW: _BINARY, Properties.MAP: _MAP}


def spark_schema(shape: Shape) -> StructType:
    return StructType([StructField(name, kind.spark) for name, kind in _columns(shape)])


def arrow_schema(shape: Shape) -> pa.Schema:
    return pa.schema([pa.field(name, kind.arrow) for name, kind in _columns(shape)])


def _columns(shape: Shape) -> list[tuple[str, _Type]]:
    columns = [(name, _TYPES[shape.form][name]) for name in shape.columns]
    if shape.properties is not Properties.OFF:
        columns.append((PROPERTIES, _PROPERTIES[shape.properties]))
    if shape.bad_record:
        columns.append((BAD_RECORD, _BAD_RECORD))
    return columns
