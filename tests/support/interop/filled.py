"""Topics with messages for our clients to consume, and where a group stands, asked by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flintmq import Message, Producer, QueueRef
from support.client.support import wait_for
from support.interop.ask import ask
from support.interop.asked import make_topic, route_answer
from support.interop.ours import Served

BROKER = "broker-a"
PATIENCE_S = 60.0  # real servers and JVMs share two cores with the test
SEND_MS = 15_000

QUERY_CONSUMER_OFFSET = 14


def patiently(condition: Callable[[], object]) -> None:
    wait_for(condition, PATIENCE_S)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%04d" % number for number in range(start, start + count)]


def new_topic(served: Served, topic: str, queues: int) -> list[QueueRef]:
    """Make a topic; come back when the name server knows it."""
    make_topic(served.broker, topic, queues)
    patiently(lambda: route_answer(served.namesrv, topic)["code"] == 0)
    return [QueueRef(topic, BROKER, number) for number in range(queues)]


def send_to(served: Served, messages: Iterable[Message], queues: list[QueueRef]) -> None:
    """Send messages to these queues in turn."""
    with Producer("fillers", namesrv=served.namesrv) as producer:
        for number, message in enumerate(messages):
            queue = queues[number % len(queues)]
            producer.send(message, queue=queue, timeout_ms=SEND_MS)


def filled(served: Served, topic: str, bodies: Iterable[bytes], queues: int) -> list[QueueRef]:
    """A new topic with these bodies, spread over its queues."""
    made = new_topic(served, topic, queues)
    send_to(served, [Message(topic, body) for body in bodies], made)
    return made


def stands_at(served: Served, group: str, topic: str, queue_id: int = 0) -> int | None:
    """The offset that the broker has of a group.

    Where it has none: None, or 0 from a broker of 4.9 for a queue that is young.
    """
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
    header, _ = ask(served.broker, QUERY_CONSUMER_OFFSET, {**fields, "setZeroIfNotFound": "false"})
    return int(header["extFields"]["offset"]) if header["code"] == 0 else None
