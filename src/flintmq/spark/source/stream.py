"""``spark.readStream``: the reader class that Spark calls; `StreamDriver` does the planning.

The same class is made in the source process, where it plans micro-batches, and in every task,
where it only reads; so it opens no connection before it is asked to plan.  How the source process
ends is in `flintmq.spark.source.control_files`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flintmq.spark.environment.jvm_socket import FromJvm
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.control_files import DIRECTORY, become_source_process
from flintmq.spark.source.read_task import driver_cores, partitions_of, read_rows
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.versions.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    from flintmq.spark.source.stream_driver import StreamDriver

CORES: Final = "cores"
"""The key under which an offset has the number of cores that its tasks were made for.  A
micro-batch that runs again, perhaps on another machine, has the same rows in the same tasks, which
sinks may rely on."""


class StreamReader(FromJvm, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query over topics."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened: StreamDriver | None = None
        self._parsed: tuple[dict[str, Any], StreamOffset] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None, "_parsed": None}

    @property
    def _driver(self) -> StreamDriver:
        if self._opened is None:
            from flintmq.spark.source.stream_driver import StreamDriver  # tasks do without

            become_source_process()
            self._opened = StreamDriver(self._options)
        return self._opened

    # In the source process; the names are Spark's

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._driver.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """A limit of Spark's, so that it knows of one; the driver keeps all of them itself."""
        limits = self._options.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.offsets_min is not None:
            return ReadMinRows(limits.offsets_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        is_limited = not isinstance(limit, ReadAllAvailable)
        previous = self._offset(start)
        found = self._driver.latest(previous, is_limited=is_limited)
        if found == previous:
            return start
        tree = {**found.to_json(), CORES: driver_cores()}
        self._parsed = tree, found
        return tree

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        reported = self._driver.reported()
        if reported is None:
            return None
        directory = self._driver.control_directory()
        tree = reported.to_json()
        return tree if directory is None else {**tree, DIRECTORY: directory}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._driver.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002  # the end says it all
        parts = self._driver.parts(self._offset(end))
        return partitions_of(self._options, parts, end.get(CORES) or driver_cores())

    def commit(self, end: dict[str, Any]) -> None:
        self._driver.finished(self._offset(end))

    def stop(self) -> None:
        """Spark's runner calls it when its connection to the JVM is closed."""
        if self._opened is not None:
            self._opened.close()

    def _offset(self, tree: dict[str, Any]) -> StreamOffset:
        """The offset of a tree, one object for the same tree.

        Spark names an offset when it plans a micro-batch, runs it and commits it, and then, while
        nothing is new, again and again.
        """
        if self._parsed is None or self._parsed[0] != tree:
            self._parsed = tree, StreamOffset.from_json(tree)
        return self._parsed[1]

    # In a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(self._options, partition)
