"""Which parts share a task: those with few messages, where there are many of them.

A task costs Spark and its Python worker about as much as some thousand rows.  With hundreds of
queues, or a few messages in each, that would be most of the work.  But what follows in the same
task may be slow, so there are enough tasks for all cores as soon as there are some rows for each.

    few parts, or large ones       a task each
    many                           neighbours together, about the same number of rows in each task
    few rows in all                fewer tasks than cores

The number of executors is not known where tasks are planned; that of the driver's cores stands in
for it.  ``minPartitions`` is kept, and so is ``maxRecordsPerPartition``.

Invariant: every part is in one bundle, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flintmq.spark.queues import ReadPart

Bundle = tuple[ReadPart, ...]

TASKS_AMPLE: Final = 4
"""So many tasks are always left where there are rows for them."""

TASKS_A_CORE: Final = 2
"""The same for each core of the driver: more tasks than cores even out."""

ROWS_WORTH_A_TASK: Final = 64
"""Fewer rows than this do not get a task of their own while others have as few."""

SHARED_ROWS_MAX: Final = 65_536
"""Rows of a task that several parts share.  Then what a task costs does not count any more."""


def bundle(
    parts: Sequence[ReadPart],
    *,
    partitions_min: int | None = None,
    records_max: int | None = None,
    cores: int = 1,
) -> list[Bundle]:
    """The parts of each task, for about so many cores."""
    rows = sum(len(part.span) for part in parts)
    ample = max(TASKS_AMPLE, TASKS_A_CORE * cores)
    least = max(partitions_min or 1, min(ample, -(-rows // ROWS_WORTH_A_TASK)))
    if len(parts) <= least:
        return [(part,) for part in parts]
    most = min(-(-rows // least), SHARED_ROWS_MAX, records_max or SHARED_ROWS_MAX)
    return _filled(parts, most, least)


def _filled(parts: Sequence[ReadPart], rows_max: int, count_min: int) -> list[Bundle]:
    """Neighbours together up to so many rows; a part with more stays alone."""
    bundles: list[list[ReadPart]] = []
    rows = 0
    for place, part in enumerate(parts):
        is_needed = len(bundles) + len(parts) - place <= count_min
        if not bundles or is_needed or rows + len(part.span) > rows_max:
            bundles.append([])
            rows = 0
        bundles[-1].append(part)
        rows += len(part.span)
    return [tuple(each) for each in bundles]
