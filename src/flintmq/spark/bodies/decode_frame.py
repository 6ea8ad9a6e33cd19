"""Bodies of messages as columns: `decode`, for frames and for streams.

    topic, …, body ─► topic, …, the columns of the schema, body, decode_error

A row that fits has its columns, and neither body nor error.  One that does not has its body, what
is wrong with it in ``decode_error``, and null in the columns of the schema.  No row is left out
and none fails the query: `quarantine` sets bad rows apart, and ``decode_error IS NULL`` finds the
others.

JSON is decoded in the JVM, Avro and Protobuf in Python, which costs a trip there and back.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from flintmq.errors import InvalidSetting
from flintmq.spark.bodies.binary_bodies import COLUMNS, ERROR, binary_column
from flintmq.spark.bodies.body_schema import BodySchema, Given, read_schema
from flintmq.spark.bodies.json_bodies import with_json
from flintmq.spark.bodies.json_schema import JsonBodies

BODY: Final = "body"
VALUE: Final = "value"
DECODE_ERROR: Final = "decode_error"

_BINARY: Final = "_flintmq_binary"


def decode(frame: DataFrame, schema: Given | BodySchema, *, into: str | None = None) -> DataFrame:
    """The frame with its bodies as columns; `body_schema` says which schemas there are.

    ``into`` names one column for all of them, a struct; it is needed where a name of the schema
    is a column of the frame already.
    """
    bodies = schema if isinstance(schema, BodySchema) else read_schema(schema)
    body = _body_of(frame)
    others = [name for name in frame.columns if name != body]
    made = [into] if into is not None else bodies.columns.names
    _refuse_twice([*others, body, DECODE_ERROR], made)
    if isinstance(bodies, JsonBodies):
        read, whole, error = with_json(frame, body, bodies)
    else:
        read = frame.withColumn(_BINARY, binary_column(f.col(body), bodies))
        whole, error = f.col(_BINARY)[COLUMNS], f.col(_BINARY)[ERROR]
    read = read.withColumn(DECODE_ERROR, error)
    fits = f.col(DECODE_ERROR).isNull()
    fields = [whole[name].alias(name) for name in bodies.columns.names]
    columns: list[Column]
    if into is None:
        columns = [f.when(fits, whole[n]).alias(n) for n in bodies.columns.names]
    else:
        columns = [f.when(fits, f.struct(*fields)).alias(into)]
    kept = f.when(~fits, f.col(body)).alias(body)
    return read.select(*(f.col(f"`{name}`") for name in others), *columns, kept, DECODE_ERROR)


def _body_of(frame: DataFrame) -> str:
    for name in (BODY, VALUE):
        if name in frame.columns:
            return name
    raise InvalidSetting("frame", ", ".join(frame.columns), "has neither a column body nor value")


def _refuse_twice(there: list[str], made: list[str]) -> None:
    """Columns of Spark are the same in upper and lower case."""
    known = {name.lower() for name in there}
    for name in made:
        if name.lower() in known:
            reason = "is a column already: give into=NAME, one struct for all that is decoded"
            raise InvalidSetting("schema", name, reason)
        known.add(name.lower())
