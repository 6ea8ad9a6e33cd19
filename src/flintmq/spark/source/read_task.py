"""The partitions that Spark hands to tasks, and the rows that a task reads of its partition.

Batch queries and streams use the same code.  Modules that make rows are imported by tasks alone:
Spark plans a query in new processes, which load this module and make no rows.

Spark uses a Python worker for many tasks, one after the other, and has it collect garbage after
each.  That visits every object, those of all modules too, and takes tens of milliseconds: longer
than a small task.  So all objects that exist when the first task begins are frozen once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.core.reading.read_span import Page
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.partitions import Bundle, bundle
from flintmq.spark.versions.source_bases import InputPartition

_is_ready = False


def make_ready() -> None:
    """Freeze the objects of all loaded modules, once a process.  Call it in a task."""
    global _is_ready  # noqa: PLW0603  # a fact of the process
    if not _is_ready:
        _is_ready = True
        gc.collect()
        gc.freeze()


PULL_COUNT: Final = 4_096
"""Messages asked for by one pull.  Brokers return fewer where these are large."""


class QueueParts(InputPartition):
    """The partition of one task: its parts of queues."""

    def __init__(self, parts: Bundle) -> None:
        super().__init__(parts)
        self.parts = parts


def driver_cores() -> int:
    """The cores of the driver, in place of those of the executors, which are not known."""
    return os.cpu_count() or 1


def partitions_of(
    options: SourceOptions, parts: Sequence[ReadPart], cores: int
) -> list[InputPartition]:
    """The partitions for these parts, one for each task."""
    bundles = bundle(
        parts,
        partitions_min=options.partitions_min,
        records_max=options.records_max,
        cores=cores,
    )
    return [QueueParts(each) for each in bundles]


def read_rows(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one task; none for the empty partition that Spark makes where there is none."""
    if not isinstance(partition, QueueParts):
        return
    from flintmq.arrow.bad_records import BadRecords
    from flintmq.arrow.columns import Columns
    from flintmq.arrow.reading.cluster_pages import check_gap
    from flintmq.arrow.reading.open_queues import page_reader

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
