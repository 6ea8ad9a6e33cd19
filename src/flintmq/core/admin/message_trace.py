"""The life of a message: sent, stored, consumed, sent back, dead.

    trace topic   who sent it, who consumed it, how long that took, how it ended
    key index     where it is stored: in its topic, in retry topics, as a dead letter

Clients write traces only when they are told to, and some seconds late; what is stored is known
without them.  A key finds at most `TRACES_MAX` trace messages on each broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from flintmq.core.admin.messages import messages_by_id, messages_by_key
from flintmq.core.conversation import Conversation
from flintmq.core.group.listener_results import ReturnKind
from flintmq.core.producer.trace_reader import read_trace
from flintmq.core.producer.trace_records import (
    ConsumedRecord,
    Consuming,
    Published,
    Record,
    TransactionEnded,
)
from flintmq.core.routes import NameServers
from flintmq.errors import NoRoute
from flintmq.model.group import (
    dead_letter_topic,
    is_dead_letter_topic,
    is_retry_topic,
    retry_topic,
)
from flintmq.model.message import ReceivedMessage
from flintmq.model.topic import TRACE_TOPIC

TRACES_MAX: Final = 64
"""Trace messages of one key: what a broker gives at most."""


@dataclass(frozen=True, slots=True)
class TracedConsumption:
    """One call of a listener.  What only its end or only its beginning told is None."""

    group: str
    started_ms: int | None
    ended_ms: int | None
    spent_ms: int | None
    retry_times: int | None
    success: bool | None
    returned: ReturnKind | None


@dataclass(frozen=True, slots=True)
class MessageLife:
    """What is known of a message, each part in the order of time.

    ``copies`` are where it is stored: first its own topic, then retries and dead letters.
    """

    message_id: str
    sends: tuple[Published, ...]
    transactions: tuple[TransactionEnded, ...]
    consumptions: tuple[TracedConsumption, ...]
    copies: tuple[ReceivedMessage, ...]
    unreadable: int = 0
    """Records of trace messages that could not be read."""

    @property
    def is_empty(self) -> bool:
        return not (self.sends or self.transactions or self.consumptions or self.copies)


def trace_message(
    namesrv: NameServers,
    message_id: str,
    *,
    topic: str | None = None,
    trace_topic: str = TRACE_TOPIC,
) -> Conversation[MessageLife]:
    """Find the traces of a unique id, and where the message is stored.

    ``topic`` is needed only where no trace of a send tells it.
    """
    records, unreadable = yield from _records(namesrv, message_id, trace_topic)
    sends = [each for each in records if isinstance(each, Published)]
    ends = [each for each in records if isinstance(each, TransactionEnded)]
    calls = _consumptions(records)
    topics = [topic] if topic is not None else []
    topics += [each.topic for each in sends]
    topics += [each.topic for each in ends]
    for group in dict.fromkeys(each.group for each in calls):
        topics += [retry_topic(group), dead_letter_topic(group)]
    copies: list[ReceivedMessage] = []
    for name in dict.fromkeys(topics):
        copies += yield from _stored(namesrv, name, message_id, is_required=name == topic)
    return MessageLife(
        message_id,
        tuple(sorted(sends, key=lambda each: each.at_ms)),
        tuple(sorted(ends, key=lambda each: each.at_ms)),
        calls,
        tuple(copies),
        unreadable,
    )


def _records(
    namesrv: NameServers, message_id: str, trace_topic: str
) -> Conversation[tuple[list[Record], int]]:
    try:
        found = yield from messages_by_key(namesrv, trace_topic, message_id, count_max=TRACES_MAX)
    except NoRoute:
        return [], 0
    records: list[Record] = []
    unreadable = 0
    for message in found:
        read = read_trace(message.body.decode(errors="replace"))
        records += (each for each in read.records if each.message_id == message_id)
        unreadable += read.unreadable
    return records, unreadable


def _stored(
    namesrv: NameServers, topic: str, message_id: str, *, is_required: bool
) -> Conversation[tuple[ReceivedMessage, ...]]:
    try:
        return (yield from messages_by_id(namesrv, topic, message_id))
    except NoRoute:
        if is_required:
            raise
        return ()


def _consumptions(records: list[Record]) -> tuple[TracedConsumption, ...]:
    """Beginnings and ends with the same request id belong together."""
    begun = {each.request_id: each for each in records if isinstance(each, Consuming)}
    ended = {each.request_id: each for each in records if isinstance(each, ConsumedRecord)}
    found = [_consumption(begun.get(each), ended.get(each)) for each in {**begun, **ended}]
    return tuple(sorted(found, key=lambda each: each.started_ms or each.ended_ms or 0))


def _consumption(begun: Consuming | None, ended: ConsumedRecord | None) -> TracedConsumption:
    group = begun.group if begun is not None else (ended and ended.group) or "?"
    ended_ms = None if ended is None or ended.at_ms <= 0 else ended.at_ms
    if begun is not None and ended is not None and ended_ms is None:
        ended_ms = begun.at_ms + ended.spent_ms
    return TracedConsumption(
        group,
        None if begun is None else begun.at_ms,
        ended_ms,
        None if ended is None else ended.spent_ms,
        None if begun is None else begun.retry_times,
        None if ended is None else ended.success,
        None if ended is None else ended.returned,
    )


# In words


class LifeEvent(NamedTuple):
    """One thing that happened to a message, in words."""

    at_ms: int
    what: str
    who: str
    detail: str
    is_bad: bool = False


def life_events(life: MessageLife) -> list[LifeEvent]:
    """What happened, in the order of time."""
    events = [
        LifeEvent(
            each.at_ms,
            "sent" if each.success else "send failed",
            each.group,
            f"{each.body_bytes} bytes to {each.store_host} in {each.spent_ms} ms",
            not each.success,
        )
        for each in life.sends
    ]
    events += [
        LifeEvent(
            each.at_ms,
            "transaction",
            each.group,
            f"{each.state}{' after a check' if each.from_check else ''}",
        )
        for each in life.transactions
    ]
    events += [
        LifeEvent(
            each.store_ms,
            stored_as(each),
            each.broker,
            _place(each),
            is_dead_letter_topic(each.topic),
        )
        for each in life.copies
    ]
    for call in life.consumptions:
        at_ms = call.ended_ms if call.started_ms is None else call.started_ms
        match call.success:
            case None:
                how = "no end is known"
            case True:
                how = f"consumed in {call.spent_ms} ms"
            case False:
                how = f"failed in {call.spent_ms} ms: {call.returned}"
        tried = "" if call.retry_times is None else f", try {call.retry_times + 1}"
        events.append(
            LifeEvent(at_ms or 0, "delivered", call.group, how + tried, call.success is False)
        )
    return sorted(events)


def stored_as(copy: ReceivedMessage) -> str:
    """What a copy of a message is: the message itself, a retry or a dead letter."""
    if is_dead_letter_topic(copy.topic):
        return "dead letter"
    return "sent back" if is_retry_topic(copy.topic) else "stored"


def _place(copy: ReceivedMessage) -> str:
    return f"{copy.topic}, queue {copy.queue_id}, offset {copy.queue_offset}"
