"""Starts a streaming query, and again when Spark did not wait long enough for its source.

Spark runs a source in Python in a process of its own, and gives up a query whose process is not up
within ten seconds.  No setting makes them more, and on a machine that is very busy they are not
enough.  Nothing was read or written by then, so the query is simply started again.

Invariant: a query that came as far as its source is never started again here.
"""

from __future__ import annotations

import time
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from flintmq.logs import logger

log = logger("flintmq.spark")

STARTS_MAX: Final = 5
"""A machine that is busy for longer than this needs somebody who looks at it."""

LOOK_S: Final = 0.02

INITIALIZING: Final = "Initializing"
"""How Spark's words for a query begin that does not work yet."""

TOO_SLOW: Final = "failed to connect back"
"""What Spark says of a process that was not up in time."""


def start_query(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query, and come back when it works or has failed."""
    for _ in range(STARTS_MAX - 1):
        query = writer.start()
        if not _was_too_slow(query):
            return query
        log.warning(
            "Spark gave up a query because the process of its source was not up in ten seconds; "
            "this machine is very busy, and the query is started again"
        )
    return writer.start()


def _was_too_slow(query: StreamingQuery) -> bool:
    try:
        while query.isActive and str(query.status["message"]).startswith(INITIALIZING):
            time.sleep(LOOK_S)
    except BaseException:  # whoever interrupts the start has no query to stop
        query.stop()
        raise
    error = query.exception()
    return error is not None and TOO_SLOW in str(error)
