"""What the tasks of one Python worker share; Spark uses a worker for many tasks, one by one.

Spark has the worker collect its garbage after every task.  That looks at every object there is,
of all modules too, and takes tens of milliseconds: longer than a small task.  So what is there
when the first task begins is set apart once.

From parts of queues to the rows of a task: the same for batches and streams.

What makes rows is imported by the tasks alone: Spark plans a query in new processes, which load
this module and make none.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from flintmq.core.reading.read_span import Page
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.reading.queue_source import ReadPart
from flintmq.spark.source.partitions import Bundle, bundle

_is_ready = False


def make_ready() -> None:
    """Call it in a task, when everything it needs is loaded.  Does something once a process."""
    global _is_ready  # noqa: PLW0603  # a fact of the process
    if not _is_ready:
        _is_ready = True
        gc.collect()
        gc.freeze()


PULL_COUNT: Final = 4_096
"""Messages asked for at once.  Fewer come where they are large, or the broker gives less."""


class QueueParts(InputPartition):
    """What Spark hands from the driver to a task."""

    def __init__(self, parts: Bundle) -> None:
        super().__init__(parts)
        self.parts = parts


def driver_cores() -> int:
    """How many cores stand in for those of the executors."""
    return os.cpu_count() or 1


def partitions_of(
    options: SourceOptions, parts: Sequence[ReadPart], cores: int
) -> list[InputPartition]:
    """The tasks for these parts."""
    bundles = bundle(
        parts,
        partitions_min=options.partitions_min,
        records_max=options.records_max,
        cores=cores,
    )
    return [QueueParts(each) for each in bundles]


def read_rows(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task.  The partition that Spark makes up where there is none is empty."""
    if not isinstance(partition, QueueParts):
        return
    from flintmq.spark.arrow.bad_records import BadRecords
    from flintmq.spark.arrow.columns import Columns
    from flintmq.spark.reading.cluster_pages import check_gap
    from flintmq.spark.reading.open_queues import page_reader
    from flintmq.spark.source.read_task import make_ready

    make_ready()
    bad_records = BadRecords(options.on_bad_record, options.access, options.group)
    columns = Columns(
        options.shape,
        partition.parts,
        wanted=options.wanted,
        namespace=options.access.namespace,
        bad_records=bad_records,
    )

    def checked() -> Iterator[Page]:
        for page in page_reader(options.access, options.store).all_pages(
            partition.parts, options.wanted, PULL_COUNT
        ):
            check_gap(page, fail_on_data_loss=options.fail_on_data_loss)
            yield page

    with bad_records:
        yield from columns.read(checked())
