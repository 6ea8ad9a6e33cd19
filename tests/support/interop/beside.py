"""A Java member beside a member of ours, in one group on one topic."""

from __future__ import annotations

from typing import Any

from flintmq import PushConsumer
from support.interop.javaclient import Events, JavaClient
from support.interop.ours import Served

CALL_MS = 15_000


class Java:
    """The Java member.  The prefix begins the names of its topic, ``t``, and its group, ``g``."""

    def __init__(self, client: JavaClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def play(self, scenario: str) -> Events:
        return self._client.play(scenario, self._prefix)

    def holds(self) -> list[int]:
        queues: list[int] = self.play("so-far").one("holds")["queues"]
        return queues

    def seen(self) -> list[bytes]:
        return encoded(self.play("so-far"))

    def leave(self) -> list[bytes]:
        """Go, and tell what was seen."""
        return encoded(self.play("leave"))


def encoded(told: Events) -> list[bytes]:
    return [body.encode() for body in told.bodies("seen")]


def push(served: Served, group: str, listener: object, **more: Any) -> PushConsumer:
    """A consumer of ours that reads from the start."""
    settings = {"start_from": "first", "call_timeout_ms": CALL_MS, **more}
    return PushConsumer(group, listener, namesrv=served.namesrv, **settings)  # type: ignore[arg-type]


def owned(consumer: PushConsumer, topic: str) -> list[int]:
    return [queue.queue_id for queue in consumer.queues() if queue.topic == topic]
