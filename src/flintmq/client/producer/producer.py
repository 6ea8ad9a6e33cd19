"""The producer on asyncio.  The one for threads, `flintmq.Producer`, is a face of it.

    async with Producer("shop", namesrv="127.0.0.1:9876") as producer:
        receipt = await producer.send(Message("orders", b"…", tags="paid", keys=["o-1"]))

`send` comes back when the broker has the message, or raises.  Sends may run side by side.
`send_async` starts one and hands out its future; it waits only while ``in_flight_max`` are
under way.  What may be tried again, and where, `core.producer.publisher` decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Self, Unpack

from msgspec.structs import replace

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.client_config import split_settings
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.client_id import message_ids
from flintmq.client.engine.direct_line import DirectLine, Runner
from flintmq.client.engine.members import TransactionCheck
from flintmq.client.hooks.send_hooks import SendHooks, SendWatch
from flintmq.client.hooks.send_timer import SendTimer, timed
from flintmq.client.producer.auto_batch import Gather
from flintmq.client.producer.producer_settings import SEND_MS, ProducerConfig, ProducerSettings
from flintmq.client.producer.request_reply import (
    MemberOfProducer,
    Replies,
    reply_to,
    request_properties,
)
from flintmq.client.producer.room import Room
from flintmq.client.producer.route_wait import RouteWait
from flintmq.client.producer.send_starter import Outcome, SendStarter, resolve
from flintmq.client.producer.trace_hooks import SendTrace
from flintmq.client.producer.tracer import Tracer, start_tracer
from flintmq.core.conversation import PausingConversation
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.queue_choice import Selector, choose_queue, replace_topic
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_batches import send_batches
from flintmq.core.producer.send_draft import Draft, draft_batches, draft_message
from flintmq.errors import InvalidName, SendFailed
from flintmq.model import properties as names
from flintmq.model.group import check_group_name
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.drive import drive
from flintmq.protocol.codes import RequestCode

PLACEHOLDER: Final = "DEFAULT_PRODUCER"
"""The group of a RocketMQ producer that was given none; brokers could not tell such apart."""


class Producer(AsyncClient):
    """Sends messages.  Made on any thread, used on the loop it is started on."""

    def __init__(self, group: str, **settings: Unpack[ProducerSettings]) -> None:
        check_group_name(group)
        if group == PLACEHOLDER:
            raise InvalidName("group", group, "stands for no group at all; choose another name")
        config, self.config = split_settings(settings, ProducerConfig)
        super().__init__(group, ClientEngine(config, what=f"{type(self).__name__} {group!r}"))
        self._publisher = Publisher(
            self._engine.wire_name(group),
            self._engine.routes,
            clock=self._engine.stopwatch,
            chance=self._engine.chance,
            rules=self.config.send_rules(),
            on_trouble=self._note_trouble,
            version_of=self._engine.known_version,
        )
        self._rules = self.config.draft_rules(config.namespace)
        self._namespace = config.namespace
        self._ids = message_ids()
        self._replies = Replies()
        self._engine.add_producer(
            MemberOfProducer(self._publisher.group, self._replies, self._check)
        )
        self._hooks = self._send_hooks(None)
        metrics = self.config.metrics
        self._counts = None if metrics is None else metrics.producer()
        self._tracer: Tracer | None = None
        self._room = Room(self.config.in_flight_max)
        self.starter = SendStarter(
            self._engine,
            self._publisher,
            draft=self._draft,
            watch=self._watch,
            send=self._send,
            given=self._given if config.namespace else None,
        )
        self.gather: Gather | None = None
        """Where messages wait that may share requests, if they may."""
        if self.config.auto_batch:
            self.gather = Gather(self, self._rules, self._engine.stopwatch)

    # Life

    async def start(self) -> Self:
        self._engine.start()
        if self._counts is not None:
            self._counts.client_id = self.client_id
        self._tracer = await start_tracer(
            Producer, self._engine, self.config, self.group, "PRODUCE"
        )
        self._hooks = self._send_hooks(self._tracer)
        return self

    async def stop(self) -> None:
        """Wait for what is under way, leave the brokers, close.  Stopping twice is no error."""
        if self._engine.life.is_running:
            await self.flush()
        self._replies.stop(self._engine.life.what)
        try:
            if self._tracer is not None:
                await self._tracer.stop()
        finally:
            await self._engine.stop()

    async def flush(self) -> None:
        """Wait until every message given to `send_async` is stored or has failed."""
        await self._room.wait_empty()

    # Sending

    async def send(
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
        if queue is None and selector is None and sharding_key is None:
            return await self._send(self._draft(message), timeout_ms, (message,))
        self._engine.life.require_running()
        extra = None if sharding_key is None else {names.SHARDING_KEY: sharding_key}
        draft = self._draft(message, extra)
        wait = self._route_wait(timeout_ms)
        queues = await wait.publish_queues(draft.topic)
        chosen = choose_queue(message, queues, queue, selector, sharding_key)
        watch = self._watch((message,))
        conversation = self._publisher.send_to(draft, chosen, wait.left_ms, watch)
        return self._given(await self._engine.hold(conversation))

    async def send_async(
        self,
        message: Message,
        *,
        timeout_ms: int = SEND_MS,
        queue: QueueRef | None = None,
        selector: Selector | None = None,
        sharding_key: str | None = None,
    ) -> asyncio.Future[SendReceipt]:
        """Start a send and give its future; wait only while too many are under way.

        A future that is cancelled does not take the message back: it is sent on, unheard.
        """
        self._engine.life.require_running()
        if not self._room.enter_now():
            await self._room.enter()
        future: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
        gather, landed = self.gather, self._landed
        if queue is None and selector is None and sharding_key is None:
            if gather is None or not gather.add(message, timeout_ms, landed, future):
                self.starter.begin(message, timeout_ms, partial(landed, future))
        else:
            work = self.send(
                message,
                timeout_ms=timeout_ms,
                queue=queue,
                selector=selector,
                sharding_key=sharding_key,
            )
            self.starter.begin_task(work, partial(landed, future))
        return future

    async def send_oneway(self, message: Message, *, timeout_ms: int = SEND_MS) -> None:
        """Send one message and do not ask whether it was stored."""
        self._engine.life.require_running()
        draft = self._draft(message)
        wait = self._route_wait(timeout_ms)
        queues = await wait.publish_queues(draft.topic)
        if draft.is_timed:
            await self._engine.meet_brokers()
        watch, timeout_ms = self._watch((message,)), wait.left_ms
        await self._engine.hold(self._publisher.send_oneway(draft, queues, timeout_ms, watch))

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        timeout_ms: int = SEND_MS,
        queue: QueueRef | None = None,
    ) -> list[SendReceipt]:
        """Send messages of one topic, many in one request; a receipt for each of them.

        More than ``batch_bytes_max`` become several requests, one after the other, each with
        the whole timeout.  When not the first of them fails it is `PartlySent`.
        """
        self._engine.life.require_running()
        chosen = list(messages)
        drafts = self._draft_all(chosen)
        await self._route_wait(timeout_ms).publish_queues(drafts[0].topic)
        conversation = self._send_all(chosen, drafts, timeout_ms, queue)
        receipts = await self._engine.hold(conversation)
        return list(map(self._given, receipts)) if self._namespace else receipts

    # Sending on the thread that waits

    def direct_line(self, runner: Runner) -> DirectLine | None:
        """A connection past the loop; None where the loop has to see each send."""
        engine, faults = self._engine, self._publisher.faults
        if self._hooks is not None or engine.config.request_hooks or faults.is_on:
            return None
        return DirectLine(engine, runner)

    def send_past_loop(
        self, line: DirectLine, message: Message, timeout_ms: int
    ) -> SendReceipt | None:
        """`send` on the calling thread; None where the loop has to do it: see `DirectLine`."""
        if not line.acquire():
            return None
        try:
            draft = self._draft(message)
            queues = self._engine.routes.publish_queues(draft.topic)
            if not queues or draft.is_timed:
                return None
            conversation = self._publisher.send(draft, queues, timeout_ms)
            if self._counts is None:
                return self._given(drive(conversation, line.make))
            make = timed(self._counts, message.topic, 1, line.make)
            return self._given(drive(conversation, make))
        finally:
            line.release()

    def send_batch_past_loop(
        self, line: DirectLine, messages: Sequence[Message], timeout_ms: int
    ) -> list[SendReceipt] | None:
        """`send_batch` on the calling thread; None where the loop has to do it."""
        if not line.acquire():
            return None
        try:
            drafts = self._draft_all(messages)
            if not self._engine.routes.publish_queues(drafts[0].topic):
                return None
            receipts = drive(self._send_all(messages, drafts, timeout_ms), line.make)
            return list(map(self._given, receipts))
        finally:
            line.release()

    async def request(self, message: Message, *, timeout_ms: int = SEND_MS) -> ReceivedMessage:
        """Send a message and wait for the reply to it; `NoReply` when none comes in time."""
        self._engine.life.require_running()
        wait = self._route_wait(timeout_ms)
        await wait.publish_queues(self._engine.wire_name(message.topic))
        await self._engine.meet_brokers()  # the reply may come by any of them
        correlation_id = self._replies.expect()
        try:
            extra = request_properties(correlation_id, self.client_id, timeout_ms)
            draft = self._draft(message, extra)
            await self._send(draft, wait.left_ms, (message,))
            left_ms = wait.left_ms
            return await self._replies.wait(correlation_id, message.topic, left_ms, timeout_ms)
        except SendFailed:
            self._engine.life.require_running()  # that is why, if it was stopped meanwhile
            raise
        finally:
            self._replies.forget(correlation_id)

    async def reply(
        self, request: ReceivedMessage, body: bytes, *, timeout_ms: int = SEND_MS
    ) -> SendReceipt:
        """Reply to a request message.  `BrokerRefused` when its sender no longer waits."""
        self._engine.life.require_running()
        message, extra = reply_to(request, body)
        draft = draft_message(
            message,
            message.topic,
            unique_id=self._ids.make(self._engine.wall()),
            now_ms=self._engine.wall(),
            rules=self._rules,
            extra=extra,
            code=RequestCode.SEND_REPLY_MESSAGE_V2,
        )
        wait = self._route_wait(timeout_ms)
        queues = await wait.publish_queues(draft.topic)
        near = [queue for queue in queues if queue.broker == request.broker]
        chosen, watch = (near or queues)[0], self._watch((message,))
        return await self._engine.hold(self._publisher.send_to(draft, chosen, wait.left_ms, watch))

    async def queues(self, topic: str) -> list[QueueRef]:
        """The queues that messages to a topic may go to now."""
        self._engine.life.require_running()
        return [
            replace_topic(queue, topic)
            for queue in await self._engine.publish_queues(self._engine.wire_name(topic))
        ]

    # Inside

    def _draft(self, message: Message, extra: Mapping[str, str] | None = None) -> Draft:
        topic = self._engine.wire_name(message.topic) if self._namespace else message.topic
        now_ms = self._engine.wall()
        return draft_message(
            message,
            topic,
            unique_id=self._ids.make(now_ms),
            now_ms=now_ms,
            rules=self._rules,
            extra=extra,
        )

    def _draft_all(self, messages: Sequence[Message]) -> list[Draft]:
        topic = self._engine.wire_name(messages[0].topic) if messages else ""
        now_ms = self._engine.wall()
        ids = self._ids.make_many(now_ms, len(messages))
        return draft_batches(messages, topic, unique_ids=ids, now_ms=now_ms, rules=self._rules)

    def _send_all(
        self,
        messages: Sequence[Message],
        drafts: Sequence[Draft],
        timeout_ms: int,
        queue: QueueRef | None = None,
    ) -> PausingConversation[list[SendReceipt]]:
        return send_batches(
            self._publisher,
            self._engine.routes,
            drafts,
            timeout_ms,
            queue=None if queue is None else replace_topic(queue, drafts[0].topic),
            watch=lambda start, stop: self._watch(messages[start:stop]),
        )

    async def _send(
        self, draft: Draft, timeout_ms: int, messages: Sequence[Message]
    ) -> SendReceipt:
        engine = self._engine
        queues = engine.routes.publish_queues(draft.topic)
        if not queues or draft.is_timed:
            wait = self._route_wait(timeout_ms)
            queues = await wait.publish_queues(draft.topic)
            if draft.is_timed:
                await engine.meet_brokers()
            timeout_ms = wait.left_ms
        conversation = self._publisher.send(draft, queues, timeout_ms, self._watch(messages))
        return self._given(await engine.hold(conversation))

    def _watch(self, messages: Sequence[Message]) -> SendWatch | SendTimer | None:
        watch = None if self._hooks is None else SendWatch(self._hooks, messages)
        return watch if self._counts is None else SendTimer(self._counts, messages, watch)

    def _send_hooks(self, tracer: Tracer | None) -> SendHooks | None:
        engine, hooks = self._engine, self.config.send_hooks
        if tracer is not None:
            hooks = (*hooks, SendTrace(tracer, engine.known_version))
        if not hooks:
            return None
        return SendHooks(hooks, self.group, self._namespace, engine.wall, engine.stopwatch)

    def _route_wait(self, timeout_ms: int) -> RouteWait:
        return RouteWait(self._engine, self.config.retries, timeout_ms)

    def _given(self, receipt: SendReceipt) -> SendReceipt:
        """A receipt as the user knows its topic."""
        if not self._namespace:
            return receipt
        topic = self._engine.user_name(receipt.queue.topic)
        return replace(receipt, queue=replace_topic(receipt.queue, topic))

    def _landed(self, future: asyncio.Future[SendReceipt], outcome: Outcome) -> None:
        self._room.leave()
        resolve(future, outcome)

    def _note_trouble(self, topic: str, broker: str, text: str, is_first: bool) -> None:
        """On whatever thread the send is held.  A producer that was stopped tries no further."""
        self._engine.life.require_running()
        if is_first:
            self._engine.events.add("retry", f"{topic} at {broker}", text)
        with suppress(RuntimeError):  # the loop is closed
            self._engine.loop.call_soon_threadsafe(self._engine.doubt_route, topic)

    def _check(self, check: TransactionCheck) -> None:
        self._engine.events.add("check", check.address, "this producer has no transactions")
