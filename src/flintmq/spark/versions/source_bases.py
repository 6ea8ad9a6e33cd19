"""The bases of batch readers and of their partitions, which pyspark has since 4.0.

With 3.5 Spark never calls them: there `flintmq.spark.frames` plans and reads with the same classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, InputPartition
else:
    try:
        from pyspark.sql.datasource import DataSourceReader, InputPartition
    except ModuleNotFoundError:

        class InputPartition:
            """What one task reads."""

            def __init__(self, value):
                self.value = value

        class DataSourceReader:
            """Plans a batch and reads its partitions."""


__all__ = ["DataSourceReader", "InputPartition"]
