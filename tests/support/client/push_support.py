"""What the tests of push consumers share: messages to consume, and an ear that remembers."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from flintmq import Message, Producer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from support.client.support import create_topic, wait_for


class Ear:
    """A listener that remembers, from whatever thread it is called."""

    def __init__(self, *results: object) -> None:
        """``results`` are given one after the other, exceptions raised; then None for ever."""
        self._lock = threading.Lock()
        self._results = list(results)
        self.batches: list[tuple[ReceivedMessage, ...]] = []
        self.threads: set[str] = set()

    def __call__(self, messages: tuple[ReceivedMessage, ...]) -> Any:
        with self._lock:
            self.batches.append(messages)
            self.threads.add(threading.current_thread().name)
            result = self._results.pop(0) if self._results else None
        if isinstance(result, BaseException):
            raise result
        return result

    @property
    def messages(self) -> list[ReceivedMessage]:
        with self._lock:
            return [message for batch in self.batches for message in batch]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait_for(self, count: int) -> None:
        wait_for(lambda: len(self.messages) >= count)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%04d" % number for number in range(start, start + count)]


def send(
    servers: EmbeddedBroker,
    topic: str,
    bodies: Iterable[bytes],
    *,
    queue: int | None = None,
    **more: Any,
) -> None:
    """Send bodies, all to one queue or to all in turn."""
    with Producer("senders", namesrv=servers.namesrv) as producer:
        for body in bodies:
            where = None if queue is None else QueueRef(topic, "broker-a", queue)
            producer.send(Message(topic, body, **more), queue=where)


def filled(servers: EmbeddedBroker, topic: str, bodies: Sequence[bytes], queues: int = 4) -> None:
    """A new topic with these messages, spread over its queues."""
    create_topic(servers, topic, queues)
    send_spread(servers, topic, bodies, queues)


def send_spread(
    servers: EmbeddedBroker, topic: str, bodies: Sequence[bytes], queues: int = 4
) -> None:
    """Send these messages to the queues of a topic in turn."""
    with Producer("senders", namesrv=servers.namesrv) as producer:
        for number, body in enumerate(bodies):
            queue = QueueRef(topic, "broker-a", number % queues)
            producer.send(Message(topic, body), queue=queue)


def committed(servers: EmbeddedBroker, group: str, topic: str) -> dict[int, int]:
    """Where the group stands at the broker, by queue."""
    return servers.call(
        lambda inside: next(iter(inside.brokers.values())).state.offsets.queues(group, topic)
    )
