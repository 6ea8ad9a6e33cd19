"""The simple consumer on asyncio.  The one for threads, `flintmq.SimpleConsumer`, is a face of it.

    async with SimpleConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", tags="paid")
        for message in await consumer.receive(16, invisible_ms=30_000):
            bill(message)
            await consumer.ack(message)

A received message is hidden from the rest of the group until it is acknowledged or its invisible
time is over; then somebody receives it again.  No queue belongs to anybody: as many consumers as
there are messages may share a topic.  `core.pop.simple_pop` decides which broker is asked.

To brokers it is no member of the group: it sends no heartbeats and takes part in no rebalance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Self, TypeVar, Unpack

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.client_config import split_settings
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.lifecycle import Life, State
from flintmq.client.joining.missing_topics import MissingTopics
from flintmq.client.joining.name_server_wait import first_routes
from flintmq.client.popping.pop_calls import PopCalls
from flintmq.client.simple.simple_driver import SimpleDriver, with_receipt
from flintmq.client.simple.simple_settings import SimpleConfig, SimpleConsumerSettings
from flintmq.client.simple.simple_status import SimpleStatus, simple_status
from flintmq.core.group.consumer_settings import check_range
from flintmq.core.group.subscriptions import TOPICS_MAX, TopicSubscription
from flintmq.core.pop.held_receipts import HeldReceipts
from flintmq.core.pop.pop_request import POP_COUNT_MAX
from flintmq.core.pop.simple_actions import Receiving
from flintmq.core.pop.simple_pop import SimplePop
from flintmq.core.pull.lite_settings import check_group
from flintmq.core.refusals import explain_access, is_access_refusal
from flintmq.errors import FlintError, InvalidSetting, NoRoute, ReceiptExpired, Unreachable
from flintmq.filter.tags import ALL
from flintmq.model.message import ReceivedMessage
from flintmq.model.route import Route
from flintmq.model.topic import Permission, check_topic_name
from flintmq.protocol.pop.receipts import ReceiptHandle

T = TypeVar("T")

RECEIVE_COUNT: Final = 16
"""Messages of a receive, as many as RocketMQ's examples ask for."""

INVISIBLE_MS: Final = 30_000
"""How long a received message is hidden."""

WAIT_MS: Final = 20_000
"""How long a receive waits for a message."""

INVISIBLE_BOUNDS: Final = (100, 12 * 60 * 60_000)
"""RocketMQ's own clients allow twelve hours at most."""

WAIT_BOUNDS: Final = (0, 10 * 60_000)

SETTLE_MS: Final = 10_000
"""How long an acknowledgement is tried while its broker is away."""

SETTLE_AGAIN_S: Final = 0.2


