"""The streaming source whose tasks call listeners: its rows are the outcomes of the messages.

Not for users: `run` makes a class for each app, because an app cannot be written as the text of
an option.

    latestOffset ──► commits the finished micro-batch; plans the next one over the owned queues
    partitions   ──► one part for each queue, more for long queues that are not ordered; as many
                     tasks as the listener's ``tasks`` says
    read         ──► `listen`, in a task
    stop         ──► leaves the group

The offset of a micro-batch has a range for each queue that the query owns, and the number of the
micro-batch.  A queue that was assigned to another member is not in the next one; a queue that is
assigned to the query again starts at the offset of the group.

A run that pops has no queues of its own; `flintmq.spark.listeners.pop_driver` plans it.

Several processes load this module, and most of them neither plan nor call listeners; so what is
needed for that is imported when it is needed.  How the source process ends is in
`flintmq.spark.source.control_files`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.spark.environment.jvm_socket import FromJvm
from flintmq.spark.environment.requirements import has_read_limits
from flintmq.spark.listeners.batch_number import number_of, numbered
from flintmq.spark.outcomes.outcome_rows import (
    OUTCOME_SCHEMA,
    POPPED_SCHEMA,
    SLIM_POPPED_SCHEMA,
    SLIM_SCHEMA,
)
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
    from flintmq.spark.listeners.pop_driver import PopDriver
    from flintmq.spark.source.control_files import ControlFiles
    from flintmq.spark.tasks.packed_app import Program
    from flintmq.spark.tasks.popped_verdicts import PoppedSome

NAME: Final = "rocketmq-listeners"

CONTROL_DIRECTORY: Final = "controlDirectory"
MAX_MESSAGES: Final = "maxMessages"
TARGET_MS: Final = "targetMs"
SLIM: Final = "slim"
"""Whether no sink reads the rows: then they have no columns but what tasks report."""

TRUE: Final = "true"
PARTITIONS: Final = "partitions"


class ListenerSource(DataSource):
    """The base of the class that `source_of` makes for an app."""

    packed: ClassVar[bytes] = b""
    pops: ClassVar[bool] = False

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        is_slim = self.options.get(SLIM) == TRUE
        if self.pops:
            return SLIM_POPPED_SCHEMA if is_slim else POPPED_SCHEMA
        return SLIM_SCHEMA if is_slim else OUTCOME_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        del schema
        made = PoppedStream if self.pops else ListenerStream
        stream = made(self.packed, dict(self.options))
        return stream if has_read_limits() else SteppingReader(stream)


def source_of(packed: bytes, *, pops: bool = False) -> type[ListenerSource]:
    """A source for one app.  It goes to other processes by value, and the app with it."""
    return type("ListenersOfAnApp", (ListenerSource,), {"packed": packed, "pops": pops})


@dataclass(frozen=True)
class ListenPart(InputPartition):
    """What one task does: parts of queues, one listener for all of them."""

    parts: tuple[ReadPart, ...]


@dataclass(frozen=True)
class PoppedPart(InputPartition):
    """What one task of a run that pops does."""

    popped: tuple[PoppedSome, ...]


D = TypeVar("D", "ListenerDriver", "PopDriver")


class AppStream(FromJvm, DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[D]):
    """The reader: in the source process, and, without its membership, in every task."""

    def __init__(self, packed: bytes, options: Mapping[str, str]) -> None:
        self._packed = packed
        self._options = {name.lower(): text for name, text in options.items()}
        self._driver: D | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_packed": self._packed, "_options": self._options, "_driver": None}

    @abstractmethod
    def _new_driver(
        self, program: Program, files: ControlFiles, partitions: int, target_ms: int | None
    ) -> D:
        """Who plans micro-batches."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return numbered(StreamOffset().to_json(), 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        text = self._options.get(MAX_MESSAGES.lower())
        return ReadAllAvailable() if text is None else ReadMaxRows(int(text))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._driving().stop_at_now()

    def stop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    @property
    def _is_slim(self) -> bool:
        return self._options.get(SLIM) == TRUE

    def _unpacked(self) -> Program:
        """The app, in a task."""
        from flintmq.spark.source.read_task import make_ready
        from flintmq.spark.tasks.packed_app import unpack

        program = unpack(self._packed)
        make_ready()
        return program

    def _driving(self) -> D:
        if self._driver is None:
            from flintmq.spark.source.control_files import ControlFiles, become_source_process
            from flintmq.spark.tasks.packed_app import unpack

            become_source_process()
            partitions = int(self._options.get(PARTITIONS, "1"))
            files = ControlFiles(self._options.get(CONTROL_DIRECTORY.lower()))
            target = self._options.get(TARGET_MS.lower())
            target_ms = None if target is None else int(target)
            self._driver = self._new_driver(unpack(self._packed), files, partitions, target_ms)
        return self._driver


class ListenerStream(AppStream["ListenerDriver"]):
    """The reader of a run that pulls: offsets are ranges of the queues that the query owns."""

    def _new_driver(
        self, program: Program, files: ControlFiles, partitions: int, target_ms: int | None
    ) -> ListenerDriver:
        from flintmq.spark.listeners.listener_driver import ListenerDriver

        return ListenerDriver(program, files, partitions, target_ms)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        here, number = StreamOffset.from_json(start), number_of(start)
        end = self._driving().next_offset(here, _count_max(limit), number)
        return start if end is None else numbered(end.to_json(), number + 1)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._driver is None else self._driver.ends().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[ListenPart]:
        driver = self._driving()
        parts = driver.parts(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return [ListenPart(some) for some in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from flintmq.spark.tasks.listener_task import listen_all

        assert isinstance(partition, ListenPart)
        return listen_all(self._unpacked(), partition.parts, is_slim=self._is_slim)

    def commit(self, end: dict[str, Any]) -> None:
        self._driving().finish(StreamOffset.from_json(end))


class PoppedStream(AppStream["PopDriver"]):
    """The reader of a run that pops: an offset is the number of a micro-batch."""

    def _new_driver(
        self, program: Program, files: ControlFiles, partitions: int, target_ms: int | None
    ) -> PopDriver:
        from flintmq.spark.listeners.pop_driver import PopDriver

        return PopDriver(program, files, partitions, target_ms)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        number = number_of(start)
        is_planned = self._driving().plan(number, _count_max(limit))
        return numbered(StreamOffset().to_json(), number + 1) if is_planned else start

    def reportLatestOffset(self) -> None:  # noqa: N802
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[PoppedPart]:
        del start
        return [PoppedPart(some) for some in self._driving().tasks(number_of(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from flintmq.spark.tasks.pop_task import listen_popped

        assert isinstance(partition, PoppedPart)
        return listen_popped(self._unpacked(), partition.popped, is_slim=self._is_slim)

    def commit(self, end: dict[str, Any]) -> None:
        self._driving().finish(number_of(end))


def _count_max(limit: ReadLimit) -> int | None:
    return limit.max_rows if isinstance(limit, ReadMaxRows) else None
