"""The data source behind ``format("rocketmq")``.

Everything else is imported when it is needed: Spark loads this module to look for sources, also in
sessions that never use it, and with a pyspark that is too old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from flintmq.spark.environment.requirements import has_read_limits, require_pyspark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from flintmq.spark.options.source_options import SourceOptions


class RocketMQDataSource(DataSource):
    """Topics of RocketMQ, of FlintMQ's broker, or of a store directory; see docs/spark.md."""

    def __init__(self, options: Mapping[str, str]) -> None:
        require_pyspark(what="the format rocketmq")
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        from flintmq.spark.options.spark_schema import spark_schema

        return spark_schema(self._either().shape)

    def reader(self, schema: StructType) -> DataSourceReader:
        from flintmq.spark.options.source_options import SourceOptions
        from flintmq.spark.source.batch_read import batch_reader

        options = SourceOptions.parse(self.options, stream=False)
        _check_schema(options, schema)
        return batch_reader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        from flintmq.spark.options.source_options import SourceOptions
        from flintmq.spark.source.stream import StreamReader

        options = SourceOptions.parse(self.options, stream=True)
        _check_schema(options, schema)
        _check_limits(options)
        reader = StreamReader(options)
        if has_read_limits():
            return reader
        from flintmq.spark.source.control_files import DIRECTORY
        from flintmq.spark.versions.stepping_reader import SteppingReader

        return SteppingReader(reader, (DIRECTORY,))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from flintmq.spark.sink import sink_writer as sink

        return sink.writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's
        from flintmq.spark.sink import sink_writer as sink

        return sink.stream_writer(self.options, schema, overwrite)

    def _either(self) -> SourceOptions:
        """The options as those of a stream or of a batch: asked for a schema, one cannot know."""
        from flintmq.errors import InvalidSetting
        from flintmq.spark.options.source_options import SourceOptions

        try:
            options = SourceOptions.parse(self.options, stream=True)
        except InvalidSetting:
            return SourceOptions.parse(self.options, stream=False)
        _check_limits(options)
        return options


def _check_limits(options: SourceOptions) -> None:
    """Refuse limits that a query cannot keep with this pyspark."""
    from flintmq.spark.options.source_table import MAX_BYTES, MAX_OFFSETS, TriggerKind

    if has_read_limits() or options.trigger is TriggerKind.INTERVAL:
        return
    from flintmq.spark.versions.stepping_reader import check_trigger

    check_trigger(MAX_OFFSETS.name, options.limits.offsets_max)
    check_trigger(MAX_BYTES.name, options.limits.bytes_max)


def _check_schema(options: SourceOptions, schema: StructType) -> None:
    """Refuse a schema of the user's that is not ours: rows are what the options say."""
    from flintmq.errors import InvalidSetting
    from flintmq.spark.options.spark_schema import spark_schema

    ours = spark_schema(options.shape)
    if [(f.name, f.dataType) for f in schema] != [(f.name, f.dataType) for f in ours]:
        reason = f"the rows are {ours.simpleString()}: choose by the options columns and schema"
        raise InvalidSetting("schema()", schema.simpleString(), reason)
