"""What the tests of pulling consumers share: messages to pull, and requests that were made."""

from __future__ import annotations

from collections.abc import Iterable

from flintmq import EmbeddedBroker, LitePullConsumer, Message, Producer, QueueRef
from flintmq.protocol.command import Command
from support.client.support import create_topic

BROKER = "broker-a"


def fill(
    servers: EmbeddedBroker, topic: str, count: int, *, queues: int = 1, tags: Iterable[str] = ()
) -> list[bytes]:
    """A topic with so many messages, spread over its queues; their bodies."""
    create_topic(servers, topic, queues)
    return send(servers, topic, range(count), queues=queues, tags=tags)


def send(
    servers: EmbeddedBroker,
    topic: str,
    numbers: Iterable[int],
    *,
    queues: int = 1,
    tags: Iterable[str] = (),
) -> list[bytes]:
    chosen = list(tags)
    bodies: dict[int, list[Message]] = {}
    for number in numbers:
        tag = chosen[number % len(chosen)] if chosen else None
        message = Message(topic, b"%d" % number, tags=tag, properties={"n": str(number)})
        bodies.setdefault(number % queues, []).append(message)
    with Producer("fillers", namesrv=servers.namesrv) as producer:
        for queue_id, messages in bodies.items():
            producer.send_batch(messages, queue=QueueRef(topic, BROKER, queue_id))
    return [message.body for messages in bodies.values() for message in messages]


class Spy:
    """A hook that keeps every request and its answer."""

    def __init__(self) -> None:
        self.requests: list[Command] = []

    def before(self, address: str, request: Command) -> Command:
        return request

    def after(self, address: str, request: Command, answer: Command | None) -> None:
        self.requests.append(request)

    def codes(self) -> set[int]:
        return {request.code for request in self.requests}


def polled(consumer: LitePullConsumer, count: int) -> list[bytes]:
    """So many bodies, or a failure."""
    found: list[bytes] = []
    while len(found) < count:
        messages = consumer.poll(60_000)
        assert messages, f"only {len(found)} of {count} came: {consumer.events()}"
        found += [message.body for message in messages]
    return found
