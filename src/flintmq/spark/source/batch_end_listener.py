"""In the program that started queries: write the end of each micro-batch for its sources.

The other end is `FinishedBatches` in `flintmq.spark.source.control_files`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flintmq.spark.source.control_files import DIRECTORY, FINISHED, PREFIX, ControlFiles
from flintmq.spark.versions.progress_offsets import read_offset


class BatchEndListener(StreamingQueryListener):
    """Writes ``finished`` for those sources of a query that report a control directory."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """No micro-batch is finished yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        for source in event.progress.sources:
            end = read_offset(source.endOffset)
            directory = _directory_in(read_offset(source.latestOffset)) or _directory_in(end)
            if directory is not None and end is not None:
                with suppress(OSError):  # the source process may have ended
                    ControlFiles(directory).write(FINISHED, end)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """Spark asks an idle source for its latest offset, which reports the last micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's
        """The source process has ended."""


_sessions: WeakSet[SparkSession] = WeakSet()


def report_batch_ends(spark: object) -> None:
    """Add a `BatchEndListener` to a session, once.

    A session of Spark Connect gets none: its program runs on another machine than the sources.
    """
    if isinstance(spark, SparkSession) and spark not in _sessions:
        spark.streams.addListener(BatchEndListener())
        _sessions.add(spark)


def _directory_in(reported: dict[str, Any] | None) -> str | None:
    """The control directory that an offset names; None for sources that are not ours."""
    directory = None if reported is None else reported.get(DIRECTORY)
    if not isinstance(directory, str) or not Path(directory).name.startswith(PREFIX):
        return None
    return directory
