"""Pages of records as a broker sends them."""

from __future__ import annotations

from flintmq.core.reading.read_span import Page
from flintmq.model.queue import QueueOffset, QueueRef

QUEUE = QueueRef("orders", "broker-a", 3)


def page_of(octets: bytes, start: int = 0, stop: int = 100, delta: int = 0) -> Page:
    bounds = QueueOffset(start), QueueOffset(stop)
    return Page(QUEUE, *bounds, octets, QueueOffset(0), QueueOffset(100), delta)
