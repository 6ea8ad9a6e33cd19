"""A stream on pyspark 4.0 and 4.1, which ask for the latest offset without saying since when.

Newer versions call ``latestOffset(start, limit)``.  Older ones call ``latestOffset()`` and expect
the end of the whole stream; so this reader remembers where the last micro-batch ended, and gives
the end of the next step from there:

    new query      the initial offset ───► reached ──► latestOffset(): one step further
    restarted      partitions(x, x) ─────► reached      ▲       │
    micro-batch    partitions(a, b) ─────► reached ─────┘◄──────┘

A restarted query is told the end of its last micro-batch by a call of `partitions` with an empty
range, before it is asked for anything.  A new query is asked for its latest offset at once, and for
its initial offset later.

Older versions also run Trigger.AvailableNow as one micro-batch, and do not tell a source which
trigger its query has: see `check_trigger`.

Invariant: a step starts where the last one ended, also after a restart; the same micro-batch that
runs again moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from flintmq.errors import InvalidSetting, WrongState
from flintmq.spark.environment.requirements import READ_LIMITS_SINCE, pyspark_version, version_text
from flintmq.spark.versions.read_limits import ReadLimit

WRAPPER: Final = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
"""With it, Spark asks for the latest offset of a query before it says where the query is."""


class LimitedReader(Protocol):
    """A reader for pyspark 4.2 and newer."""

    def initialOffset(self) -> dict[str, Any]: ...  # noqa: N802  # Spark's name
    def getDefaultReadLimit(self) -> ReadLimit: ...  # noqa: N802
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...  # noqa: N802
    def reportLatestOffset(self) -> dict[str, Any] | None: ...  # noqa: N802
    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]: ...
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...
    def commit(self, end: dict[str, Any]) -> None: ...
    def stop(self) -> None: ...


class SteppingReader(DataSourceStreamReader):
    """Has a reader for newer versions plan one step after the other.

    ``reported`` are keys of the reported latest offset that become part of each offset: older
    versions do not ask for what a source reports.
    """

    def __init__(self, inner: LimitedReader, reported: Sequence[str] = ()) -> None:
        self._inner = inner
        self._reported = tuple(reported)
        self._initial: dict[str, Any] | None = None
        self._reached: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Always the same: the first step starts there, whichever of the two is asked for first."""
        if self._initial is None:
            self._initial = self._inner.initialOffset()
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802  # as old ones call it
        start = self.initialOffset() if self._reached is None else self._reached
        found = self._inner.latestOffset(start, self._inner.getDefaultReadLimit())
        if found is not start:
            told = self._inner.reportLatestOffset() or {}
            found = {**found, **{key: told[key] for key in self._reported if key in told}}
        self._reached = found
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start != end:
            self._reached = end
            return self._inner.partitions(start, end)
        if self._reached is not None:
            reason = "Trigger.AvailableNow cannot be planned with it: set it to false"
            raise WrongState(WRAPPER, "true", reason)
        self._reached = end
        return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._inner.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._inner.commit(end)

    def stop(self) -> None:
        self._inner.stop()


def check_trigger(option: str, limit: int | None) -> None:
    """Refuse a limit that would end a query with one micro-batch before it has read everything."""
    if limit is None:
        return
    here, newer = version_text(pyspark_version()), version_text(READ_LIMITS_SINCE)
    reason = (
        f"pyspark {here} runs Trigger.AvailableNow and Once as one micro-batch, which would end at "
        f"this limit, and does not tell a source its trigger: set the option trigger=interval if "
        f"the query has another one; else leave the limit out, take pyspark {newer}, or use "
        "flintmq.spark.for_each_batch"
    )
    raise InvalidSetting(option, str(limit), reason)
