"""The streaming source whose tasks call listeners: its rows are the outcomes of the messages.

Not for users: `run` makes a class for each app, because an app cannot be written as the text of
an option.

    latestOffset ──► commits the finished micro-batch; plans the next one over the owned queues
    partitions   ──► one part for each queue; more for long queues that are not ordered
    read         ──► `listen`, in a task
    stop         ──► leaves the group

The offset of a micro-batch has a range for each queue that the query owns, and the number of the
micro-batch.  A queue that was assigned to another member is not in the next one; a queue that is
assigned to the query again starts at the offset of the group.

Several processes load this module, and most of them neither plan nor call listeners; so what is
needed for that is imported when it is needed.  How the source process ends is in
`flintmq.spark.source.control_files`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.spark.environment.requirements import has_read_limits
from flintmq.spark.listeners.outcome_rows import OUTCOME_SCHEMA
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.versions.read_limits import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from flintmq.spark.versions.stepping_reader import SteppingReader

if TYPE_CHECKING:
    from flintmq.spark.listeners.listener_driver import ListenerDriver

NAME: Final = "rocketmq-listeners"

NUMBER: Final = "n"
"""Where an offset has the number of its batch."""

CONTROL_DIRECTORY: Final = "controlDirectory"
MAX_MESSAGES: Final = "maxMessages"
PARTITIONS: Final = "partitions"


class ListenerSource(DataSource):
    """The base of the class that `source_of` makes for an app."""

    packed: ClassVar[bytes] = b""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return OUTCOME_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        del schema
        stream = ListenerStream(self.packed, dict(self.options))
        return stream if has_read_limits() else SteppingReader(stream)


def source_of(packed: bytes) -> type[ListenerSource]:
    """A source for one app.  It goes to other processes by value, and the app with it."""
    return type("ListenersOfAnApp", (ListenerSource,), {"packed": packed})


@dataclass(frozen=True)
class ListenPart(InputPartition):
    """What one task does."""

    part: ReadPart


class ListenerStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader: in the source process, and, without its membership, in every task."""

    def __init__(self, packed: bytes, options: Mapping[str, str]) -> None:
        self._packed = packed
        self._options = {name.lower(): text for name, text in options.items()}
        self._driver: ListenerDriver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_packed": self._packed, "_options": self._options, "_driver": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _numbered(StreamOffset(), 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        text = self._options.get(MAX_MESSAGES.lower())
        return ReadAllAvailable() if text is None else ReadMaxRows(int(text))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._driving().stop_at_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        count_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        here = StreamOffset.from_json(start)
        end = self._driving().next_offset(here, count_max)
        return start if end is None else _numbered(end, start.get(NUMBER, 0) + 1)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._driver is None else self._driver.ends().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ListenPart]:
        driver = self._driving()
        parts = driver.parts(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return [ListenPart(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from flintmq.spark.listeners.listener_task import listen
        from flintmq.spark.listeners.packed_app import unpack
        from flintmq.spark.source.read_task import make_ready

        assert isinstance(partition, ListenPart)
        program = unpack(self._packed)
        make_ready()
        return listen(program, partition.part)

    def commit(self, end: dict[str, Any]) -> None:
        self._driving().finish(StreamOffset.from_json(end))

    def stop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _driving(self) -> ListenerDriver:
        if self._driver is None:
            from flintmq.spark.listeners.listener_driver import ListenerDriver
            from flintmq.spark.listeners.packed_app import unpack
            from flintmq.spark.source.control_files import ControlFiles, ignore_sigterm

            ignore_sigterm()
            partitions = int(self._options.get(PARTITIONS, "1"))
            files = ControlFiles(self._options.get(CONTROL_DIRECTORY.lower()))
            self._driver = ListenerDriver(unpack(self._packed), files, partitions)
        return self._driver


def _numbered(offset: StreamOffset, number: int) -> dict[str, Any]:
    """An offset unlike any before it: a group that was set back reads the same ranges again."""
    return {**offset.to_json(), NUMBER: number}
