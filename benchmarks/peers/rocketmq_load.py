"""The RocketMQ clients for Python that are not ours, as `python_load` drives them.

`CppBinding` is PyPI ``rocketmq``: a binding of the C++ client, which speaks to brokers.
`GrpcClient` is PyPI ``rocketmq-python-client``, RocketMQ's own for release 5, which speaks to a
proxy.  Both are used as their documentation shows.  Neither sends batches: that of the binding
fails, the other client has none.
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

UNDER_WAY = 1_000
CONSUMED_S = 240
"""How long a backlog may take."""

_groups = (f"load_{os.getpid()}_{number}" for number in itertools.count())


class Heard:
    """Counts what a listener gets, on any thread."""

    def __init__(self, meter: Any) -> None:
        self._meter = meter
        self._lock = threading.Lock()
        self._done = threading.Event()

    def one(self) -> None:
        with self._lock:
            if not self._meter.add(1):
                self._done.set()

    def wait(self) -> None:
        if not self._done.wait(CONSUMED_S):
            raise TimeoutError(f"not all was consumed in {CONSUMED_S} s")


class CppBinding:
    """PyPI ``rocketmq``; the address is that of a name server."""

    def __init__(self, address: str) -> None:
        self._lib: Any = importlib.import_module("rocketmq.client")
        self._address = address
        self._producer: Any = None

    async def start(self) -> None:
        self._producer = self._lib.Producer(next(_groups))
        self._producer.set_namesrv_addr(self._address)
        self._producer.start()

    async def stop(self) -> None:
        self._producer.shutdown()

    async def make(self, topic: str) -> None:
        """A topic is there once something is sent to it."""
        self._producer.send_sync(self._message(topic, b"first"))

    def _message(self, topic: str, body: bytes) -> Any:
        made = self._lib.Message(topic)
        made.set_body(body)
        return made

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            self._producer.send_sync(self._message(topic, body))
            count += 1
        return count

    send_many = send

    async def consume(self, topic: str, meter: Any) -> None:
        heard = Heard(meter)

        def listen(message: Any) -> None:
            assert message.body
            heard.one()

        consumer = self._lib.PushConsumer(next(_groups))
        consumer.set_namesrv_addr(self._address)
        consumer.subscribe(topic, listen)
        consumer.start()
        heard.wait()
        consumer.shutdown()


class GrpcClient:
    """PyPI ``rocketmq-python-client``; the address is that of a proxy."""

    def __init__(self, address: str) -> None:
        self._lib: Any = importlib.import_module("rocketmq")
        self._settings = self._lib.ClientConfiguration(address, self._lib.Credentials())
        self._producers: dict[str, Any] = {}

    async def start(self) -> None:
        """A producer is started for its topics."""

    async def stop(self) -> None:
        for producer in self._producers.values():
            producer.shutdown()

    async def make(self, topic: str) -> None:
        producer = self._lib.Producer(self._settings, (topic,))
        producer.startup()
        self._producers[topic] = producer

    def _message(self, topic: str, body: bytes) -> Any:
        made = self._lib.Message()
        made.topic = topic
        made.body = body
        return made

    async def send(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count = 0
        for _ in turns:
            self._producers[topic].send(self._message(topic, body))
            count += 1
        return count

    async def send_many(self, topic: str, body: bytes, turns: Iterator[int]) -> int:
        count, waiting = 0, deque[Any]()
        for _ in turns:
            waiting.append(self._producers[topic].send_async(self._message(topic, body)))
            count += 1
            if len(waiting) >= UNDER_WAY:
                waiting.popleft().result()
        for each in waiting:
            each.result()
        return count

    async def consume(self, topic: str, meter: Any) -> None:
        heard, lib = Heard(meter), self._lib

        class Listener(lib.MessageListener):  # type: ignore[misc,name-defined]  # it has no types
            """Counts, and takes every message."""

            def consume(self, message: Any) -> Any:
                assert message.body
                heard.one()
                return lib.ConsumeResult.SUCCESS

        expressions = {topic: lib.FilterExpression("*")}
        consumer = lib.PushConsumer(self._settings, next(_groups), Listener(), expressions)
        consumer.startup()
        heard.wait()
        consumer.shutdown()
