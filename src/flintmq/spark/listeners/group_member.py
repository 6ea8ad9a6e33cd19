"""A Spark query as a member of its consumer group, on the loop of a client engine.

It sends heartbeats, rebalances with all other members of the group, on threads or on Spark, renews
the locks of ordered queues and commits the offsets of the group.  It never pulls for listeners:
tasks do that.

    Assignment ──shares──────────► OwnedQueues ──actions──► brokers
                                      ▲                       │
    micro-batches planned, finished ──┴────── responses ──────┘

Invariant: a heartbeat reaches the brokers before the members of the group are asked for, and the
query unregisters at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from flintmq.client.engine.broker_calls import master_of, reader_of
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.machine_driver import Actions, MachineDriver
from flintmq.client.offsets.offset_store import ReadFrom, RemoteOffsets
from flintmq.client.pull.new_messages import NewMessages
from flintmq.client.pull.queue_assignment import QueueAssignment
from flintmq.client.push.push_calls import PushCalls
from flintmq.client.push.push_start import check_start
from flintmq.client.push.running_info import GROUP_SETTINGS, describe_consumer
from flintmq.core.group.actions import (
    AskStartOffset,
    CommitOffset,
    LockQueues,
    ReportEvent,
    UnlockQueues,
)
from flintmq.core.group.rebalance import Share
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.core.pull.lite_settings import PullSettings
from flintmq.errors import WrongState
from flintmq.logs import logger
from flintmq.model.group import ConsumeType
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.protocol.bodies.client import ConsumerGroup
from flintmq.protocol.bodies.client_call import DirectResult, QueueState, RunningConsumer
from flintmq.spark.listeners.owned_queues import (
    CommitLate,
    Held,
    OwnedQueue,
    OwnedQueues,
)
from flintmq.spark.tasks.packed_app import Program

log = logger(__name__)

COMMIT_S: Final = 5.0
"""How long to wait for the commits of a micro-batch; they continue in the background."""

LOOK_S: Final = 0.02

TICK_S: Final = 0.5
"""How often the control files are read without an event."""


class GroupMember(MachineDriver):
    """One query in its group.  Made and used on one loop."""

    def __init__(
        self, program: Program, on_tick: Callable[[GroupMember], Awaitable[None]] | None = None
    ) -> None:
        config = program.config
        self._config = config
        self._on_tick = on_tick
        engine = ClientEngine(program.common, what=f"the query of group {config.group!r}")
        super().__init__(engine, f"group {config.wire_group}")
        self.group = config.wire_group
        self._subscriptions = Subscriptions(config, program.subscriptions, engine.wall())
        self.owned = OwnedQueues(self._subscriptions, is_clustering=config.is_clustering)
        self._store = RemoteOffsets(
            self.group,
            call=engine.make,
            address_of=lambda queue: master_of(engine, queue),
            reader_of=lambda queue: reader_of(engine, queue),
        )
        self._push_calls = PushCalls(engine, config, self._store)
        settings = PullSettings(
            model=config.model,
            strategy=config.strategy,
            rebalance_interval_ms=config.rebalance_interval_ms,
        )
        self._assignment = QueueAssignment(engine, self._push_calls, settings, self._share_changed)
        self.new_messages = NewMessages(engine, self._push_calls, self._moved)
        self._started_ms = 0
        self._wake = asyncio.Event()
        self._add_handlers(self.owned, self._push_calls)

    def _add_handlers(self, owned: OwnedQueues, calls: PushCalls) -> None:
        self.on_call(AskStartOffset, self._start_offset, self._start_known, owned.start_failed)
        self.on_done(CommitOffset, self._commit, owned.committed, owned.commit_failed)
        self.on_done(CommitLate, self._commit, owned.committed, owned.commit_failed)
        self.on_call(LockQueues, calls.lock, owned.locked, owned.lock_failed)
        self.on_done(UnlockQueues, calls.unlock, lambda *_: (), _not_unlocked)

    # Lifecycle

    @property
    def client_id(self) -> str:
        return self._engine.client_id

    async def start(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """Join the group; ``stops`` are the offsets of the checkpoint."""
        engine = self._engine
        self.owned.resume(stops)
        engine.start()
        try:
            await check_start(engine, self._subscriptions, self._config)
            self._started_ms = engine.wall()
            engine.add_consumer(self)
            await engine.heartbeat()
        except BaseException:
            await engine.stop()
            raise
        for each in self._subscriptions:
            self._assignment.add(each.topic)
        self._assignment.start()
        self.event(())
        if self._on_tick is not None:
            engine.spawn(self._run(self._on_tick), "control files of the query")

    async def stop(self) -> None:
        """Unlock queues that no micro-batch reads, and leave the group."""
        try:
            if self._engine.life.is_running:
                await asyncio.gather(*self.calls_of(self.owned.leave()))
        finally:
            self._assignment.close()
            self.close()
            await self._engine.stop()

    async def settle(self, timeout_s: float) -> bool:
        """Wait until queues are assigned and their start offsets known; False on timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._is_settled():  # noqa: ASYNC110  # many things have to happen
                    await asyncio.sleep(LOOK_S)
                return True
        return False

    def _is_settled(self) -> bool:
        known = [each.topic for each in self._subscriptions if self._has_route(each.topic)]
        shared = all(self._assignment.share(topic) is not None for topic in known)
        return bool(known) and shared and self.owned.is_settled

    def _has_route(self, topic: str) -> bool:
        route = self._engine.routes.find(topic)
        return route is not None and bool(route.subscribe_queues(topic))

    def troubles(self) -> str:
        """Why queues are not assigned yet, for an error."""
        found = [
            f"{each.topic}: {text}"
            for each in self._subscriptions
            if (text := self._assignment.trouble(each.topic))
        ]
        found += [
            f"{each.queue}: {type(each.stage).__name__.lower()}"
            for each in self.owned
            if not isinstance(each.stage, Held)
        ]
        return "; ".join(found) or "the group was not heard of in time"

    # Micro-batches

    async def ready(self, stops: Mapping[QueueRef, QueueOffset]) -> Mapping[QueueRef, QueueOffset]:
        """Commit the micro-batch up to ``stops``; the next offsets of the queues that are ready."""
        await self.finish(stops)
        self.event(self.owned.forget_flights(self._clock()))
        return self.owned.ready(self._clock())

    async def finish(self, stops: Mapping[QueueRef, QueueOffset]) -> None:
        """Commit the finished micro-batch up to ``stops``."""
        tasks = self.calls_of(self.owned.finish(stops, self._clock()))
        if tasks:
            await asyncio.wait(tasks, timeout=COMMIT_S)

    def ahead_of(self, spans: Iterable[Span]) -> list[Span]:
        """The owned part of a repeated micro-batch, from the committed offset of the group."""
        ready = self.owned.ready(self._clock())
        left = [span for span in spans if span.queue in ready]
        if not self._config.is_clustering:
            return left
        return [Span(each.queue, min(ready[each.queue], each.stop), each.stop) for each in left]

    def broken(self) -> list[QueueRef]:
        """Queues of the running micro-batch whose locks were lost."""
        return self.owned.broken(self._clock())

    def lease_until_wall_ms(self) -> int | None:
        """When the first lock of the running micro-batch expires, as wall clock time."""
        until_ms = self.owned.lease_until_ms()
        engine = self._engine
        return None if until_ms is None else engine.wall() + until_ms - engine.clock()

    # Requests of brokers

    def heartbeat(self) -> ConsumerGroup:
        return self._subscriptions.section()

    def notified(self) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED (40)."""
        self._assignment.wake()

    def reset_offsets(self, topic: str, offsets: Mapping[QueueRef, int]) -> None:
        """RESET_CONSUMER_CLIENT_OFFSET (220)."""
        moved = {queue: QueueOffset(at) for queue, at in offsets.items() if queue.topic == topic}
        self.event(self.owned.reset(moved))
        self.new_messages.wake()

    def _moved(self, queue: QueueRef, to: QueueOffset) -> None:
        """A pull was answered with another offset: brokers of 5.x reset a group that way."""
        self.event(self.owned.reset({queue: to}))

    def consume_status(self, topic: str) -> Mapping[QueueRef, int]:
        """GET_CONSUMER_STATUS_FROM_CLIENT (221)."""
        return {
            each.queue: each.stage.next_offset
            for each in self.owned
            if each.queue.topic == topic and isinstance(each.stage, Held)
        }

    def running_info(self, *, with_stacks: bool) -> RunningConsumer:
        """GET_CONSUMER_RUNNING_INFO (307).  Listeners run in tasks: there are no stacks here."""
        del with_stacks
        return describe_consumer(
            self._config,
            GROUP_SETTINGS,
            consume_type=ConsumeType.PUSH,
            ordered=any(self._subscriptions.is_ordered(each.topic) for each in self._subscriptions),
            name_servers=self._engine.name_servers,
            started_ms=self._started_ms,
            subscriptions=self._subscriptions.section().subscription_data_set,
            queues={each.queue: _queue_state(each) for each in self.owned},
        )

    def consume_directly(self, message: ReceivedMessage) -> DirectResult:
        """CONSUME_MESSAGE_DIRECTLY (309)."""
        del message
        raise WrongState(self._engine.life.what, "running", "its listeners run in tasks of Spark")

    # Actions

    def _share_changed(self, share: Share) -> None:
        engine = self._engine
        self.event(self.owned.apply(share, engine.clock()))
        self._subscriptions.changed(share.topic, engine.wall())
        engine.spawn(engine.heartbeat(), "heartbeat after a rebalance")
        self.new_messages.wake()

    def tick(self, now_ms: int) -> Actions:
        return self.owned.tick(now_ms)

    def next_due_ms(self) -> int | None:
        return self.owned.next_due_ms()

    def flush(self) -> None:
        self._wake.set()

    def _start_known(self, ask: AskStartOffset, start: StartOffset, now_ms: int) -> Actions:
        del now_ms
        self.new_messages.wake()
        return self.owned.start_known(ask, start)

    async def _start_offset(self, ask: AskStartOffset) -> StartOffset:
        """The committed or configured start offset, within the extent of the queue."""
        config = self._config
        if config.is_clustering:
            start = await self._push_calls.locate(ask)
        else:
            start_at_ms = config.starts_at_ms(self._engine.wall())
            start = await self._push_calls.start_offset(
                ask.queue, None, config.start, start_at_ms, is_broker_s=False
            )
        extent = await self._push_calls.extent(ask.queue)
        return start._replace(offset=min(max(start.offset, extent.start), extent.stop))

    async def _commit(self, commit: CommitOffset | CommitLate) -> None:
        stored = None
        if isinstance(commit, CommitLate):
            stored = await self._store.read(commit.queue, ReadFrom.STORE)
        if stored is None or stored < commit.offset:
            await self._store.put(commit.queue, commit.offset)

    async def _run(self, on_tick: Callable[[GroupMember], Awaitable[None]]) -> None:
        """Call ``on_tick`` after every event, and twice a second without one."""
        while True:
            self._wake.clear()
            try:
                await on_tick(self)
            except Exception:  # a bug of ours must not stop the control files
                log.exception("the control files of group %s", self.group)
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._wake.wait()


def _not_unlocked(unlock: UnlockQueues, reason: str, now_ms: int) -> Actions:
    del now_ms
    return (ReportEvent("lock", unlock.broker, f"not unlocked: {reason}"),)


def _queue_state(owned: OwnedQueue) -> QueueState:
    """The state of a queue for tools; the running micro-batch counts as cached messages."""
    stage, flight = owned.stage, owned.flight
    return QueueState(
        cached_msg_count=0 if flight is None else len(flight),
        cached_msg_min_offset=0 if flight is None else flight.start,
        cached_msg_max_offset=0 if flight is None else flight.stop - 1,
        commit_offset=stage.next_offset if isinstance(stage, Held) else 0,
        dropped=not owned.is_own,
        locked=owned.lock is not None and owned.lock.granted_ms is not None,
    )
