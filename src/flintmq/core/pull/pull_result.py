"""What a pull gave, for those who pull by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from flintmq.core.bad_record_rule import OnBadRecord, broken_frame, stopped_by, stops
from flintmq.core.consumer.assigned_queue import as_listeners_see
from flintmq.core.group.pull_answers import (
    MessagesFound,
    NoneMatched,
    NoNewMessage,
    OffsetMoved,
    Unreadable,
)
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.model import properties as names
from flintmq.model.bad_record import BadRecord
from flintmq.model.group import without_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef


class PullStatus(StrEnum):
    FOUND = "found"
    NO_NEW_MESSAGE = "no new message"
    NONE_MATCHED = "none matched"
    OFFSET_MOVED = "offset moved"
    """The queue does not have the offset; ``next_offset`` is one that it has."""


class PullResult(NamedTuple):
    """``next_offset`` is where to pull next; the queue reaches from min to before max.

    ``bad`` are the records before ``next_offset`` that cannot be decoded.
    """

    status: PullStatus
    messages: Sequence[ReceivedMessage]
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset
    bad: Sequence[BadRecord] = ()

    def __repr__(self) -> str:
        return (
            f"<PullResult {self.status}, {len(self.messages)} messages, "
            f"next {self.next_offset} of {self.min_offset} to {self.max_offset}>"
        )


_STATUS: Final = {
    MessagesFound: PullStatus.FOUND,
    NoNewMessage: PullStatus.NO_NEW_MESSAGE,
    NoneMatched: PullStatus.NONE_MATCHED,
    OffsetMoved: PullStatus.OFFSET_MOVED,
}


def result_of(
    answer: MessagesFound | NoNewMessage | NoneMatched | OffsetMoved,
    queue: QueueRef,
    subscription: TopicSubscription,
    *,
    is_retry: bool,
    namespace: str,
    rule: OnBadRecord = "skip",
) -> PullResult:
    """An answer as its caller sees it: tags compared again, topics without the namespace.

    With a rule that stops at a bad record nothing behind it is given; `UndecodableRecord` is
    raised where that leaves nothing.
    """
    messages: Sequence[ReceivedMessage] = ()
    bad: Sequence[BadRecord] = ()
    next_offset = answer.next_offset
    if isinstance(answer, MessagesFound):
        messages, bad = answer.messages, answer.bad
        end = next((one for one in bad if stops(rule, one)), None)
        if end is not None:
            next_offset = end.queue_offset
            messages = [m for m in messages if m.queue_offset < next_offset]
            bad = [one for one in bad if one.queue_offset < next_offset]
            if not messages:
                topic = without_namespace(namespace, queue.topic)
                raise stopped_by(QueueRef(topic, queue.broker, queue.queue_id), end)
        if subscription.is_filtered_here:
            tags = subscription.chosen.tags
            messages = [m for m in messages if m.properties.get(names.TAGS) in tags]
        messages = as_listeners_see(messages, queue, is_retry=is_retry, namespace=namespace)
    return PullResult(
        _STATUS[type(answer)],
        messages,
        next_offset,
        answer.min_offset,
        answer.max_offset,
        bad,
    )


def given_up(answer: Unreadable, queue: QueueRef, offset: QueueOffset) -> MessagesFound:
    """An answer of which nothing can be read, as one with a bad record at ``offset``."""
    return MessagesFound(
        QueueOffset(offset + 1),
        answer.broker_id,
        answer.min_offset,
        answer.max_offset,
        bad=[broken_frame(queue, offset, answer.fault.reason)],
    )
