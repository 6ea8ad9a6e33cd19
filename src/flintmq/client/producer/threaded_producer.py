"""The producer for programs without asyncio: `flintmq.Producer`.

    with Producer("shop", namesrv="127.0.0.1:9876") as producer:
        receipt = producer.send(Message("orders", b"…"))

Every method may be called from any thread, and comes back when it is done.  `send_async` comes
back at once with a future, or calls ``callback`` with the receipt or the error; it waits only
while ``in_flight_max`` messages are under way.  Callbacks run on the thread that serves all
clients of the process, so they must be quick and must not wait for a client.

A thread that sends while no other does asks the broker on a connection of its own, without the
way to that thread and back; see `client.engine.direct_line`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Unpack

from flintmq.client.engine.direct_line import DirectLine
from flintmq.client.engine.loop_thread import Lease
from flintmq.client.engine.threaded_face import ThreadedFace
from flintmq.client.producer import producer as aio
from flintmq.client.producer import transaction_producer as aio_transactions
from flintmq.client.producer.outbox import Callback, Job, Outbox, Place
from flintmq.client.producer.producer_settings import SEND_MS, ProducerSettings
from flintmq.client.producer.send_future import SendFuture
from flintmq.client.producer.transaction_producer import Check
from flintmq.core.producer.queue_choice import Selector
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.transaction import (
    TransactionReceipt,
    TransactionState,
    may_execute,
    state_of,
)
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import QueueRef


class Producer(ThreadedFace[aio.Producer]):
    """Sends messages from any thread."""

    def __init__(self, group: str, **settings: Unpack[ProducerSettings]) -> None:
        super().__init__(self._make(group, settings))
        self._outbox: Outbox | None = None
        self._direct: DirectLine | None = None

    def _make(self, group: str, settings: ProducerSettings) -> aio.Producer:
        return aio.Producer(group, **settings)

    # Life

    def _started(self, lease: Lease) -> None:
        self._outbox = Outbox(self._inner, lease)
        self._direct = self._inner.direct_line(lease)

    def _stopping(self) -> None:
        if self._outbox is not None:
            self._outbox.wait()
        if self._direct is not None:
            self._direct.close()

    def flush(self) -> None:
        """Wait until every message given to `send_async` is stored or has failed."""
        self._require()
        if self._outbox is not None:
            self._outbox.wait()

    # Sending

    def send(
        self,
        message: Message,
        *,
        timeout_ms: int = SEND_MS,
        queue: QueueRef | None = None,
        selector: Selector | None = None,
        sharding_key: str | None = None,
    ) -> SendReceipt:
        """Send one message and wait until it is stored.

        At most one of the last three: ``queue`` is where to send it, ``selector`` chooses among
        the queues, and messages with one ``sharding_key`` go to one queue.  Such a message waits
        for the broker of its queue, since another queue would break its order.
        """
        lease = self._require()
        direct = self._past_loop(lease)
        if direct is not None and queue is None and selector is None and sharding_key is None:
            receipt = self._inner.send_past_loop(direct, message, timeout_ms)
            if receipt is not None:
                return receipt
            begin = partial(self._inner.starter.begin, message, timeout_ms)
            sent: SendReceipt = direct.by_loop(lease.ask, begin)
            return sent
        work = self._inner.send(
            message,
            timeout_ms=timeout_ms,
            queue=queue,
            selector=selector,
            sharding_key=sharding_key,
        )
        return lease.run(work) if self._direct is None else self._direct.by_loop(lease.run, work)

    def send_async(
        self,
        message: Message,
        *,
        timeout_ms: int = SEND_MS,
        queue: QueueRef | None = None,
        selector: Selector | None = None,
        sharding_key: str | None = None,
        callback: Callback | None = None,
    ) -> Future[SendReceipt]:
        """Start a send and give its future; ``callback`` is called with how it ended."""
        self._require()
        outbox = self._outbox
        assert outbox is not None
        place = None
        if queue is not None or selector is not None or sharding_key is not None:
            place = Place(queue, selector, sharding_key)
        return outbox.submit(Job(message, timeout_ms, callback, SendFuture(), place))

    def send_oneway(self, message: Message, *, timeout_ms: int = SEND_MS) -> None:
        """Send one message and do not ask whether it was stored."""
        self._require().run(self._inner.send_oneway(message, timeout_ms=timeout_ms))

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout_ms: int = SEND_MS,
        queue: QueueRef | None = None,
    ) -> list[SendReceipt]:
        """Send messages of one topic, many in one request; a receipt for each of them."""
        lease, chosen = self._require(), list(messages)
        direct = self._past_loop(lease)
        if direct is not None and queue is None:
            receipts = self._inner.send_batch_past_loop(direct, chosen, timeout_ms)
            if receipts is not None:
                return receipts
        return lease.run(self._inner.send_batch(chosen, timeout_ms=timeout_ms, queue=queue))

    def request(self, message: Message, *, timeout_ms: int = SEND_MS) -> ReceivedMessage:
        """Send a message and wait for the reply to it; `NoReply` when none comes in time."""
        return self._require().run(self._inner.request(message, timeout_ms=timeout_ms))

    def reply(
        self, request: ReceivedMessage, body: bytes, *, timeout_ms: int = SEND_MS
    ) -> SendReceipt:
        """Reply to a request message.  `BrokerRefused` when its sender no longer waits."""
        return self._require().run(self._inner.reply(request, body, timeout_ms=timeout_ms))

    def queues(self, topic: str) -> list[QueueRef]:
        """The queues that messages to a topic may go to now."""
        return self._require().run(self._inner.queues(topic))

    def _past_loop(self, lease: Lease) -> DirectLine | None:
        """None where a message could overtake one that `send_async` has."""
        lease.require_other()
        outbox = self._outbox
        return self._direct if outbox is not None and outbox.is_empty else None


class TransactionProducer(Producer):
    """A producer whose messages can be part of a transaction.

    ``execute`` runs on the calling thread, ``check`` on one of its own.
    """

    _inner: aio_transactions.TransactionProducer

    def __init__(self, group: str, check: Check, **settings: Unpack[ProducerSettings]) -> None:
        self._check = check
        super().__init__(group, **settings)

    def _make(self, group: str, settings: ProducerSettings) -> aio.Producer:
        return aio_transactions.TransactionProducer(group, self._check, **settings)

    def send_in_transaction(
        self,
        message: Message,
        execute: Callable[[Message, str], TransactionState | None],
        *,
        timeout_ms: int = SEND_MS,
    ) -> TransactionReceipt:
        """Store a message unseen, do the work, and show or drop the message accordingly.

        An ``execute`` that raises leaves the end unknown, so the broker will ask; the
        exception comes out.
        """
        lease, inner = self._require(), self._inner
        receipt = lease.run(inner.send_half(message, timeout_ms=timeout_ms))
        state, remark = TransactionState.ROLLBACK, ""
        try:
            if may_execute(receipt):
                state = TransactionState.UNKNOWN
                state = state_of(execute(message, receipt.transaction_id or receipt.message_id))
        except BaseException as error:
            remark = f"executeLocalTransactionBranch exception: {error!r}"
            raise
        finally:
            lease.run(inner.end_half(receipt, message, state, remark))
        return TransactionReceipt(receipt, state)
