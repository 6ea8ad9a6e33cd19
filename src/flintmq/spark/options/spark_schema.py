"""The Spark schema of a shape: the same rows as its Arrow schema in `flintmq.arrow.schema`.

Spark refuses a record batch whose Arrow schema differs from the one it derives from its own.  Both
are written down, because the function of pyspark that converts them is not public and its
arguments change between versions.
"""

from __future__ import annotations

from typing import Final

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

from flintmq.arrow.schema import BAD_RECORD, PROPERTIES, Form, Properties, Shape

_STRING: Final = StringType()
_BINARY: Final = BinaryType()
_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_BAD_RECORD: Final = StructType(
    [StructField("reason", StringType()), StructField("raw", BinaryType())]
)

_TYPES: Final[dict[Form, dict[str, DataType]]] = {
    Form.ROCKETMQ: {
        "topic": _STRING,
        "broker": _STRING,
        "queue_id": IntegerType(),
        "queue_offset": LongType(),
        "message_id": _STRING,
        "tags": _STRING,
        "keys": ArrayType(StringType()),
        "body": _BINARY,
        "flag": IntegerType(),
        "sys_flag": IntegerType(),
        "born_time": TimestampType(),
        "store_time": TimestampType(),
        "reconsume_times": IntegerType(),
    },
    Form.KAFKA: {
        "key": _BINARY,
        "value": _BINARY,
        "topic": _STRING,
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        "headers": _HEADERS,
    },
}

_PROPERTIES: Final[dict[Properties, DataType]] = {
    Properties.RAW: _BINARY,
    Properties.MAP: MapType(StringType(), StringType()),
}


def spark_schema(shape: Shape) -> StructType:
    columns = [(name, _TYPES[shape.form][name]) for name in shape.columns]
    if shape.properties is not Properties.OFF:
        columns.append((PROPERTIES, _PROPERTIES[shape.properties]))
    if shape.bad_record:
        columns.append((BAD_RECORD, _BAD_RECORD))
    return StructType([StructField(name, kind) for name, kind in columns])
