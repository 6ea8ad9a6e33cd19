"""In the program that started queries: tell sources that a batch is done, see `heard_ends`."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flintmq.spark.source.batch_end_socket import ADDRESS, TELL_S


class TellSources(StreamingQueryListener):
    """Tells those sources of a query that are ours."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Nothing is done yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        for source in event.progress.sources:
            address = _address_in(source.latestOffset)
            if address is not None and source.endOffset:
                _tell(address, source.endOffset)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's name
        """An idle source is asked, and knows."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's
        """The source process is gone."""


_told_for: WeakSet[SparkSession] = WeakSet()


def tell_sources(spark: object) -> None:
    """See that sources hear of the batches of this session's queries.

    Not through Spark Connect, where the program is on another machine.
    """
    if isinstance(spark, SparkSession) and spark not in _told_for and hasattr(socket, "AF_UNIX"):
        spark.streams.addListener(TellSources())
        _told_for.add(spark)


def _address_in(reported: str | None) -> str | None:
    if not reported or f'"{ADDRESS}"' not in reported:
        return None
    try:
        tree = json.loads(reported)
    except ValueError:
        return None
    address = tree.get(ADDRESS) if isinstance(tree, dict) else None
    return address if isinstance(address, str) else None


def _tell(address: str, offset: str) -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as sock:  # it may have ended
        sock.settimeout(TELL_S)
        sock.connect(address)
        sock.sendall(offset.encode())
