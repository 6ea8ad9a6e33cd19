"""From a part of a queue to the rows of a task: the same for batches and streams.

What makes rows is imported by the tasks alone: Spark plans a query in new processes, which load
this module and make none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from flintmq.spark.options import SourceOptions
from flintmq.spark.queues import ReadPart

PULL_COUNT: Final = 4_096
"""Messages asked for at once.  Fewer come where they are large, or the broker gives less."""


class QueuePart(InputPartition):
    """What Spark hands from the driver to a task."""

    def __init__(self, part: ReadPart) -> None:
        super().__init__(part)
        self.part = part


def read_rows(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task.  The partition that Spark makes up where there is none is empty."""
    if not isinstance(partition, QueuePart):
        return
    from flintmq.spark.columns import Columns
    from flintmq.spark.origins import page_reader
    from flintmq.spark.task import check_gap

    columns = Columns(
        options.shape,
        partition.part,
        wanted=options.wanted,
        namespace=options.access.namespace,
    )
    for page in page_reader(options).pages(partition.part, options.wanted, PULL_COUNT):
        check_gap(page, fail_on_data_loss=options.fail_on_data_loss)
        yield from columns.batches(page)
