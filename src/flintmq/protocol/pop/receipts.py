"""The receipt handle of a popped message, and how clients make it from an answer.

A handle is eight fields with a space between: start offset, pop time, invisible time, revive
queue, mark of the topic, broker, queue, offset.  Proxies append the offset in the log as a ninth.
It is the ``extraInfo`` of ACK_MESSAGE (200051) and CHANGE_MESSAGE_INVISIBLETIME (200053) and the
property ``POP_CK`` of messages.

Only messages that come back through a retry topic carry their handle; for the others the client
puts it together from the header of the answer, here in `receipts_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from flintmq.errors import MalformedHeader
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset
from flintmq.protocol.headers.pop import InvisibleTimeAnswer, PopAnswer
from flintmq.protocol.pop.offset_texts import (
    MarkedQueue,
    parse_message_offsets,
    parse_order_counts,
    parse_start_offsets,
)
from flintmq.protocol.pop.retry_topics import mark_of, marked_topic

ORDERED_REVIVE_QUEUE: Final = 999
"""The revive queue in handles of ordered pops: nothing of them is ever revived."""

FIELD_SEPARATOR: Final = " "
FIELDS_MIN: Final = 8
FIELDS_MAX: Final = 9

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class ReceiptHandle(NamedTuple):
    """One delivery of one message."""

    start_offset: int
    """Where the read began that found the message; it and the pop time name the pop."""
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: str
    broker: str
    queue_id: int
    queue_offset: int
    log_offset: int | None = None
    """Only in handles of a proxy."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a whole handle.  Raises `MalformedHeader`."""
        parts = text.split(FIELD_SEPARATOR)
        if not FIELDS_MIN <= len(parts) <= FIELDS_MAX:
            raise MalformedHeader("extraInfo", f"{len(parts)} fields are no handle")
        start, pop_ms, invisible_ms, revive_queue_id = map(_number, parts[:4])
        queue_id, queue_offset = map(_number, parts[6:8])
        log_offset = _number(parts[8]) if len(parts) == FIELDS_MAX else None
        return cls(
            start, pop_ms, invisible_ms, revive_queue_id, parts[4], parts[5],
            queue_id, queue_offset, log_offset,
        )  # fmt: skip

    @property
    def text(self) -> str:
        """As it travels."""
        text = self.broker_text
        return text if self.log_offset is None else f"{text}{FIELD_SEPARATOR}{self.log_offset}"

    @property
    def broker_text(self) -> str:
        """As a broker gets it: without the offset in the log, which only proxies add."""
        return FIELD_SEPARATOR.join(map(str, self[:-1]))

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE

    @property
    def expires_ms(self) -> int:
        """When the message may come back."""
        return self.pop_ms + self.invisible_ms

    def topic(self, group: str, topic: str) -> str:
        """The topic that the message lies in, for a group that popped ``topic``."""
        return marked_topic(self.mark, group, topic)

    def renewed(self, answer: InvisibleTimeAnswer) -> ReceiptHandle:
        """The handle that replaces this one after CHANGE_MESSAGE_INVISIBLETIME (200053)."""
        return self._replace(
            start_offset=self.queue_offset,
            pop_ms=answer.pop_time,
            invisible_ms=answer.invisible_time,
            revive_queue_id=answer.revive_qid,
        )


class Receipt(NamedTuple):
    """What an answer says about one of its messages."""

    handle: ReceiptHandle
    first_pop_ms: int
    """When the message was first popped, in this or an earlier delivery."""
    reconsume_times: int
    """How often it was delivered before."""


def receipts_of(
    answer: PopAnswer, messages: Sequence[ReceivedMessage], broker: str
) -> list[Receipt]:
    """The receipt of each message, in their order.  Raises `MalformedHeader`."""
    starts = parse_start_offsets(answer.start_offset_info)
    listed = parse_message_offsets(answer.msg_offset_info)
    counts = parse_order_counts(answer.order_count_info)
    found: dict[MarkedQueue, list[QueueOffset]] = {}
    for message in messages:
        if names.POP_CK not in message.properties:
            queue = MarkedQueue(mark_of(message.topic), message.queue_id)
            found.setdefault(queue, []).append(message.queue_offset)
    places = {queue: sorted(offsets) for queue, offsets in found.items()}
    receipts = []
    for message in messages:
        times = message.reconsume_times
        carried = message.properties.get(names.POP_CK)
        if carried is not None:
            handle = ReceiptHandle.parse(carried)
        else:
            queue = MarkedQueue(mark_of(message.topic), message.queue_id)
            offset = message.queue_offset
            if not starts:
                start: int = places[queue][0]
            else:
                start, offset = _place(queue, offset, places[queue], starts, listed)
            handle = ReceiptHandle(
                start, answer.pop_time, answer.invisible_time, answer.revive_qid,
                queue.mark, broker, queue.queue_id, offset,
            )  # fmt: skip
            times = counts.times(queue, offset) or times
        first = message.properties.get(names.FIRST_POP_TIME, "")
        first_ms = int(first) if _NUMBER.fullmatch(first) else answer.pop_time
        receipts.append(Receipt(handle, first_ms, times))
    return receipts


def _place(
    queue: MarkedQueue,
    offset: QueueOffset,
    found: list[QueueOffset],
    starts: dict[MarkedQueue, QueueOffset],
    listed: dict[MarkedQueue, tuple[QueueOffset, ...]],
) -> tuple[int, QueueOffset]:
    """Start offset and offset of a message, as the answer tells them."""
    start, offsets = starts.get(queue), listed.get(queue, ())
    if start is not None and offset in offsets:  # also where a record before it was unreadable
        return start, offset
    index = found.index(offset)
    if start is None or index >= len(offsets):
        raise MalformedHeader(
            "msgOffsetInfo",
            f"nothing is told of offset {offset} in queue {queue.queue_id} ({queue.mark})",
        )
    return start, offsets[index]


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise MalformedHeader("extraInfo", f"{text!r:.40} is no number")
    return int(text)
