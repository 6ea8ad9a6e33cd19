"""The lag between two offsets of ours in Spark's progress reports."""

from __future__ import annotations

from typing import Any

from flintmq.spark.environment.requirements import has_read_limits
from flintmq.spark.source.stream_offset import StreamOffset


def lag_by_topic(end: dict[str, Any], latest: dict[str, Any] | None) -> dict[str, int] | None:
    """Messages between the end of a micro-batch and the newest; None where nobody knows them.

    Older versions of Spark do not ask for the newest and repeat the end.
    """
    if latest is None or not has_read_limits():
        return None
    done = StreamOffset.from_json(end).stops
    found: dict[str, int] = {}
    for queue, stop in StreamOffset.from_json(latest).stops.items():
        left = max(0, stop - done.get(queue, stop))
        found[queue.topic] = found.get(queue.topic, 0) + left
    return found
