"""Bodies that Python decodes, Avro and Protobuf, as a column of Spark.

    body ─► Arrow UDF ─► struct<columns: struct<…>, error: string>

Bodies cross to Python and back by Arrow.  One that does not fit has an error and no columns; it
never fails its task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import StringType, StructField, StructType

from flintmq.printable import printable_reason
from flintmq.spark.bodies.arrow_types import arrow_type
from flintmq.spark.bodies.avro_schema import AvroBodies
from flintmq.spark.bodies.protobuf_schema import ProtobufBodies
from flintmq.spark.environment.requirements import require_pyspark

COLUMNS: Final = "columns"
ERROR: Final = "error"

ARROW_UDFS_SINCE: Final = (4, 1)
"""The first pyspark whose functions in Python take and give Arrow arrays."""

READERS_MAX: Final = 16
"""Schemas that a worker keeps compiled."""


def binary_column(body: Column, schema: AvroBodies | ProtobufBodies) -> Column:
    """A struct: the columns of a body, and why there are none."""
    require_pyspark(ARROW_UDFS_SINCE, "bodies of Avro and Protobuf")
    from pyspark.sql.pandas.functions import arrow_udf

    fields = [StructField(COLUMNS, schema.columns), StructField(ERROR, StringType())]
    make: Any = arrow_udf
    found: Column = make(_Decoding(schema).decode, StructType(fields))(body)
    return found


class _Decoding:
    """What travels to the tasks: the schema alone."""

    def __init__(self, schema: AvroBodies | ProtobufBodies) -> None:
        self._schema = schema

    def decode(self, bodies: pa.Array) -> pa.Array:
        schema = self._schema
        kind = arrow_type(schema.columns)
        read = _reader_of(schema)
        values: list[Mapping[str, Any] | None] = []
        errors: list[str | None] = []
        for body in bodies.to_pylist():
            value, error = _decoded(read, body)
            values.append(value)
            errors.append(error)
        try:
            columns = pa.array(values, kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            columns = _one_by_one(values, errors, kind)
        return pa.StructArray.from_arrays(
            [columns, pa.array(errors, pa.string())], names=[COLUMNS, ERROR]
        )


def _decoded(
    read: Callable[[bytes], Mapping[str, Any]], body: bytes | None
) -> tuple[Mapping[str, Any] | None, str | None]:
    if body is None:
        return None, "the body is null"
    try:
        return read(body), None
    except Exception as error:  # a library's, of a body that anybody may have sent
        return None, _reason(error)


def _one_by_one(
    values: list[Mapping[str, Any] | None], errors: list[str | None], kind: pa.DataType
) -> pa.Array:
    """The same where a value is none of its type, as a time before the year 1: that row is bad."""
    for place, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            values[place], errors[place] = None, _reason(error)
    return pa.array(values, kind)


def _reason(error: Exception) -> str:
    return printable_reason(f"{type(error).__name__}: {error}".rstrip(": "))


@lru_cache(READERS_MAX)
def _reader_of(schema: AvroBodies | ProtobufBodies) -> Callable[[bytes], Mapping[str, Any]]:
    return schema.reader()
