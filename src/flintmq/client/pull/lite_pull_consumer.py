"""The lite pull consumer on asyncio.  The one for threads, `flintmq.LitePullConsumer`, is a face.

    async with LitePullConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", tags="paid")       # or assign(queues)
        while messages := await consumer.poll():
            ...

Messages are pulled ahead by themselves (`core.pull.lite_pull` says when) and handed out by `poll`.
Subscribed topics are shared out among the members of the group; assigned queues are this one's
whoever else reads them.  The two exclude each other.

With ``auto_commit`` a batch counts as done when the next one is asked for, or at `stop`; leaving
the ``async with`` by an exception does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.client_config import split_settings
from flintmq.client.engine.setting_names import renamed
from flintmq.client.engine.timing import SYSTEM
from flintmq.client.producer.producer import Producer
from flintmq.client.producer.trace_hooks import ConsumeTrace
from flintmq.client.producer.tracer import Tracer, start_tracer
from flintmq.client.pull.lite_driver import LiteDriver
from flintmq.client.pull.pull_client import StreamClient, StreamOwner
from flintmq.client.pull.pull_settings import (
    RENAMED,
    LiteConfig,
    LitePullSettings,
    subscription_to,
)
from flintmq.client.pull.queue_assignment import QueueAssignment
from flintmq.client.pull.queue_listeners import QueueListener, QueueListeners
from flintmq.client.push.push_status import PullingStatus
from flintmq.core.group.actions import QueuesChanged
from flintmq.core.group.consumer_settings import check_range
from flintmq.core.group.rebalance import Share
from flintmq.core.group.subscriptions import TOPICS_MAX, TopicSubscription
from flintmq.core.refusals import explain_access, is_access_refusal
from flintmq.errors import FlintError, InvalidSetting, WrongState
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import Route
from flintmq.protocol.bodies.client import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

POLL_MS: Final = 5_000
"""How long a poll waits for a message."""

POLL_MS_MAX: Final = 24 * 60 * 60_000


class LitePullConsumer(AsyncClient):
    """Hands out messages when asked.  Made on any thread, used on the loop it is started on."""

    def __init__(self, group: str, **settings: Unpack[LitePullSettings]) -> None:
        config, self.config = split_settings(settings, LiteConfig, RENAMED)
        self._client = client = StreamClient(type(self).__name__, group, config, self.config)
        super().__init__(group, client.engine)
        self._assignment = QueueAssignment(client.engine, client.pulling, self.config, self._shared)
        self._listeners = QueueListeners(client.engine)
        self._puller = LiteDriver(client, self.config)
        self._wishes: dict[str, TopicSubscription] = {}
        self._versions: dict[str, int] = {}
        self._assigned: dict[QueueRef, TopicSubscription] | None = None
        self._watched: set[str] = set()
        self._tracer: Tracer | None = None
        client.engine.on_route_change(self._routed)
        client.join(
            StreamOwner(
                self._subscriptions,
                self._assignment.wake,
                self._puller.offsets,
                self._reset,
                self._puller.cached,
            )
        )

    # Life

    @property
    def retry_topic(self) -> str:
        """The topic of messages that were sent back; subscribe to it to get them."""
        return self._client.engine.user_name(self._client.retry_topic)

    async def status(self) -> PullingStatus:
        """What each queue does and waits for."""
        self._client.require_running()
        return self._client.status(self._puller.status(), self._assignment.troubles())

    async def start(self) -> Self:
        await self._client.start()
        engine = self._client.engine
        self._tracer = await start_tracer(Producer, engine, self.config, self.group, "CONSUME")
        self._puller.start()
        self._assignment.start()
        if self._assigned is not None:
            self._puller.apply(self._assigned)
        self._client.engine.spawn(self._look_up(self._watched), "queues")
        return self

    async def stop(self) -> None:
        """Commit, leave the group, close.  Stopping twice is no error."""
        await self._stop(settle=True)

    async def _stop(self, *, settle: bool) -> None:
        try:
            if self._client.engine.life.is_running:
                await self._puller.stop(settle=settle)
            if self._tracer is not None:
                await self._tracer.stop()
        finally:
            self._assignment.close()
            await self._client.stop()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop(settle=error is None)

    # Which messages

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Take part in consuming a topic.  Again with another filter: the new one counts."""
        if self._assigned is not None:
            raise _exclusive(self._client, "subscribe")
        wire = self._client.wire_topic(topic)
        if wire not in self._wishes and len(self._wishes) >= TOPICS_MAX:
            raise InvalidSetting("topic", topic, f"{TOPICS_MAX} at most")
        wish = self._wishes[wire] = subscription_to(wire, tags, sql)
        self._versions[wire] = self._client.engine.wall()
        self._assignment.add(wire)
        share = self._assignment.share(wire)
        if share is not None:
            self._puller.apply(dict.fromkeys(share.own, wish), topic=wire)
        self._tell_brokers()

    def unsubscribe(self, topic: str) -> None:
        """Give a topic up; what is cached of it is forgotten."""
        wire = self._client.wire_topic(topic)
        if self._wishes.pop(wire, None) is None:
            return
        self._versions.pop(wire, None)
        self._assignment.remove(wire)
        self._puller.apply({}, topic=wire)
        self._tell_brokers()

    def assign(
        self, queues: Iterable[QueueRef], *, tags: str | None = None, sql: str | None = None
    ) -> None:
        """Consume exactly these queues from now on; queues that stay go on where they are."""
        if self._wishes:
            raise _exclusive(self._client, "assign")
        chosen = [self._client.to_wire(queue) for queue in queues]
        self._assigned = {queue: subscription_to(queue.topic, tags, sql) for queue in chosen}
        self._puller.apply(self._assigned)

    @property
    def assignment(self) -> frozenset[QueueRef]:
        """The queues it consumes now."""
        return frozenset(map(self._client.to_user, self._puller.queues))

    async def queues(self, topic: str) -> list[QueueRef]:
        """All queues of a topic that may be read."""
        return await self._client.queues(topic)

    def on_queues_changed(self, topic: str, listener: QueueListener) -> None:
        """Have ``listener(topic, queues, own)`` called when either changes.

        Queues of a topic that is not subscribed are looked up every ``route_ms``.
        """
        wire = self._client.wire_topic(topic)
        self._listeners.add(topic, listener)
        self._watched.add(wire)
        if self._client.engine.life.is_running:
            self._client.engine.spawn(self._look_up([wire]), "queues")

    listen = renamed("listen", on_queues_changed)

    async def poll(self, timeout_ms: int = POLL_MS) -> list[ReceivedMessage]:
        """The next messages of one queue, none when nothing comes in time.

        Raises `BrokerRefused` where nothing can come because the account has no rights.
        """
        self._client.require_running()
        check_range("timeout_ms", timeout_ms, (0, POLL_MS_MAX))
        started_ns = time_ns()
        messages = await self._puller.poll(timeout_ms)
        if messages:
            self._handed_out(messages, started_ns)
        else:
            self._require_rights()
        if messages and self._tracer is not None:
            ConsumeTrace(self._tracer).handed_out(self.group, messages)
        return messages

    async def poll_table(self, timeout_ms: int = POLL_MS) -> pa.Table:
        """The next messages of one queue as an Arrow table, without rows when nothing comes.

        It is one `poll`, with the same rules of commit.  It needs ``flintmq[arrow]``.
        """
        from flintmq.arrow import message_table

        return message_table(await self.poll(timeout_ms))

    def poll_past_loop(self, timeout_ms: int) -> list[ReceivedMessage] | None:
        """`poll` on a thread that is not the loop's; None where the loop has to do it."""
        self._client.require_running()
        check_range("timeout_ms", timeout_ms, (0, POLL_MS_MAX))
        if self._tracer is not None or self._client.engine.timing is not SYSTEM:
            return None
        started_ns = time_ns()
        messages = self._puller.poll_here(timeout_ms)
        if messages:
            self._handed_out(messages, started_ns)
        elif messages is not None:
            self._require_rights()
        return messages

    def _handed_out(self, messages: list[ReceivedMessage], started_ns: int) -> None:
        client = self._client
        if client.counts is not None:
            client.counts.pulls.handed_out(messages[0].topic, len(messages))
        if client.watch:
            first = messages[0]
            queue = QueueRef(first.topic, first.broker, first.queue_id)
            client.watch.received(client.to_wire(queue), messages, started_ns)

    def _require_rights(self) -> None:
        """Raise what a broker refused, where no queue is ours because of it."""
        if not self._wishes or self._puller.queues:
            return
        engine = self._client.engine
        for error in tuple(engine.links.refusals.values()):
            if is_access_refusal(error):
                topics = map(engine.user_name, self._wishes)
                raise explain_access(error, engine.config.access_key, self.group, topics) from error

    def pause(self, *queues: QueueRef) -> None:
        """Hand out and pull nothing of these queues, or of all, until they are resumed."""
        self._client.require_running()
        self._puller.pause(map(self._client.to_wire, queues or self.assignment))

    def resume(self, *queues: QueueRef) -> None:
        self._client.require_running()
        self._puller.resume(map(self._client.to_wire, queues or self.assignment))

    # Offsets

    async def seek(self, queue: QueueRef, offset: int) -> None:
        """Go on from ``offset``, which the queue must have or get next."""
        on_wire = self._require(queue)
        check_range("offset", offset, (0, 2**63 - 1))
        bounds = await self._client.pulling.extent(on_wire)
        if not bounds.start <= offset <= bounds.stop:
            reason = f"the queue reaches from {bounds.start} to {bounds.stop}"
            raise InvalidSetting("offset", str(offset), reason)
        self._puller.seek(on_wire, QueueOffset(offset))

    async def seek_to_start(self, queue: QueueRef) -> None:
        """Go on from the oldest message that is kept."""
        on_wire = self._require(queue)
        self._puller.seek(on_wire, await self._client.pulling.min_offset(on_wire))

    async def seek_to_end(self, queue: QueueRef) -> None:
        """Go on from the next message that comes."""
        on_wire = self._require(queue)
        self._puller.seek(on_wire, await self._client.pulling.max_offset(on_wire))

    async def seek_to_time(self, queue: QueueRef, time_ms: int) -> None:
        """Go on from the first message stored at a time (ms since 1970) or after it."""
        on_wire = self._require(queue)
        self._puller.seek(on_wire, await self._client.pulling.offset_at(on_wire, time_ms))

    async def offset_at(self, queue: QueueRef, time_ms: int) -> QueueOffset:
        """The first message stored at a time or after it."""
        self._client.require_running()
        return await self._client.pulling.offset_at(self._client.to_wire(queue), time_ms)

    def position(self, queue: QueueRef) -> QueueOffset | None:
        """Up to where messages were handed out; None while the start is not known."""
        return self._puller.position(self._require(queue))

    async def committed(self, queue: QueueRef) -> QueueOffset | None:
        """Where the group stands, None if nobody knows."""
        self._client.require_running()
        on_wire = self._client.to_wire(queue)
        is_ours = on_wire in self._puller.queues
        return await self._client.keeper.read(on_wire, from_store=not is_ours)

    async def commit(
        self, offsets: Mapping[QueueRef, int] | None = None, *, persist: bool = True
    ) -> None:
        """Store these offsets, or that all that was handed out is done.

        Without ``persist`` they are only remembered, and stored within ``commit_interval_ms``.
        """
        self._client.require_running()
        if offsets is None:
            await self._puller.commit(self._puller.done(), persist=persist)
            return
        for offset in offsets.values():
            check_range("offset", offset, (0, 2**63 - 1))
        chosen = {
            self._client.to_wire(queue): QueueOffset(offset) for queue, offset in offsets.items()
        }
        await self._puller.commit(chosen, persist=persist)

    async def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have a message redelivered on the group's `retry_topic`.

        With level 0 the broker chooses the delay, -1 makes it a dead letter at once.
        """
        await self._client.send_back(message, delay_level)

    # Inside

    def _require(self, queue: QueueRef) -> QueueRef:
        self._client.require_running()
        on_wire = self._client.to_wire(queue)
        self._puller.require(on_wire)
        return on_wire

    def _tell_brokers(self) -> None:
        if self._client.engine.life.is_running:
            self._client.engine.spawn(self._client.engine.heartbeat(), "heartbeat")

    def _shared(self, share: Share) -> None:
        wish = self._wishes.get(share.topic)
        if wish is not None:
            self._puller.apply(dict.fromkeys(share.own, wish), topic=share.topic)
            self._notify_listeners(share.topic, share.queues, share.own)

    async def _look_up(self, topics: Iterable[str]) -> None:
        engine = self._client.engine
        for topic in list(topics):
            try:
                self._routed(topic, await engine.route(topic))
            except FlintError as error:
                engine.events.add("route", topic, str(error))

    def _routed(self, topic: str, route: Route) -> None:
        """Queues of a subscribed topic are told with our share of them."""
        if topic in self._watched and topic not in self._wishes:
            own = {queue for queue in self._puller.queues if queue.topic == topic}
            self._notify_listeners(topic, route.subscribe_queues(topic), own)

    def _notify_listeners(
        self, topic: str, queues: Iterable[QueueRef], own: Iterable[QueueRef]
    ) -> None:
        client = self._client
        all_queues = tuple(map(client.to_user, queues))
        ours = tuple(sorted(map(client.to_user, own)))
        self._listeners.notify(QueuesChanged(client.engine.user_name(topic), all_queues, ours))

    def _subscriptions(self) -> tuple[Subscription, ...]:
        return tuple(wish.to_wire(self._versions[topic]) for topic, wish in self._wishes.items())

    async def _reset(self, offsets: Mapping[QueueRef, int]) -> None:
        """Continue at the offsets of a reset, whatever is being processed."""
        for queue, offset in offsets.items():
            if queue in self._puller.queues:
                self._puller.seek(queue, QueueOffset(offset))
                self._client.keeper.update(queue, QueueOffset(offset))
        await self._client.keeper.persist()


def _exclusive(client: StreamClient, what: str) -> WrongState:
    other = "assigned" if what == "subscribe" else "subscribed"
    return WrongState(
        client.engine.life.what, other, f"{what} and what it is {other} to exclude each other"
    )