class SimpleConsumer(AsyncClient):
    """Receives messages and acknowledges them.  Made anywhere, used on the loop it starts on."""

    def __init__(self, group: str, **settings: Unpack[SimpleConsumerSettings]) -> None:
        self._common, self.config = split_settings(settings, SimpleConfig)
        check_group(group)
        life = Life(f"{type(self).__name__} {group!r}")
        super().__init__(group, ClientEngine(self._common, what=life.what), life)
        self._machine = SimplePop(self.config.start_mode)
        self._receipts = HeldReceipts()
        self._driver: SimpleDriver | None = None

    # Life

    async def start(self) -> Self:
        """Connect.  A start that fails leaves nothing behind and may be tried again."""
        self._life.begin()
        try:
            if self.state is State.FAILED:
                self._engine = ClientEngine(self._common, what=self._life.what)
            engine = self._engine
            engine.start()
            await first_routes(engine, self._machine.topics)
        except BaseException:
            self._life.failed()
            await self._engine.stop()
            raise
        self._missing = MissingTopics(engine)
        self._calls, self._wire_group = PopCalls(engine), engine.wire_name(self.group)
        self._driver = SimpleDriver(
            engine, self._machine, self._calls, self._wire_group, self.config.on_bad_record
        )
        engine.on_route_change(self._routed)
        self._life.succeeded()
        for topic in self._machine.topics:
            self._look_up(topic)
        return self

    async def stop(self) -> None:
        """Return what nobody took, and close; stopping twice is no error.

        What was received and not acknowledged comes again when its invisible time is over.
        """
        was_running = self._life.end()
        try:
            if was_running and self._driver is not None:
                await self._driver.stop()
        finally:
            await self._engine.stop()

    # Topics

    def subscribe(self, topic: str, *, tags: str = ALL, sql: str | None = None) -> Self:
        """Receive messages of a topic, by tags as ``a || b`` or by an SQL92 expression.

        Before the start or after it; again with another filter, the new one counts.
        """
        check_topic_name(topic)
        wire = self._engine.wire_name(topic)
        if wire not in self._machine.topics and len(self._machine.topics) >= TOPICS_MAX:
            raise InvalidSetting("topic", topic, f"{TOPICS_MAX} at most")
        self._machine.subscribe(TopicSubscription(wire, tags, sql))
        if self._driver is not None:
            self._look_up(wire)
        return self

    def unsubscribe(self, topic: str) -> None:
        """Receive no more messages of a topic."""
        self._machine.unsubscribe(self._engine.wire_name(topic))

    # Messages

    async def receive(
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
        driver = self._require()
        check_range("max_messages", max_messages, (1, POP_COUNT_MAX))
        check_range("invisible_ms", invisible_ms, INVISIBLE_BOUNDS)
        check_range("wait_ms", wait_ms, WAIT_BOUNDS)
        if not self._machine.topics:
            raise InvalidSetting("topic", "", "subscribe to one before you receive")
        clock = self._engine.clock
        receiving = Receiving(max_messages, invisible_ms, clock() + wait_ms)
        try:
            messages = await driver.receive(receiving)
        except FlintError as error:
            raise self._explained(error) from error
        now_ms = clock()
        for each in messages:
            assert each.receipt is not None
            self._receipts.add(each.receipt, invisible_ms, now_ms)
        return [self._seen(each) for each in messages]

    async def ack(self, message: ReceivedMessage) -> None:
        """A message is done: nobody receives it again.

        Raises `ReceiptExpired` where its invisible time is over and it comes again.
        """
        topic, handle = self._popped(message)
        await self._patiently(lambda: self._calls.ack(self._wire_group, topic, handle))
        self._receipts.settled(message)

    async def ack_many(self, messages: Iterable[ReceivedMessage]) -> None:
        """`ack` of many, with one request for each broker that has them.

        All are tried; then the first error is raised, if there was any.
        """
        self._require()
        failure: FlintError | None = None
        shares: dict[str, list[tuple[ReceivedMessage, tuple[str, ReceiptHandle]]]] = {}
        for message in messages:
            try:
                popped = self._popped(message)
            except ReceiptExpired as error:
                failure = failure or error
            else:
                shares.setdefault(popped[1].broker, []).append((message, popped))
        done = await asyncio.gather(*(self._ack_share(b, share) for b, share in shares.items()))
        failure = next((each for each in done if each is not None), failure)
        if failure is not None:
            raise failure

    async def change_invisible(
        self, message: ReceivedMessage, invisible_ms: int
    ) -> ReceivedMessage:
        """Hide a message for ``invisible_ms`` from now on, longer or shorter; 0 returns it at once.

        Gives the message with its new receipt.  The old one may be used further with this consumer;
        any other needs the new one.
        """
        topic, handle = self._popped(message)
        check_range("invisible_ms", invisible_ms, (0, INVISIBLE_BOUNDS[1]))
        newer = await self._patiently(
            lambda: self._calls.hide(self._wire_group, topic, handle, invisible_ms)
        )
        self._receipts.replaced(message, newer, invisible_ms, self._engine.clock())
        return with_receipt(message, newer)

    def status(self) -> SimpleStatus:
        """What each broker is asked, and what is wrong with it."""
        self._require()
        troubles = {
            self._engine.user_name(topic): text for topic, text in self._missing.troubles.items()
        }
        return simple_status(self.group, self._engine, self._machine, len(self._receipts), troubles)

    # Inside

    def _require(self) -> SimpleDriver:
        self._life.require_running()
        assert self._driver is not None
        return self._driver

    def _popped(self, message: ReceivedMessage) -> tuple[str, ReceiptHandle]:
        """The topic that was popped, and the handle that counts."""
        self._require()
        engine = self._engine
        handle = self._receipts.find(message, engine.clock(), engine.wall())
        return engine.wire_name(message.topic), handle

    def _seen(self, message: ReceivedMessage) -> ReceivedMessage:
        topic = self._engine.user_name(message.topic)
        return message if topic == message.topic else message._replace(topic=topic)

    async def _ack_share(
        self, broker: str, share: list[tuple[ReceivedMessage, tuple[str, ReceiptHandle]]]
    ) -> FlintError | None:
        async def ack_rest() -> None:
            handles = [popped for _, popped in share]
            outcomes = await self._calls.ack_many(self._wire_group, broker, handles)
            left, failure = [], None
            for each, error in zip(share, outcomes, strict=True):
                if error is None:
                    self._receipts.settled(each[0])
                else:
                    left.append(each)
                    failure = failure or error
            share[:] = left
            if failure is not None:
                raise failure

        try:
            await self._patiently(ack_rest)
        except FlintError as error:
            return error
        return None

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Try a call again while its broker is away: each of them may be made twice."""
        until_ms = self._engine.stopwatch() + SETTLE_MS
        while True:
            try:
                return await call()
            except (Unreachable, NoRoute):
                if self._engine.stopwatch() >= until_ms:
                    raise
            await asyncio.sleep(SETTLE_AGAIN_S)

    def _explained(self, error: FlintError) -> FlintError:
        engine = self._engine
        if is_access_refusal(error):
            topics = map(engine.user_name, self._machine.topics)
            return explain_access(error, engine.config.access_key, self.group, topics)
        if isinstance(error, NoRoute):
            name = engine.user_name(error.topic)
            text = self._missing.troubles.get(error.topic) or (
                f"the name server ({';'.join(engine.name_servers)}) knows none"
            )
            return NoRoute(name, text)
        return error

    def _look_up(self, topic: str) -> None:
        route = self._engine.routes.find(topic)
        if route is None:
            self._engine.spawn(self._missing.seek([topic]), f"seeking {topic}")
        else:
            self._routed(topic, route)

    def _routed(self, topic: str, route: Route) -> None:
        driver = self._driver
        if driver is None:
            return
        masters = {each.broker for each in route.brokers if each.master is not None}
        brokers = {
            each.broker
            for each in route.queues
            if each.permission & Permission.READ and each.read_count and each.broker in masters
        }
        driver.event(self._machine.route_known(topic, brokers, self._engine.clock()))
