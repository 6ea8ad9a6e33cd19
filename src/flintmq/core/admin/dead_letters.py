"""Messages a group gave up on: what they were, and how they come back.

A dead letter keeps the properties of the message it was, so its way back is known.  A replay
goes to the group's retry topic: this group gets it once more and no other one does.  To send
it to everyone who reads the original topic is the other choice.

The dead letter itself stays where it is: a queue has no way to take one out.

A dead letter whose body cannot be decoded is shown, and replayed, as it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from flintmq.core.admin.cluster import require_route
from flintmq.core.admin.spans import LocatedSpan, locate_spans
from flintmq.core.admin.topics import TopicKind, list_topics, topic_stats
from flintmq.core.conversation import Conversation, PausingConversation
from flintmq.core.producer.publisher import Publisher, SendRules
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_draft import draft_stored
from flintmq.core.reading.read_span import OnBad, SpanReader, ignore, read_messages
from flintmq.core.routes import NameServers, Routes
from flintmq.errors import InvalidName, NoRoute
from flintmq.model import properties as names
from flintmq.model.group import (
    DEAD_LETTER_PREFIX,
    INNER_PRODUCER_GROUP,
    dead_letter_topic,
    retry_topic,
)
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, Span
from flintmq.model.route import Route
from flintmq.model.sys_flag import COMPRESSED, COMPRESSION_MASK

LIST_MAX = 256
"""Dead letters shown at once unless told otherwise."""

REPLAY_RATE = 10.0
"""Messages a second of a replay unless told otherwise: a group that failed is not flooded."""

LEFT_BEHIND = frozenset(
    {
        names.DELAY,
        names.TIMER_DELAY_SEC,
        names.TIMER_DELAY_MS,
        names.TIMER_DELIVER_MS,
        names.TIMER_OUT_MS,
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
        names.DLQ_ORIGIN_TOPIC,
        names.DLQ_ORIGIN_MESSAGE_ID,
        names.DLQ_REASON,
        names.DLQ_REPLAY_OF,
        names.MIN_OFFSET,
        names.MAX_OFFSET,
        names.CONSUME_START_TIME,
        names.TRAN_MSG,
        names.PRODUCER_GROUP,
        names.CLUSTER,
        names.CRC32,
    }
)
"""What says how a message came to die, and not what it is."""


SEND_MS = 3_000
"""What a Java producer gives a send."""


class ReplayTo(StrEnum):
    """Who gets a dead letter again."""

    GROUP = "group"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class BuriedMessage:
    """A dead letter and the message it was.

    ``reason`` is the text of `DeadLetter` or of the last exception, where the consumer that gave
    the message up was one of FlintMQ; None where it was not, or had no reason.
    """

    message: ReceivedMessage
    origin_topic: str | None
    origin_message_id: str | None
    reason: str | None = None

    @classmethod
    def of(cls, message: ReceivedMessage) -> BuriedMessage:
        found = message.properties
        return cls(
            message,
            origin_topic(found),
            found.get(names.DLQ_ORIGIN_MESSAGE_ID) or found.get(names.ORIGIN_MESSAGE_ID),
            found.get(names.DLQ_REASON) or None,
        )


def origin_topic(properties: Mapping[str, str]) -> str | None:
    """Which topic a dead letter came from, if it says so."""
    return properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC)


@dataclass(frozen=True, slots=True)
class Buried:
    """How many dead letters a group has, and when the last one came."""

    group: str
    count: int
    last_ms: int | None


def count_dead_letters(namesrv: NameServers) -> Conversation[tuple[Buried, ...]]:
    """Every group that has a dead letter topic, in the order of names."""
    found = []
    for topic in (yield from list_topics(namesrv)):
        if topic.kind is TopicKind.DEAD_LETTER:
            queues = yield from topic_stats(namesrv, topic.name)
            times = [each.last_ms for each in queues if each.last_ms is not None]
            group = topic.name.removeprefix(DEAD_LETTER_PREFIX)
            count = sum(each.count for each in queues)
            found.append(Buried(group, count, max(times, default=None)))
    return tuple(found)


def dead_letter_spans(namesrv: NameServers, group: str) -> Conversation[tuple[LocatedSpan, ...]]:
    """Where the dead letters of a group are; nowhere when it never had one."""
    try:
        return (yield from locate_spans(namesrv, dead_letter_topic(group)))
    except NoRoute:
        return ()


def list_dead_letters(
    namesrv: NameServers,
    group: str,
    *,
    count_max: int = LIST_MAX,
    newest: bool = True,
    on_bad: OnBad = ignore,
) -> Conversation[tuple[BuriedMessage, ...]]:
    """The newest of each queue, or the oldest; in the order they were stored."""
    spans = yield from dead_letter_spans(namesrv, group)
    found: list[ReceivedMessage] = []
    for located in spans:
        span = located.span
        if newest:
            start = QueueOffset(max(span.start, span.stop - count_max))
            span = Span(span.queue, start, span.stop)
        reader = SpanReader(span, located.address)
        found += yield from read_messages(reader, count_max=count_max, on_bad=on_bad)
    found.sort(key=lambda message: message.store_ms)
    chosen = found[-count_max:] if newest else found[:count_max]
    return tuple(BuriedMessage.of(message) for message in chosen)


def replay(
    namesrv: NameServers,
    group: str,
    letter: BuriedMessage,
    *,
    to: ReplayTo = ReplayTo.GROUP,
    now_ms: int,
) -> PausingConversation[SendReceipt]:
    """Send one dead letter again, with its own properties and unique id, as if never tried."""
    message = letter.message
    if letter.origin_topic is None:
        reason = "it does not say which topic it came from"
        raise InvalidName("message id", message.message_id, reason)
    topic, kept = new_life(message.properties, letter.origin_topic, group, to)
    kept[names.DLQ_REPLAY_OF] = replay_name(message)
    route = yield from require_route(namesrv, topic)
    return (
        yield from send_again(
            route,
            topic,
            kept,
            message.body,
            flag=message.flag,
            sys_flag=_packing(message.sys_flag),
            broker=message.broker,
            turn=message.queue_offset,
            now_ms=now_ms,
        )
    )


def replay_name(message: ReceivedMessage) -> str:
    """What a replayed copy calls its dead letter."""
    return name_letter(message.broker, message.queue_id, message.queue_offset, message.store_ms)


def name_letter(broker: str, queue_id: int, queue_offset: int, store_ms: int) -> str:
    """The place of a dead letter and its time: a topic that was deleted starts again at 0."""
    return f"{broker}/{queue_id}/{queue_offset}/{store_ms}"


def _packing(sys_flag: int) -> int:
    """How a body is packed that could not be unpacked; 0 for all others."""
    return sys_flag & (COMPRESSED | COMPRESSION_MASK) if sys_flag & COMPRESSED else 0


def new_life(
    properties: Mapping[str, str], origin: str, group: str, to: ReplayTo
) -> tuple[str, dict[str, str]]:
    """Where a dead letter goes when it is sent again, and what it keeps."""
    kept = {name: value for name, value in properties.items() if name not in LEFT_BEHIND}
    if to is ReplayTo.GROUP:
        return retry_topic(group), {**kept, names.RETRY_TOPIC: origin}
    kept.pop(names.RETRY_TOPIC, None)
    return origin, kept


def send_again(
    route: Route,
    topic: str,
    properties: dict[str, str],
    body: bytes,
    *,
    flag: int,
    broker: str,
    turn: int,
    now_ms: int,
    sys_flag: int = 0,
) -> PausingConversation[SendReceipt]:
    """Send what was dead to a queue of this topic: on ``broker`` if it has some there.

    ``sys_flag`` says how the body is packed, where it could not be unpacked.
    """
    queues = route.publish_queues(topic)
    if not queues:
        raise NoRoute(topic, "no broker takes messages for it")
    here = [queue for queue in queues if queue.broker == broker] or queues
    queue = here[turn % len(here)]
    if route.address(queue.broker) is None:
        raise NoRoute(topic, f"broker {queue.broker} is not there or has no master")
    routes = Routes()
    routes.update(topic, route)
    publisher = Publisher(
        INNER_PRODUCER_GROUP,
        routes,
        clock=lambda: now_ms,
        chance=lambda: 0.0,
        rules=SendRules(retries=0),  # whoever replays decides what to try again
    )
    draft = draft_stored(topic, body, properties, now_ms=now_ms, flag=flag, sys_flag=sys_flag)
    receipt = yield from publisher.send_to(draft, queue, SEND_MS)
    if receipt.message_id:
        return receipt
    return msgspec.structs.replace(receipt, message_id=receipt.offset_message_id)
