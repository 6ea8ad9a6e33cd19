"""The rows of a lake: columns of messages, their bodies decoded or not, and how they are parted.

    plain            the columns wanted                              topic, day
    with a schema    the columns, those of the bodies, body and      quarantined, topic, day
                     decode_error of rows that do not fit

The day is that of the store time, in UTC, whatever the session's time zone.  Rows that do not fit
their schema are parts of the same table, so that a micro-batch commits both at once; a reader
that asks for ``quarantined = 0`` opens no file of theirs.  It is a number because every reader
finds that in the name of a directory, and few find a boolean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from flintmq.arrow.schema import BAD_RECORD, PROPERTIES, Properties
from flintmq.errors import InvalidSetting
from flintmq.spark.bodies.body_schema import BodySchema
from flintmq.spark.bodies.decode_frame import BODY, DECODE_ERROR, decode
from flintmq.spark.options import source_table as table
from flintmq.spark.options.source_options import SourceOptions

TOPIC: Final = "topic"
DAY: Final = "day"
QUARANTINED: Final = "quarantined"
STORE_TIME: Final = "store_time"
DAY_US: Final = 86_400_000_000

COUNTED: Final = "flintmq_lake"
"""What Spark calls the counts of a micro-batch of a lake."""


def lake_frame(
    read: DataFrame, parsed: SourceOptions, bodies: BodySchema | None, into: str | None
) -> DataFrame:
    """What is written, of what is read with `lake_columns`."""
    frame = by_day(read)
    wanted = [name for name in _wanted(parsed) if name != TOPIC]
    if bodies is None:
        return frame.select(*wanted, TOPIC, DAY)
    decoded = decode(frame, bodies, into=into)
    is_bad = f.col(DECODE_ERROR).isNotNull()
    others = [name for name in wanted if name != BODY]
    made = [into] if into is not None else bodies.columns.names
    counted = decoded.observe(COUNTED, f.count_if(is_bad).alias(QUARANTINED))
    return counted.withColumn(QUARANTINED, is_bad.cast("int")).select(
        *others, *map(quoted, made), BODY, DECODE_ERROR, QUARANTINED, TOPIC, DAY
    )


def quoted(name: str) -> str:
    """A name in Spark's SQL, whatever is in it: a schema of bodies may have ``order.id``."""
    return f"`{name.replace('`', '``')}`"


def parts_of(frame: DataFrame) -> list[str]:
    """The columns that a lake of this frame is partitioned by."""
    return [name for name in (QUARANTINED, TOPIC, DAY) if name in frame.columns]


def evolved(frame: DataFrame, written: StructType | None) -> DataFrame:
    """The frame with all columns that the lake has, those it no longer has as nulls.

    `InvalidSetting` for a column of another type than before.
    """
    if written is None:
        return frame
    there = {field.name: field.dataType for field in frame.schema.fields}
    gone = []
    for field in written.fields:
        if field.name not in there:
            gone.append(f.lit(None).cast(field.dataType).alias(field.name))
        elif field.name in (QUARANTINED, TOPIC, DAY):
            continue  # Parquet has them in names of directories, and their types are guessed
        elif there[field.name].simpleString() != field.dataType.simpleString():
            was, now = field.dataType.simpleString(), there[field.name].simpleString()
            reason = f"is {was} in the lake and would be {now}: write another lake"
            raise InvalidSetting("column", field.name, reason)
    if QUARANTINED in written.names and QUARANTINED not in there:
        raise InvalidSetting("schema", "", "the lake was written with one: give it again")
    if QUARANTINED in there and QUARANTINED not in written.names:
        raise InvalidSetting("schema", "…", "the lake was written without: write another lake")
    return frame.select("*", *gone)


def by_day(frame: DataFrame) -> DataFrame:
    """The frame with a column ``day``: the UTC day of the store time."""
    return frame.withColumn(DAY, day_of(f.col(STORE_TIME)))


def day_of(moment: Column) -> Column:
    """The day in UTC; Spark's own would be that of the session."""
    days = f.floor(f.unix_micros(moment) / f.lit(DAY_US))
    return f.date_from_unix_date(days.cast("int"))


def lake_columns(
    options: Mapping[str, str], parsed: SourceOptions, *, with_bodies: bool
) -> dict[str, str]:
    """Source options with the columns that a lake needs beside those wanted."""
    needed = (TOPIC, STORE_TIME, BODY) if with_bodies else (TOPIC, STORE_TIME)
    columns = dict.fromkeys((*_wanted(parsed), *needed))
    overruled = {table.COLUMNS_WANTED.name.lower(), table.PROPERTIES_AS.name.lower()}
    read = {name: text for name, text in options.items() if name.lower() not in overruled}
    read[table.COLUMNS_WANTED.name] = ",".join(columns)
    if parsed.shape.properties is not Properties.OFF:
        read[table.PROPERTIES_AS.name] = parsed.shape.properties
    return read


def _wanted(parsed: SourceOptions) -> tuple[str, ...]:
    shape = parsed.shape
    properties = () if shape.properties is Properties.OFF else (PROPERTIES,)
    return shape.columns + properties + ((BAD_RECORD,) if shape.bad_record else ())
