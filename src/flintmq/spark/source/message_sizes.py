"""The average size of the messages of each queue, for limits in bytes.

A broker reports how many messages a queue holds, not how large they are, and tasks cannot report
sizes to the driver.  So the driver itself samples a few messages of a queue before the first
micro-batch that reads it, and again from time to time.

Invariant: sizes are per offset: a message that a filter leaves out counts as zero bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flintmq.arrow.reading.queue_source import PageReader, ReadPart
from flintmq.core.reading.read_span import Wanted
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.source.stream_offset import StreamOffset

SAMPLE_MESSAGES: Final = 32
"""The most that a broker with default settings returns for one pull."""

BATCHES_BETWEEN: Final = 16
"""A queue is sampled again after so many micro-batches."""

NEW_SHARE: Final = 0.5
"""The weight of a new sample in the moving average."""


class MessageSizes:
    """Bytes per message, queue by queue."""

    def __init__(self, reader: PageReader, wanted: Wanted) -> None:
        self._reader = reader
        self._wanted = wanted
        self._bytes: dict[QueueRef, float] = {}
        self._batches_since: dict[QueueRef, int] = {}

    def measure(
        self,
        previous: StreamOffset,
        stops: dict[QueueRef, QueueOffset],
        origin: Callable[[QueueRef], str],
    ) -> dict[QueueRef, int]:
        """Sample the queues with new messages where that is due; the sizes known so far."""
        for queue, start in previous.stops.items():
            stop = min(stops.get(queue, start), start + SAMPLE_MESSAGES)
            if stop <= start:
                continue
            since = self._batches_since.get(queue, BATCHES_BETWEEN)
            if since >= BATCHES_BETWEEN:
                span = Span(queue, start, QueueOffset(stop))
                self._update(queue, self._sample(ReadPart(span, origin(queue))))
                since = 0
            self._batches_since[queue] = since + 1
        return {queue: max(1, round(size)) for queue, size in self._bytes.items()}

    def _sample(self, part: ReadPart) -> float:
        size_bytes = sum(
            len(page.records) for page in self._reader.pages(part, self._wanted, SAMPLE_MESSAGES)
        )
        return size_bytes / len(part.span)

    def _update(self, queue: QueueRef, size: float) -> None:
        known = self._bytes.get(queue, size)
        self._bytes[queue] = known + (size - known) * NEW_SHARE
