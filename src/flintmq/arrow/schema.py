"""The columns of messages, and their Arrow schema.

A `Shape` names the columns and their form; it travels with every task of Spark.  The Spark schema
of the same rows is in `flintmq.spark.options.spark_schema`.

Every column is nullable in the schema, as with Spark's Kafka source.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa


class Form(StrEnum):
    """Whose columns: our own, or those of Spark's Kafka source."""

    ROCKETMQ = "rocketmq"
    KAFKA = "kafka"


class Properties(StrEnum):
    """The form of the properties column.  A map costs as much as all other columns."""

    OFF = "off"
    RAW = "raw"
    MAP = "map"


class OnBadRecord(StrEnum):
    """What a task does with a record that cannot be decoded; see `flintmq.model.bad_record`.

    The last three are the rules of a consumer.
    """

    QUARANTINE = "quarantine"
    DEAD_LETTER = "dead_letter"
    SKIP = "skip"
    STOP = "stop"


COLUMNS: Final = (
    "topic",
    "broker",
    "queue_id",
    "queue_offset",
    "message_id",
    "tags",
    "keys",
    "body",
    "flag",
    "sys_flag",
    "born_time",
    "store_time",
    "reconsume_times",
)
"""RocketMQ's columns, in their order.  ``properties`` follows where it is asked for."""

PROPERTIES: Final = "properties"

BAD_RECORD: Final = "bad_record"
"""The last column, where it is asked for: the reason why a record has no body, and its bytes."""

KAFKA_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a row, in this order."""

    columns: tuple[str, ...] = COLUMNS
    form: Form = Form.ROCKETMQ
    properties: Properties = Properties.OFF
    bad_record: bool = False


_STRING = pa.string()
_BINARY = pa.binary()
_INT = pa.int32()
_LONG = pa.int64()
_TIME = pa.timestamp("us", tz="UTC")
_STRINGS = pa.list_(pa.field("element", pa.string()))
_MAP = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))
_HEADERS = pa.list_(pa.field("element", pa.struct({"key": pa.string(), "value": pa.binary()})))
_BAD_RECORD = pa.struct({"reason": pa.string(), "raw": pa.binary()})

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


def arrow_schema(shape: Shape) -> pa.Schema:
    columns = [(name, _TYPES[shape.form][name]) for name in shape.columns]
    if shape.properties is not Properties.OFF:
        columns.append((PROPERTIES, _PROPERTIES[shape.properties]))
    if shape.bad_record:
        columns.append((BAD_RECORD, _BAD_RECORD))
    return pa.schema([pa.field(name, kind) for name, kind in columns])
