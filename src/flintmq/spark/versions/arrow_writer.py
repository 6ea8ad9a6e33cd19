"""The base of a sink that gets the rows of a stream as Arrow batches; pyspark names it since 4.1.

Version 4.0 gives Arrow batches to every writer that is a `DataSourceArrowWriter`, of streams too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:
        from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

        class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
            """A writer of a stream that is known as one that takes Arrow batches."""


__all__ = ["DataSourceStreamArrowWriter"]
