"""``spark.read``: the messages of topics, planned once and then read by tasks.

`PushingReader` narrows the plan by the filters of the query.  Spark passes filters only with
``spark.sql.python.filterPushdown.enabled``, and without it refuses a reader that takes filters.
It passes them in a process of its own, so the reader takes filters only in that process.  That
works in every mode of Spark without a look at the session's settings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from flintmq.arrow.reading.open_queues import open_queues
from flintmq.arrow.reading.patience import patiently
from flintmq.arrow.reading.queue_source import QueueSource
from flintmq.model.queue import Span
from flintmq.spark.environment.jvm_socket import FromJvm
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.offset_ranges import batch_spans
from flintmq.spark.source.partitions import cut, partition_numbers
from flintmq.spark.source.read_task import driver_cores, partitions_of, read_rows
from flintmq.spark.versions.source_bases import DataSourceReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter  # since 4.1

PUSHING_MODULE: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The main module of the process in which Spark asks which filters a reader takes."""


class BatchReader(FromJvm, DataSourceReader):
    """Reads all messages that the options name."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return patiently("nothing is read yet", self._options.access.retry_ms, self._plan)

    def _plan(self) -> list[InputPartition]:
        options = self._options
        with closing(open_queues(options.access, options.store)) as queues:
            spans = batch_spans(queues, options)
            numbers = partition_numbers(span.queue for span in spans)
            parts = cut(
                self._narrowed(queues, spans),
                origin=queues.origin,
                partitions=numbers,
                partitions_min=options.partitions_min,
                records_max=options.records_max,
            )
        return partitions_of(options, parts, driver_cores())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self._options, partition)

    def _narrowed(self, queues: QueueSource, spans: tuple[Span, ...]) -> Iterable[Span]:  # noqa: ARG002  # for those who narrow
        return spans


class PushingReader(BatchReader):
    """A `BatchReader` that reads less where filters of the query allow it."""

    def __init__(self, options: SourceOptions) -> None:
        from flintmq.spark.source.pushdown import Conditions  # pyspark 4.0 has no filters

        super().__init__(options)
        self._conditions = Conditions(options.shape.form, options.access.namespace)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Use filters to narrow the plan; returns those that Spark has to evaluate itself."""
        return [one for one in filters if not self._conditions.push_down(one)]

    def _narrowed(self, queues: QueueSource, spans: tuple[Span, ...]) -> Iterable[Span]:
        return self._conditions.narrow(queues, spans)


def batch_reader(options: SourceOptions) -> BatchReader:
    """The reader for this process."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_pushing = PUSHING_MODULE in sys.modules or getattr(main, "name", "") == PUSHING_MODULE
    return PushingReader(options) if is_pushing else BatchReader(options)
