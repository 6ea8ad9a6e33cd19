"""A message that failed, sent as a new one to the group's retry topic.

Usually the broker itself stores it again (CONSUMER_SEND_MSG_BACK, 36).  Where that fails, for
example because the broker that has the message is unreachable, another can take a copy.  The
properties say what it is a copy of, how often it was tried, and how long it waits.

A dead letter goes this way first: a copy can carry the reason (`DLQ_REASON`), which
CONSUMER_SEND_MSG_BACK cannot.  The copy says that it was tried more often than allowed, and every
broker of RocketMQ moves such a message from the retry topic to the dead letters, with all its
properties.

Invariant: a reason is one printable line of at most `REASON_CHARACTERS_MAX` characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flintmq.core.group.actions import SendBack, SendToRetry
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.printable import printable

FIRST_LEVEL: Final = 3
"""The delay level of the first try; every further one is a level higher."""

EXPIRED_LEVEL: Final = 3
"""The delay level of a message whose listener took too long."""

REASON_CHARACTERS_MAX: Final = 400
"""Characters of a reason that travel.  All properties of a message share 32,767 bytes."""

_DROPPED: Final = frozenset(
    {
        names.TRAN_MSG,
        names.MIN_OFFSET,
        names.MAX_OFFSET,
        names.CONSUME_START_TIME,
        names.TIMER_DELAY_MS,
        names.TIMER_DELAY_SEC,
        names.TIMER_DELIVER_MS,
        names.DLQ_REASON,
        names.POP_CK,
        names.POP_CK_OFFSET,
        names.FIRST_POP_TIME,
    }
)
"""What was true of the message as it came to us, and is not of its copy."""


def is_given_up(ask: SendBack) -> bool:
    """Whether the message becomes a dead letter: by its listener's wish, or after its last try."""
    return ask.delay_level == DEAD_LETTER_LEVEL or ask.message.reconsume_times >= ask.tries_max


def copy_to_retry(ask: SendBack, topic: str) -> SendToRetry:
    """What to send to the retry topic, for a dead letter or where ``ask`` failed."""
    properties = retry_properties(ask.message, ask.delay_level, ask.tries_max)
    if is_given_up(ask):
        properties[names.DLQ_REASON] = short_reason(ask)
        properties[names.DELAY] = "0"  # 4.9 would let the dead letter wait too
    return SendToRetry(ask, topic, properties)


def near(queue: QueueRef, queues: Sequence[QueueRef]) -> Sequence[QueueRef]:
    """The queues of the broker that has the message, as with a send-back; all if it has none."""
    return tuple(each for each in queues if each.broker == queue.broker) or queues


def short_reason(ask: SendBack) -> str:
    """Why a message was given up, in one line."""
    reason = printable(ask.reason).strip()
    reason = reason or f"not consumed at try {ask.message.reconsume_times + 1}"
    if len(reason) <= REASON_CHARACTERS_MAX:
        return reason
    return reason[: REASON_CHARACTERS_MAX - 1] + "…"


def retry_properties(message: ReceivedMessage, delay_level: int, tries_max: int) -> dict[str, str]:
    """The properties of the copy.

    For the dead letters it says that it was tried more often than allowed: with that every
    broker puts it there.
    """
    kept = {name: text for name, text in message.properties.items() if name not in _DROPPED}
    times = message.reconsume_times + 1
    if delay_level == DEAD_LETTER_LEVEL:
        tries_max = min(tries_max, message.reconsume_times)
    kept.setdefault(names.RETRY_TOPIC, message.topic)
    if not kept.get(names.ORIGIN_MESSAGE_ID, "").strip():
        kept[names.ORIGIN_MESSAGE_ID] = message.offset_message_id
    kept[names.RECONSUME_TIME] = str(times)
    kept[names.MAX_RECONSUME_TIMES] = str(tries_max)
    kept[names.DELAY] = str(
        delay_level if delay_level > 0 else FIRST_LEVEL + message.reconsume_times
    )
    return kept
