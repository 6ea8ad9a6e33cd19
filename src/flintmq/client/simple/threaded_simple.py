"""The simple consumer for programs without asyncio: `flintmq.SimpleConsumer`.

    with SimpleConsumer("billing", namesrv="127.0.0.1:9876").subscribe("orders") as consumer:
        for message in consumer.receive():
            bill(message)
            consumer.ack(message)

Every method may be called from any thread, and comes back when it is done.  A receive that is
interrupted loses nothing: what it would have got is for the next one, or goes back to the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, Unpack

from flintmq.client.engine.threaded_face import ThreadedFace
from flintmq.client.simple import simple_consumer as aio
from flintmq.client.simple.simple_consumer import INVISIBLE_MS, RECEIVE_COUNT, WAIT_MS
from flintmq.client.simple.simple_settings import SimpleConsumerSettings
from flintmq.client.simple.simple_status import SimpleStatus
from flintmq.filter.tags import ALL
from flintmq.model.message import ReceivedMessage


class SimpleConsumer(ThreadedFace[aio.SimpleConsumer]):
    """Receives messages and acknowledges them, on any thread."""

    def __init__(self, group: str, **settings: Unpack[SimpleConsumerSettings]) -> None:
        super().__init__(aio.SimpleConsumer(group, **settings))

    def subscribe(self, topic: str, *, tags: str = ALL, sql: str | None = None) -> Self:
        """Receive messages of a topic, by tags as ``a || b`` or by an SQL92 expression.

        Before the start or after it; again with another filter, the new one counts.
        """
        self._do(lambda: self._inner.subscribe(topic, tags=tags, sql=sql))
        return self

    def unsubscribe(self, topic: str) -> None:
        """Receive no more messages of a topic."""
        self._do(lambda: self._inner.unsubscribe(topic))

    def receive(
        self,
        max_messages: int = RECEIVE_COUNT,
        *,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
    ) -> list[ReceivedMessage]:
        """Up to ``max_messages``, as soon as there are any; none when ``wait_ms`` is over.

        They are hidden from others for ``invisible_ms``: acknowledge them within that time.
        Raises `BrokerRefused` where a broker forbids it or is too old, and at the end of the wait
        `Unreachable` or `NoRoute` where no broker could be asked.
        """
        return self._run(
            self._inner.receive(max_messages, invisible_ms=invisible_ms, wait_ms=wait_ms)
        )

    def ack(self, message: ReceivedMessage) -> None:
        """A message is done: nobody receives it again.

        Raises `ReceiptExpired` where its invisible time is over and it comes again.
        """
        self._run(self._inner.ack(message))

    def ack_many(self, messages: Iterable[ReceivedMessage]) -> None:
        """`ack` of many, with one request for each broker that has them.

        All are tried; then the first error is raised, if there was any.
        """
        self._run(self._inner.ack_many(messages))

    def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> ReceivedMessage:
        """Hide a message for ``invisible_ms`` from now on, longer or shorter; 0 returns it at once.

        Gives the message with its new receipt.  The old one may be used further with this consumer;
        any other needs the new one.
        """
        return self._run(self._inner.change_invisible(message, invisible_ms))

    def status(self) -> SimpleStatus:
        """What each broker is asked, and what is wrong with it."""
        return self._call(self._inner.status)
