"""One message to one queue, with one try: for admins, who see for themselves how it went.

What producers have beyond it (retries, fault avoidance, compression, batches) is not here.
A topic that is not there yet is sent to where new topics are made, as producers do.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.core.admin_cluster import fetch_route
from flintmq.core.ask import NameServers, ask
from flintmq.core.conversation import Conversation
from flintmq.errors import NoRoute
from flintmq.model import properties as names
from flintmq.model.message import Message
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import Route
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.catalogue import GIVING_CODES
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.properties import format_properties

SEND_MS = 3_000
"""What a Java producer gives a send."""

NEW_TOPIC_QUEUES = 4
"""Queues of a topic that is made by its first message; what Java producers ask for."""

_STORED = GIVING_CODES[RequestCode.SEND_MESSAGE_V2]


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a message went.  ``status`` is not SUCCESS when a copy or a flush came late."""

    message_id: str
    offset_message_id: str
    queue: QueueRef
    queue_offset: QueueOffset
    status: ResponseCode


def send_plain(
    namesrv: NameServers,
    message: Message,
    *,
    group: str,
    unique_id: str,
    now_ms: int,
    turn: int,
    queue: QueueRef | None = None,
) -> Conversation[Stored]:
    """Send to a queue, or to the one whose ``turn`` it is among those that take messages."""
    route = yield from _route_to(namesrv, message.topic)
    queues = route.publish_queues(message.topic)
    if queue is None:
        if not queues:
            raise NoRoute(message.topic, "no broker takes messages for it")
        queue = queues[turn % len(queues)]
    address = route.address(queue.broker)
    if address is None:
        raise NoRoute(message.topic, f"broker {queue.broker} is not there or has no master")
    properties = {**message.all_properties(), names.UNIQ_KEY: unique_id}
    return (
        yield from send_to(
            address,
            queue,
            body=message.body,
            properties=properties,
            flag=message.flag,
            group=group,
            now_ms=now_ms,
        )
    )


def send_to(
    address: str,
    queue: QueueRef,
    *,
    body: bytes,
    properties: dict[str, str],
    flag: int,
    group: str,
    now_ms: int,
) -> Conversation[Stored]:
    """310 to one queue, with these properties and no others."""
    header = SendMessageV2(
        producer_group=group,
        topic=queue.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=NEW_TOPIC_QUEUES,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=now_ms,
        flag=flag,
        properties=format_properties(properties),
        reconsume_times=0,
        broker_name=queue.broker,
    )
    reply = yield from ask(
        address,
        RequestCode.SEND_MESSAGE_V2,
        header,
        body,
        timeout_ms=SEND_MS,
        accepted=_STORED,
    )
    answer = reply.header(SendAnswer)
    return Stored(
        properties.get(names.UNIQ_KEY) or answer.msg_id,
        answer.msg_id,
        QueueRef(queue.topic, queue.broker, answer.queue_id),
        QueueOffset(answer.queue_offset),
        ResponseCode(reply.code),
    )


def _route_to(namesrv: NameServers, topic: str) -> Conversation[Route]:
    try:
        return (yield from fetch_route(namesrv, topic))
    except NoRoute as missing:
        try:
            template = yield from fetch_route(namesrv, AUTO_CREATE_TOPIC)
        except NoRoute:
            raise missing from None
        return template
