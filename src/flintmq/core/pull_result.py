"""What a pull gave, for those who pull by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from flintmq.core.assigned_queue import as_listeners_see
from flintmq.core.pull_answers import Found, NoneMatched, NoNewMessage, OffsetMoved, PullAnswer
from flintmq.core.subscriptions import TopicSubscription
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef


class PullStatus(StrEnum):
    FOUND = "found"
    NO_NEW_MESSAGE = "no new message"
    NONE_MATCHED = "none matched"
    OFFSET_MOVED = "offset moved"
    """The queue does not have the offset; ``next_offset`` is one that it has."""


class PullResult(NamedTuple):
    """``next_offset`` is where to pull next; the queue reaches from min to before max."""

    status: PullStatus
    messages: Sequence[ReceivedMessage]
    next_offset: QueueOffset
    min_offset: QueueOffset
    max_offset: QueueOffset

    def __repr__(self) -> str:
        return (
            f"<PullResult {self.status}, {len(self.messages)} messages, "
            f"next {self.next_offset} of {self.min_offset} to {self.max_offset}>"
        )


_STATUS: Final = {
    Found: PullStatus.FOUND,
    NoNewMessage: PullStatus.NO_NEW_MESSAGE,
    NoneMatched: PullStatus.NONE_MATCHED,
    OffsetMoved: PullStatus.OFFSET_MOVED,
}


def result_of(
    answer: PullAnswer,
    queue: QueueRef,
    subscription: TopicSubscription,
    *,
    is_retry: bool,
    namespace: str,
) -> PullResult:
    """An answer as its caller sees it: tags compared again, topics without the namespace."""
    messages: Sequence[ReceivedMessage] = ()
    if isinstance(answer, Found):
        messages = answer.messages
        if subscription.is_filtered_here:
            tags = subscription.chosen.tags
            messages = [m for m in messages if m.properties.get(names.TAGS) in tags]
        messages = as_listeners_see(messages, queue, is_retry=is_retry, namespace=namespace)
    return PullResult(
        _STATUS[type(answer)],
        messages,
        answer.next_offset,
        answer.min_offset,
        answer.max_offset,
    )
