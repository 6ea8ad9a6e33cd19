"""Parquet, Delta and Iceberg: what a session needs for each, and how a stream writes it once.

    parquet   DIR/_spark_metadata     Spark notes the files of each batch
    delta     DIR/_delta_log          a commit names query and batch (txnAppId, txnVersion)
    iceberg   DIR/metadata            a snapshot names query and batch (queryId, epochId)

Each writes a batch that counted before no second time.  Delta and Iceberg are jars, fetched by
Spark from Maven by their coordinates (``spark.jars.packages``), or given (``spark.jars``).  They
reach into Spark's own classes, so each of their releases is for certain releases of Spark alone;
with any other it fails in the middle of a write.  So a release that is not in the table is
`InvalidSetting` before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from flintmq.errors import InvalidSetting
from flintmq.spark.pipelines.lake_frame import parts_of, quoted

Release = tuple[int, int]


class LakeFormat(StrEnum):
    """What the files of a lake are."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


MARKS: Final[Mapping[LakeFormat, str]] = {
    LakeFormat.PARQUET: "_spark_metadata",
    LakeFormat.DELTA: "_delta_log",
    LakeFormat.ICEBERG: "metadata",
}
"""The directory by which a lake of a format is known."""

PACKAGES: Final[Mapping[LakeFormat, Mapping[Release, str]]] = {
    LakeFormat.PARQUET: {},
    LakeFormat.DELTA: {
        (4, 0): "io.delta:delta-spark_4.0_2.13:4.4.0",
        (4, 1): "io.delta:delta-spark_4.1_2.13:4.4.0",
        (4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    LakeFormat.ICEBERG: {
        (4, 0): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        (4, 1): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
}
"""The newest release of each that was made for a release of Spark."""

EXTENSIONS: Final = "spark.sql.extensions"
JARS: Final = "spark.jars"
JARS_PACKAGES: Final = "spark.jars.packages"

SETTINGS: Final[Mapping[LakeFormat, Mapping[str, str]]] = {
    LakeFormat.PARQUET: {},
    LakeFormat.DELTA: {
        EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    LakeFormat.ICEBERG: {
        EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    },
}

NO_FILES: Final = "UNABLE_TO_INFER_SCHEMA"
"""What Spark says of Parquet without a file."""

CATALOG: Final = "flintmq_lake"
"""The catalog of Iceberg in which a lake is a table; its warehouse is the directory above."""


def lake_settings(name: str, version: str | None = None) -> dict[str, str]:
    """The settings of a session that can write this format; for `spark_session`, as ``**``."""
    kind = format_of(name)
    if kind is LakeFormat.PARQUET:
        return {}
    return {JARS_PACKAGES: package_for(kind, version), **SETTINGS[kind]}


def package_for(kind: LakeFormat, version: str | None = None) -> str:
    """The Maven coordinates; `InvalidSetting` where there are none for the release of Spark."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    found = re.match(r"(\d+)\.(\d+)", version)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    known = PACKAGES[kind]
    if release not in known:
        newest = ".".join(map(str, max(known)))
        reason = (
            f"has no release for Spark {version}, the newest is for {newest}: "
            f"pip install 'pyspark=={newest}.*', or write parquet"
        )
        raise InvalidSetting("format", kind.value, reason)
    return known[release]


def format_of(name: str) -> LakeFormat:
    try:
        return LakeFormat(name.strip().lower())
    except ValueError:
        raise InvalidSetting("format", name, f"give one of {', '.join(LakeFormat)}") from None


def kind_in(directory: str) -> LakeFormat:
    """The format of a lake on a local disk, by its files; found without Spark."""
    uri = urlparse(directory)
    if uri.scheme not in ("", "file"):
        reason = f"{directory} is on no local disk: give --format, as delta"
        raise InvalidSetting("format", "", reason)
    there = Path(unquote(uri.path) if uri.scheme else directory)
    for kind, mark in MARKS.items():
        if (there / mark).is_dir():
            return kind
    raise InvalidSetting("to", directory, "is no lake")


def require_format(spark: SparkSession, kind: LakeFormat) -> None:
    """`InvalidSetting` when this session cannot write the format."""
    if kind is LakeFormat.PARQUET:
        return
    package = package_for(kind, spark.version)
    wanted = SETTINGS[kind][EXTENSIONS]
    if wanted not in (spark.conf.get(EXTENSIONS, "") or "").split(","):
        reason = (
            f"the session lacks {package} and its settings: make it by "
            f"spark_session(…, **lake_settings('{kind}')), or give the command --format {kind}"
        )
        raise InvalidSetting("format", kind.value, reason)


class LakeTable:
    """A lake as a table of its format, whether it exists yet or not."""

    def __init__(self, spark: SparkSession, kind: LakeFormat, uri: str) -> None:
        self._spark = spark
        self.kind = kind
        self._uri = uri.rstrip("/")
        above, _, name = self._uri.rpartition("/")
        self.name = f"{CATALOG}.`{name}`"
        """Of Iceberg."""
        if kind is LakeFormat.ICEBERG:
            spark.conf.set(f"spark.sql.catalog.{CATALOG}", "org.apache.iceberg.spark.SparkCatalog")
            spark.conf.set(f"spark.sql.catalog.{CATALOG}.type", "hadoop")
            spark.conf.set(f"spark.sql.catalog.{CATALOG}.cache-enabled", "false")
            spark.conf.set(f"spark.sql.catalog.{CATALOG}.warehouse", above or "/")

    def read(self) -> DataFrame:
        """All rows; of Parquet, with the columns of every file."""
        if self.kind is LakeFormat.ICEBERG:
            return self._spark.table(self.name)
        reader: Any = self._spark.read.format(self.kind)
        if self.kind is LakeFormat.PARQUET:
            reader = reader.option("mergeSchema", "true")
        frame: DataFrame = reader.load(self._uri)
        return frame

    def prepare(self, frame: DataFrame, *, exists: bool) -> None:
        """Make a table of Iceberg, or add the columns that are new; others do it as they write."""
        if self.kind is not LakeFormat.ICEBERG:
            return
        if not exists:
            empty = self._spark.createDataFrame([], frame.schema)
            parts = [quoted(name) for name in parts_of(frame)]
            columns = ", ".join(_column(field) for field in empty.schema.fields)
            where = ", ".join(parts)
            self._spark.sql(
                f"CREATE TABLE {self.name} ({columns}) USING iceberg PARTITIONED BY ({where})"
            )
            return
        there = set(self.read().columns)
        for field in frame.schema.fields:
            if field.name not in there:
                self._spark.sql(f"ALTER TABLE {self.name} ADD COLUMN {_column(field)}")

    def writer(self, frame: DataFrame) -> DataStreamWriter:
        """The sink of the format, without checkpoint and trigger."""
        if self.kind is LakeFormat.ICEBERG:  # it takes columns by their order; new ones are last
            frame = frame.select(*map(quoted, self.read().columns))
        writer = frame.writeStream.format(self.kind).outputMode("append")
        if self.kind is LakeFormat.ICEBERG:
            # Rows of a batch are not sorted by partition, so a task keeps a file open for each.
            return writer.option("fanout-enabled", "true").option("path", self.name)
        if self.kind is LakeFormat.DELTA:
            writer = writer.option("mergeSchema", "true")
        return writer.partitionBy(*parts_of(frame)).option("path", self._uri)


def written_columns(table: LakeTable, *, exists: bool) -> StructType | None:
    """The columns of a lake that has rows."""
    try:
        return table.read().schema if exists else None
    except AnalysisException as error:
        if error.getCondition() == NO_FILES:  # all its batches were empty so far
            return None
        raise


def _column(field: StructField) -> str:
    return f"{quoted(field.name)} {_type_text(field.dataType)}"


def _type_text(kind: DataType) -> str:
    """The type as Spark's SQL takes it; its own text quotes no names."""
    match kind:
        case StructType():
            fields = (f"{quoted(each.name)}: {_type_text(each.dataType)}" for each in kind.fields)
            return f"struct<{', '.join(fields)}>"
        case ArrayType():
            return f"array<{_type_text(kind.elementType)}>"
        case MapType():
            return f"map<{_type_text(kind.keyType)}, {_type_text(kind.valueType)}>"
        case _:
            return kind.simpleString()
