"""Popped messages, made by hand: each with the receipt that its pop gave it."""

from __future__ import annotations

from flintmq.core.pop.pop_request import Pop, PopFound
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.protocol.pop.receipts import ReceiptHandle
from support.core.messages import received


def popped(
    pop: Pop, *offsets: int, tags: str | None = None, times: int = 0, pop_ms: int = 1_000
) -> list[ReceivedMessage]:
    """Messages of queue 0 as the answer to ``pop`` has them."""
    source = pop.source
    queue = QueueRef(source.topic, source.broker, 0)
    return [
        received(
            offset,
            queue=queue,
            tags=tags,
            times=times,
            POP_CK=ReceiptHandle(
                offsets[0], pop_ms, pop.invisible_ms, 0, "0", source.broker, 0, offset
            ).text,
        )
        for offset in offsets
    ]


def found(pop: Pop, *offsets: int, tags: str | None = None, times: int = 0) -> PopFound:
    return PopFound(popped(pop, *offsets, tags=tags, times=times))


def newer(handle: ReceiptHandle, pop_ms: int, invisible_ms: int) -> ReceiptHandle:
    """What a broker makes of a handle when the message is hidden anew."""
    return handle._replace(
        start_offset=handle.queue_offset, pop_ms=pop_ms, invisible_ms=invisible_ms
    )
