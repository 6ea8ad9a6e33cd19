"""Bodies that Spark decodes, JSON, as a column: their fields, and why there are none.

    body ─► UTF-8 ─► from_json ─► required fields ─► conditions ─► struct<columns, error>

As in Spark, a STRING takes any value as its text, a name that is no column is passed over unless
the schema forbids it, and what follows the end of the object is not looked at.

Invariant: either the error is null, or it says what is wrong; no body fails its task.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from flintmq.errors import InvalidSetting
from flintmq.spark.bodies.json_schema import VALUE, JsonBodies

CORRUPT: Final = "_flintmq_corrupt"
TEXT: Final = "_flintmq_text"
PARSED: Final = "_flintmq_parsed"

Rule = tuple[Column, Column]
"""A condition under which a body does not fit, and what is said then."""


def with_json(frame: DataFrame, body: str, schema: JsonBodies) -> tuple[DataFrame, Column, Column]:
    """The frame with what the bodies say, the struct of their fields, and the error."""
    if CORRUPT in schema.columns.names:
        raise InvalidSetting("schema", CORRUPT, "is a name that is needed here")
    read = StructType([*schema.columns.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = frame.withColumn(TEXT, f.col(body).cast("string")).withColumn(
        PARSED, f.from_json(TEXT, read, options)
    )
    rules = [*_unreadable(body, schema), *_missing(schema), *_wrong(schema)]
    first = reduce(lambda when, rule: when.when(*rule), rules, f)
    return parsed, f.col(PARSED), first  # type: ignore[return-value]  # a chain of when


def _unreadable(body: str, schema: JsonBodies) -> Iterator[Rule]:
    whole = f.col(PARSED)
    yield f.col(body).isNull(), f.lit("the body is null")
    yield ~f.is_valid_utf8(f.col(TEXT)), f.lit("the body is no UTF-8 text")
    yield whole.isNull(), f.lit("the body is no JSON object")
    fields = [
        f.when(
            whole[each.name].isNull() & f.get_json_object(TEXT, f"$['{each.name}']").isNotNull(),
            f.lit(f"{each.name} is no {each.dataType.simpleString()}"),
        )
        for each in schema.columns.fields
        if "'" not in each.name
    ]
    said = f.concat_ws(", ", *fields)
    yield (
        whole[CORRUPT].isNotNull(),
        f.when(said != "", said).otherwise(f.lit("the body is no JSON object")),
    )


def _missing(schema: JsonBodies) -> Iterator[Rule]:
    for path in schema.required:
        is_missing = _at(path).isNull()
        if len(path) > 1:
            is_missing &= _at(path[:-1]).isNotNull()
        yield is_missing, f.lit(f"{'.'.join(path)} is missing")


def _wrong(schema: JsonBodies) -> Iterator[Rule]:
    for condition in schema.conditions:
        path = ".".join(f"`{step.replace('`', '``')}`" for step in (PARSED, *condition.path))
        yield ~f.expr(condition.sql.replace(VALUE, path)), f.lit(condition.said)
    if schema.is_closed:
        names = f.array(*map(f.lit, schema.columns.names))
        others = f.array_except(f.json_object_keys(TEXT), names)
        said = f.concat(f.array_join(others, ", "), f.lit(": not a name of the schema"))
        yield f.size(others) > 0, said


def _at(path: tuple[str, ...]) -> Column:
    return reduce(lambda column, step: column[step], path, f.col(PARSED))
