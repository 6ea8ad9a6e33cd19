"""The first message of a queue that was stored at a time or later, exactly.

Brokers answer this question (SEARCH_OFFSET_BY_TIMESTAMP, 29), and not all alike: between two
messages 4.9 gives the earlier one and 5.x the later; of several messages of the same millisecond
4.9 gives any.  So the answer is a guess, and the store times of the messages around it are
compared: usually two, and where many messages share a millisecond, as many as a binary search
needs.

Invariant: with store times that do not go back, every message before the result was stored
before the time, and the one at the result, if there is one, at the time or later.
"""

from __future__ import annotations

from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import offset_at
from flintmq.core.reading.read_span import SpanReader
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span
from flintmq.protocol.records.record_scan import scan_records


def first_at(
    address: str, queue: QueueRef, time_ms: int, bounds: Extent
) -> Conversation[QueueOffset]:
    """The offset; the end of the queue when all its messages are older."""
    if bounds.start >= bounds.stop:
        return bounds.stop
    low, high = bounds.start - 1, int(bounds.stop)  # the last older one, and the first that is not
    at, step = int((yield from offset_at(address, queue, time_ms))), 1
    while high - low > 1:
        at = min(max(at, low + 1), high - 1)
        is_older = yield from _is_older(address, queue, at, time_ms)
        if is_older:
            low = at
        else:
            high = at
        if low >= bounds.start and high < bounds.stop:
            at = (low + high) // 2
        else:  # one side is still unknown: towards it in growing steps
            at += step if is_older else -step
            step *= 2
    return QueueOffset(high)


def _is_older(address: str, queue: QueueRef, offset: int, time_ms: int) -> Conversation[bool]:
    """Whether the message was stored before the time; one that is deleted was."""
    span = Span(queue, QueueOffset(offset), QueueOffset(offset + 1))
    reader = SpanReader(span, address, count_max=1)
    call = reader.call()
    assert call is not None
    page = reader.answered((yield call))
    stored_ms = scan_records(page.records).store_ms
    return not len(stored_ms) or int(stored_ms[0]) < time_ms
