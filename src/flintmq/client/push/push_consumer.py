"""The push consumer on asyncio.  The one for threads, `flintmq.PushConsumer`, is a face of it.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")

    @consumer.listener("orders", tags="paid || refunded", batch_max=32)
    async def bill(messages): ...

    async with consumer:
        await until_told()

A listener is a function, which runs in a thread of the pool, or an ``async def``, which runs on
the loop.  What it may return is in `core.group.listener_results`.  Without any listener the
messages are for ``async for message in consumer``: each is consumed when the loop asks for the
next, is redelivered later when an exception leaves the ``async with``, and is left as it is by
``break``.

    created ──start──► running ──stop──► stopped
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack, overload

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.broker_calls import master_of, reader_of
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.lifecycle import Life, State
from flintmq.client.engine.setting_names import renamed
from flintmq.client.offsets.offset_store import FileOffsets, OffsetStore, RemoteOffsets
from flintmq.client.producer.producer import Producer
from flintmq.client.producer.trace_hooks import ConsumeTrace
from flintmq.client.producer.tracer import Tracer, start_tracer
from flintmq.client.push.message_iterator import Iteration, MessageIterator
from flintmq.client.push.push_calls import PushCalls
from flintmq.client.push.push_driver import PushDriver
from flintmq.client.push.push_member import PushMember
from flintmq.client.push.push_settings import PushSettings, read_settings
from flintmq.client.push.push_start import check_rights, check_start
from flintmq.client.push.push_status import (
    ConsumerStatus,
    ListenerStatus,
    consumer_status,
    listener_status,
)
from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.group.consumer_settings import check_range
from flintmq.core.group.listener_results import Listener
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.errors import InvalidSetting, WrongState
from flintmq.filter.tags import ALL
from flintmq.model.queue import QueueRef

L = TypeVar("L", bound=Listener)

STOP_S: Final = 30.0
"""How long a stop waits for listeners."""

THREADS_BOUNDS: Final = (1, 1_000)


class PushConsumer(AsyncClient):
    """Consumes topics as a member of a group.  Made anywhere, used on the loop it starts on."""

    def __init__(
        self, group: str, listener: Listener | None = None, **settings: Unpack[PushSettings]
    ) -> None:
        self._common, self.config = read_settings(group, settings)
        life = Life(f"{type(self).__name__} {group!r}")
        super().__init__(group, ClientEngine(self._common, what=life.what), life)
        self._wanted: dict[str, TopicSubscription] = {}
        self._listeners: dict[str, Listener] = {}
        self._usual: Listener | None = None
        self._driver: PushDriver | None = None
        self._tracer: Tracer | None = None
        if listener is not None:
            self._use(listener)

    # Before the start

    def subscribe(
        self,
        topic: str,
        *,
        tags: str = ALL,
        sql: str | None = None,
        listener: Listener | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
    ) -> Self:
        """Consume a topic, by tags as ``a || b`` or by an SQL92 expression.

        ``listener`` is for this topic alone; ``batch_max`` and ``ordered`` are the consumer's
        unless they are given.
        """
        if self.state not in (State.CREATED, State.FAILED):
            raise WrongState(self._life.what, self.state, "subscribe before it is started")
        if topic in self._wanted:
            raise InvalidSetting("topic", topic, "is subscribed twice")
        self._wanted[topic] = TopicSubscription(topic, tags, sql, batch_max, ordered)
        if listener is not None:
            self._listeners[topic] = _checked(listener)
        return self

    @overload
    def listener(self, topic: L, /) -> L: ...

    @overload
    def listener(
        self,
        topic: str,
        /,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
    ) -> Callable[[L], L]: ...

    def listener(
        self,
        topic: str | L,
        /,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
    ) -> L | Callable[[L], L]:
        """A decorator.  With a topic it subscribes to it; bare it is for all topics without one."""
        if not isinstance(topic, str):
            self._use(topic)
            return topic

        def subscribe(listener: L) -> L:
            self.subscribe(
                topic,
                tags=tags,
                sql=sql,
                listener=listener,
                batch_max=batch_max,
                ordered=ordered,
            )
            return listener

        return subscribe

    @property
    def has_listeners(self) -> bool:
        """Whether there is any; without one the messages are for who iterates."""
        return bool(self._listeners) or self._usual is not None

    # Life

    async def start(self) -> Self:
        """Join the group.  A start that fails leaves nothing behind and may be tried again."""
        self._life.begin()
        try:
            if self.state is State.FAILED:
                self._engine = ClientEngine(self._common, what=self._life.what)
            self._driver = await self._start()
        except BaseException:
            self._life.failed()
            await self._stop_engine()
            raise
        self._life.succeeded()
        return self

    async def _start(self) -> PushDriver:
        engine, config = self._engine, self.config
        wanted = self._checked_subscriptions()
        engine.start()
        machine = GroupConsumer(
            config,
            engine.client_id,
            wanted,
            strategy=config.strategy,
            now_ms=engine.clock(),
            wall_ms=engine.wall(),
        )
        store = self._store()
        await store.load()
        await check_start(engine, machine.subscriptions, config)
        self._tracer = await start_tracer(Producer, engine, config, config.group, "CONSUME")
        if self._tracer is not None:
            hooks = (*config.consume_hooks, ConsumeTrace(self._tracer))
            config = replace(config, consume_hooks=hooks)
        calls = PushCalls(engine, config, store)
        driver = PushDriver(engine, machine, config, calls, self._listeners, self._usual)
        engine.add_consumer(PushMember(engine, driver, config))
        try:
            await check_rights(engine, machine, config, await engine.heartbeat())
        except BaseException:
            driver.delivery.close()
            raise
        driver.start()
        return driver

    async def stop(self, timeout_s: float = STOP_S) -> list[ListenerStatus]:
        """Leave the group: no more pulls, listeners may end, then commit, unlock, unregister.

        What still runs when the time is up is given back, and its messages come again to
        somebody.  Stopping twice is no error.
        """
        was_running = self._life.end()
        driver = self._driver
        if not was_running or driver is None:
            await self._stop_engine()
            return []
        try:
            return [listener_status(each) for each in await driver.stop(timeout_s)]
        finally:
            await self._stop_engine()

    async def _stop_engine(self) -> None:
        tracer, self._tracer = self._tracer, None
        try:
            if tracer is not None:
                await tracer.stop()
        finally:
            await self._engine.stop()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and self._driver is not None:
            self._driver.delivery.inbox.send_back(error)
        await super().__aexit__(kind, error, traceback)

    # While it runs

    async def pause(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Pull no more, all queues or these; what was pulled is still consumed."""
        self._require().machine.pause(self._wire_queues(queues))

    async def resume(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Pull again, all queues or these."""
        driver = self._require()
        chosen = self._wire_queues(queues)
        driver.event(driver.machine.resume(self._engine.clock(), chosen))

    async def status(self) -> ConsumerStatus:
        """What each queue does and waits for, and what listeners are at."""
        driver = self._require()
        engine, status = self._engine, driver.machine.status()
        troubles = {**status.troubles, **driver.missing.troubles}
        troubles |= {at: str(no) for at, no in engine.links.refusals.items()}
        return consumer_status(
            replace(status, troubles=troubles), driver.delivery, driver.stats, engine.clock()
        )

    async def queues(self) -> list[QueueRef]:
        """The queues this member has now, by the names the program knows."""
        status = self._require().machine.status()
        return sorted(
            QueueRef(self._engine.user_name(each.queue.topic), *_rest(each.queue))
            for each in status.queues
        )

    async def resize_pool(self, threads_max: int, threads_min: int | None = None) -> None:
        """Change how many listeners run at once, from now on."""
        driver = self._require()
        low = threads_max if threads_min is None else threads_min
        check_range("threads_max", threads_max, THREADS_BOUNDS)
        check_range("threads_min", low, (1, threads_max))
        driver.delivery.resize(low, threads_max)

    resize = renamed("resize", resize_pool)

    def __aiter__(self) -> Iteration:
        return Iteration(self.inbox)

    @property
    def inbox(self) -> MessageIterator:
        """The messages for loops; `WrongState` where they are for listeners."""
        driver = self._require()
        if not driver.delivery.is_iterated:
            raise WrongState(self._life.what, self.state, "its messages are for its listeners")
        return driver.delivery.inbox

    # Inside

    def _use(self, listener: Listener) -> None:
        if self._usual is not None:
            raise InvalidSetting("listener", repr(listener), "there is one for all topics already")
        self._usual = _checked(listener)

    def _checked_subscriptions(self) -> list[TopicSubscription]:
        """What to subscribe to; a topic must have a listener if any has."""
        for topic in self._wanted:
            if self.has_listeners and self._usual is None and topic not in self._listeners:
                raise InvalidSetting("listener", topic, "this topic has none, and others have")
        if self.has_listeners:
            return list(self._wanted.values())
        return [
            TopicSubscription(each.topic, each.tags, each.sql, 1, each.ordered)
            for each in self._wanted.values()
        ]

    def _store(self) -> OffsetStore:
        engine, config = self._engine, self.config
        if config.offset_store is not None:
            return config.offset_store
        if not config.is_clustering:
            return FileOffsets(engine.client_id, config.wire_group, directory=config.offsets_dir)
        return RemoteOffsets(
            config.wire_group,
            call=engine.make,
            address_of=lambda queue: master_of(engine, queue),
            reader_of=lambda queue: reader_of(engine, queue),
        )

    def _require(self) -> PushDriver:
        self._life.require_running()
        assert self._driver is not None
        return self._driver

    def _wire_queues(self, queues: Iterable[QueueRef] | None) -> list[QueueRef] | None:
        if queues is None:
            return None
        return [
            QueueRef(self._engine.wire_name(each.topic), each.broker, each.queue_id)
            for each in queues
        ]


def _rest(queue: QueueRef) -> tuple[str, int]:
    return queue.broker, queue.queue_id


def _checked(listener: Listener) -> Listener:
    if not callable(listener):
        raise InvalidSetting("listener", repr(listener), "must be a function")
    return listener
