"""What every consumer that pulls by itself stands on: engine, offsets, and its place in a group.

To brokers it is a consumer that pulls (its client id ends in ``@STREAM``, and its requests carry
a mark).  Users name topics and queues without the namespace; `to_wire` and `to_user` translate.

In broadcasting the client id is the same after a restart, since the offset file is found by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import time_ns
from typing import Final

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.lifecycle import State
from flintmq.client.hooks.receive_hooks import Watch, operation_of
from flintmq.client.offsets.offset_keeper import OffsetKeeper
from flintmq.client.offsets.offset_store import FileOffsets, OffsetStore, RemoteOffsets
from flintmq.client.offsets.watched_offsets import watched
from flintmq.client.pull.pull_settings import LiteConfig, PullConfig
from flintmq.client.push.push_status import PullingStatus, QueueStatus
from flintmq.client.push.running_info import describe_consumer
from flintmq.core.group.consumer_settings import check_range, start_time_ms
from flintmq.core.pull.lite_settings import check_group
from flintmq.errors import WrongState
from flintmq.model.group import ConsumeFromWhere, ConsumeType, retry_topic
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.start_point import read_start, start_point
from flintmq.model.topic import check_topic_name
from flintmq.protocol.bodies.client import ConsumerGroup, Subscription
from flintmq.protocol.bodies.client_call import DirectResult, QueueState, RunningConsumer
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull_template import mark_stream

STABLE_INSTANCE: Final = "DEFAULT"
"""The instance name of a broadcasting consumer that was given none, as in RocketMQ."""

_PRIVATE: Final = frozenset({"consume_hooks", "metrics"})
"""Settings that are no matter of those who ask a member for its own."""

DELAY_LEVEL_MAX: Final = 1_000
"""More levels than any broker has; -1 stands for the dead letters."""


@dataclasses.dataclass(frozen=True, slots=True)
class StreamOwner:
    """What a consumer tells of itself to brokers that ask.  Names are those of the wire."""

    subscriptions: Callable[[], tuple[Subscription, ...]]
    """What the heartbeat says."""
    wake: Callable[[], None]
    """The members of the group changed."""
    offsets: Callable[[str | None], Mapping[QueueRef, int]]
    """How far it is in the queues of a topic, or in all."""
    reset: Callable[[Mapping[QueueRef, int]], Awaitable[None] | None]
    """Go on from these offsets."""
    cached: Callable[[], Iterable[tuple[str, int, int, int]]]
    """For metrics: each topic, our queues of it, and the messages and bytes they have cached."""


class StreamClient:
    """The common part of one consumer.  It is a member of its engine."""

    def __init__(
        self, kind: str, group: str, config: ClientConfig, settings: PullConfig | LiteConfig
    ) -> None:
        check_group(group)
        name = config.instance_name
        if name is None and not settings.is_clustering:
            name = STABLE_INSTANCE
        hooks = (*config.request_hooks, _StreamMark())
        config = dataclasses.replace(config, instance_name=name, request_hooks=hooks)
        self.is_hooked = len(hooks) > 1
        """Whether the program wants to see requests."""
        self.own_group = group
        self.settings = settings
        self.engine = ClientEngine(config, what=f"{kind} {group!r}", stream=True)
        self.group = self.engine.wire_name(group)
        self.retry_topic = retry_topic(self.group)
        self.pulling = BrokerCalls(self.engine, self.group, unit_mode=settings.unit_mode)
        self.watch = Watch(settings.consume_hooks, group, config.namespace, self.engine.user_name)
        self.counts = None if settings.metrics is None else settings.metrics.consumer(group)
        self.keeper = OffsetKeeper(
            watched(self._store(), self.watch),
            self.engine.events,
            settings.commit_interval_ms,
            self.engine.timing,
        )
        self._owner: StreamOwner
        self._started_ms = 0

    def join(self, owner: StreamOwner) -> None:
        """Be the consumer ``owner`` to brokers."""
        self._owner = owner
        self.engine.add_consumer(self)

    # Life

    @property
    def namespace(self) -> str:
        return self.engine.config.namespace

    def require_running(self) -> None:
        self.engine.life.require_running()

    async def start(self) -> None:
        life = self.engine.life
        if life.state in (State.CREATED, State.FAILED):
            try:
                await self.keeper.load()
            except BaseException:
                life.state = State.FAILED
                raise
        self.engine.start()
        self._started_ms = self.engine.wall()
        if self.counts is not None:
            self.counts.client_id = self.engine.client_id
            self.counts.cached = self._owner.cached
        self.engine.spawn(self.keeper.run(), "offsets")

    async def stop(self) -> None:
        """Store the offsets and leave.  It may be called in any state, and twice."""
        try:
            if self.engine.life.is_running:
                await self.keeper.persist()
        finally:
            if self.counts is not None:
                self.counts.cached = None
            await self.engine.stop()

    def status(self, queues: Iterable[QueueStatus], troubles: Mapping[str, str]) -> PullingStatus:
        """What is given by the names of the wire, and which brokers refuse us."""
        engine = self.engine
        return PullingStatus(
            self.own_group,
            engine.client_id,
            self.engine.state.value,
            tuple(dataclasses.replace(each, queue=self.to_user(each.queue)) for each in queues),
            {
                **{engine.user_name(topic): text for topic, text in troubles.items()},
                **{address: str(error) for address, error in engine.links.refusals.items()},
            },
        )

    # Names

    def wire_topic(self, topic: str) -> str:
        check_topic_name(topic)
        return self.engine.wire_name(topic)

    def to_wire(self, queue: QueueRef) -> QueueRef:
        if not self.namespace:
            return queue
        return dataclasses.replace(queue, topic=self.engine.wire_name(queue.topic))

    def to_user(self, queue: QueueRef) -> QueueRef:
        if not self.namespace:
            return queue
        return dataclasses.replace(queue, topic=self.engine.user_name(queue.topic))

    async def queues(self, topic: str) -> list[QueueRef]:
        """All queues of a topic that may be read."""
        self.require_running()
        return [
            self.to_user(queue)
            for queue in await self.engine.subscribe_queues(self.wire_topic(topic))
        ]

    async def start_offset(self, queue: QueueRef, start_from: object) -> QueueOffset:
        """Where a program begins that pulls by itself: the group's offset, or ``start_from``."""
        self.require_running()
        settings, start = self.settings, start_point(read_start(start_from))
        on_wire = self.to_wire(queue)
        found = await self.pulling.start_offset(
            on_wire,
            await self.keeper.read(on_wire),
            start,
            start_time_ms(start, None, self.engine.wall()),
            is_broker_s=settings.is_clustering and settings.offset_store is None,
        )
        return found.offset

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Have a message redelivered to the group, on its retry topic."""
        self.require_running()
        check_range("delay_level", delay_level, (-1, DELAY_LEVEL_MAX))
        on_wire = message._replace(topic=self.engine.wire_name(message.topic))
        retry_max = self.settings.retry_max
        is_dead = delay_level < 0 or message.reconsume_times >= retry_max
        if not self.watch:
            await self.pulling.redeliver(on_wire, delay_level, retry_max)
        else:
            queue = QueueRef(on_wire.topic, message.broker, message.queue_id)
            with self.watch.settling(operation_of(is_given_up=is_dead), [queue], [message]):
                await self.pulling.redeliver(on_wire, delay_level, retry_max)
        if self.counts is not None:
            self.counts.sent_back(message.topic, "dead_letter" if is_dead else "retry")

    # Who watches

    def pulled(self, queue: QueueRef, messages: Sequence[ReceivedMessage], started_ns: int) -> None:
        """A pull ended, and the program gets these messages."""
        if self.counts is not None:
            topic = self.engine.user_name(queue.topic)
            self.counts.pulls.pulled(topic, time_ns() - started_ns, is_well=True)
            self.counts.pulls.handed_out(topic, len(messages))
        if self.watch:
            self.watch.received(queue, messages, started_ns)

    def pull_failed(self, queue: QueueRef, started_ns: int, error: BaseException) -> None:
        if self.counts is not None:
            topic = self.engine.user_name(queue.topic)
            self.counts.pulls.pulled(topic, time_ns() - started_ns, is_well=False)
        if self.watch:
            self.watch.received(queue, (), started_ns, error)

    # What the engine asks of a member

    def heartbeat(self) -> ConsumerGroup:
        settings = self.settings
        start_from = ConsumeFromWhere.LAST_OFFSET
        if isinstance(settings, LiteConfig):
            start_from = settings.start.where
        return ConsumerGroup(
            group_name=self.group,
            consume_type=ConsumeType.PULL,
            message_model=settings.model,
            consume_from_where=start_from,
            subscription_data_set=self._owner.subscriptions(),
            unit_mode=settings.unit_mode,
        )

    def notified(self) -> None:
        self._owner.wake()

    def reset_offsets(self, topic: str, offsets: Mapping[QueueRef, int]) -> Awaitable[None] | None:
        return self._owner.reset({q: at for q, at in offsets.items() if q.topic == topic})

    def consume_status(self, topic: str) -> Mapping[QueueRef, int]:
        return self._owner.offsets(topic)

    def running_info(self, *, with_stacks: bool) -> RunningConsumer:
        """Pulling consumers have no listeners, so no stacks either."""
        del with_stacks
        settings = self.settings
        return describe_consumer(
            settings,
            [each.name for each in dataclasses.fields(settings) if each.name not in _PRIVATE],
            consume_type=ConsumeType.PULL,
            ordered=False,
            name_servers=self.engine.name_servers,
            started_ms=self._started_ms,
            subscriptions=self._owner.subscriptions(),
            queues={
                queue: QueueState(commit_offset=offset)
                for queue, offset in self._owner.offsets(None).items()
            },
        )

    def consume_directly(self, message: ReceivedMessage) -> DirectResult:
        del message
        raise WrongState(self.engine.life.what, "pulling", "it has no listener to give it to")

    # Inside

    def _store(self) -> OffsetStore:
        settings = self.settings
        if settings.offset_store is not None:
            return settings.offset_store
        if settings.is_clustering:
            calls = self.pulling
            return RemoteOffsets(
                self.group, call=self.engine.make, address_of=calls.master, reader_of=calls.reader
            )
        return FileOffsets(self.engine.client_id, self.group, directory=settings.offsets_dir)


class _StreamMark:
    """The hook that marks every request."""

    def before(self, address: str, request: Command) -> Command:
        del address
        return mark_stream(request)

    def after(self, address: str, request: Command, answer: Command | None) -> None:
        """Nothing depends on the answer."""
