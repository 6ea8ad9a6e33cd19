"""The partitions of a micro-batch or a batch query: `cut` makes parts, `bundle` makes tasks.

`cut` turns the span of a queue into one part, or into several consecutive parts of even size where
the options ask for more or smaller tasks.  Parts are in the order of their queues and offsets.

`bundle` lets small parts share a task.  A task costs Spark and its Python worker about as much as
some thousand rows; with hundreds of queues, or a few messages in each, that would be most of the
work.  But the rest of the query in the same task may be slow, so there are enough tasks for all
cores as soon as there are some rows for each.

    few parts, or large ones       a task each
    many parts                     neighbours together, about the same number of rows in each task
    few rows in all                fewer tasks than cores

The number of executors is not known when tasks are planned; the driver's cores are used in its
place.  ``minPartitions`` and ``maxRecordsPerPartition`` are kept.

Invariant: the parts cover the spans exactly, do not overlap, and none is empty.  Every part is in
one bundle, and their order is kept.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.model.queue import QueueOffset, QueueRef, Span


def cut(
    spans: Iterable[Span],
    *,
    origin: Callable[[QueueRef], str],
    partitions: Mapping[QueueRef, int],
    partitions_min: int | None = None,
    records_max: int | None = None,
) -> list[ReadPart]:
    """The parts of all spans.  ``partitions`` is what `partition_numbers` gave."""
    filled = sorted((span for span in spans if len(span)), key=lambda span: span.queue)
    counts = _piece_counts([len(span) for span in filled], partitions_min, records_max)
    return [
        ReadPart(piece, address, partitions.get(span.queue, 0))
        for span, count in zip(filled, counts, strict=True)
        for address in (origin(span.queue),)
        for piece in split_evenly(span, count)
    ]


def partition_numbers(queues: Iterable[QueueRef]) -> dict[QueueRef, int]:
    """The index of each queue in its topic, by broker and queue id: Kafka's partition.

    ``queues`` may repeat some, and is cheapest in order: so are those of a stream with 100,000.
    """
    numbers: dict[QueueRef, int] = {}
    next_of_topic: dict[str, int] = {}
    for queue in sorted(dict.fromkeys(queues)):
        numbers[queue] = next_of_topic.get(queue.topic, 0)
        next_of_topic[queue.topic] = numbers[queue] + 1
    return numbers


def split_evenly(span: Span, count: int) -> list[Span]:
    """Consecutive pieces whose sizes differ by one at most; ``count`` is not above the size."""
    assert 1 <= count <= len(span), (span, count)
    edges = [QueueOffset(span.start + len(span) * n // count) for n in range(count + 1)]
    return [Span(span.queue, start, stop) for start, stop in pairwise(edges)]


def _piece_counts(
    sizes: Sequence[int], partitions_min: int | None, records_max: int | None
) -> list[int]:
    """The number of pieces of each span: the largest pieces are cut until there are enough."""
    counts = [1 if records_max is None else -(-size // records_max) for size in sizes]
    missing = (partitions_min or 0) - sum(counts)
    largest = [(-size / counts[place], place) for place, size in enumerate(sizes)]
    heapq.heapify(largest)
    while missing > 0 and largest:
        _, place = heapq.heappop(largest)
        if counts[place] < sizes[place]:
            counts[place] += 1
            missing -= 1
            heapq.heappush(largest, (-sizes[place] / counts[place], place))
    return counts


Bundle = tuple[ReadPart, ...]

TASKS_AMPLE: Final = 4
"""Parts are not joined to fewer tasks than this while there are rows for them."""

TASKS_A_CORE: Final = 2
"""The same, for each core of the driver: more tasks than cores balance the load."""

ROWS_WORTH_A_TASK: Final = 64
"""A part with fewer rows than this shares its task with others."""

SHARED_ROWS_MAX: Final = 65_536
"""Rows of a task that several parts share.  Beyond that the cost of a task is negligible."""


def bundle(
    parts: Sequence[ReadPart],
    *,
    partitions_min: int | None = None,
    records_max: int | None = None,
    cores: int = 1,
) -> list[Bundle]:
    """The parts of each task, for about ``cores`` cores."""
    rows = sum(len(part.span) for part in parts)
    ample = max(TASKS_AMPLE, TASKS_A_CORE * cores)
    least = max(partitions_min or 1, min(ample, -(-rows // ROWS_WORTH_A_TASK)))
    if len(parts) <= least:
        return [(part,) for part in parts]
    most = min(-(-rows // least), SHARED_ROWS_MAX, records_max or SHARED_ROWS_MAX)
    return _filled(parts, most, least)


def _filled(parts: Sequence[ReadPart], rows_max: int, count_min: int) -> list[Bundle]:
    """Join neighbours up to ``rows_max`` rows; a part with more stays alone."""
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
