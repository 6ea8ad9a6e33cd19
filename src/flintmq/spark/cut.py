"""Cutting what is to be read into parts, one for each task.

A queue is one part, or several consecutive ones of even size where the options ask for more or
smaller tasks.  Parts come in the order of their queues and offsets.

Invariant: the parts cover the spans exactly, do not overlap, and none is empty.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.queues import ReadPart


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
    """The place of each queue among all of its topic, by broker and id: Kafka's partition."""
    numbers: dict[QueueRef, int] = {}
    next_of_topic: dict[str, int] = {}
    for queue in sorted(queues):
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
    """How many pieces each span gets: the largest pieces are cut until there are enough."""
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
