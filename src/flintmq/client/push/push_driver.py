"""The driver of the machine of one consuming group: brokers, listeners, the offset store.

    running ──stop──► stopping ──Unregister, or time is up──► closed

`client.engine.machine_driver` carries the actions out; deliveries and commits of one event are
handed on together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.machine_driver import Actions, MachineDriver, known_error
from flintmq.client.hooks.consume_hooks import run_filters
from flintmq.client.joining.missing_topics import MissingTopics
from flintmq.client.push.consume_stats import SAMPLE_MS, ConsumerStats
from flintmq.client.push.delivery import Delivery
from flintmq.client.push.failure_log import FailureLog
from flintmq.client.push.listeners import Work
from flintmq.client.push.popping import Popping
from flintmq.client.push.push_calls import PushCalls
from flintmq.client.push.push_settings import PushConfig
from flintmq.client.push.thread_pool import RunningJob
from flintmq.core.consumer.assigned_queue import AssignedQueue
from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.group.actions import (
    AskMembers,
    AskStartOffset,
    CommitOffset,
    ConfirmOffset,
    DeadLetterRecord,
    Deliver,
    LockQueues,
    QueuesChanged,
    SendBack,
    SendHeartbeat,
    SendToRetry,
    UnlockQueues,
    Unregister,
)
from flintmq.core.group.listener_results import Listener, outcomes_of
from flintmq.core.group.pull_answers import MessagesFound
from flintmq.core.group.retry_copy import is_given_up
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import Unreachable
from flintmq.logs import logger
from flintmq.model.route import Route

log = logger(__name__)

LAST_CALLS_S: Final = 5.0
"""How long a stop waits for its last commits and unlocks."""

LOST_APART_MS: Final = 100
"""A connection that breaks takes many calls with it; they are one loss."""


CachedTopic: TypeAlias = tuple[str, int, int, int]
"""A topic, our queues of it, and the messages and bytes they have cached."""

CACHED_WAIT_S: Final = 1.0
"""How long a scrape waits for the loop of a consumer."""


class PushDriver(MachineDriver):
    """One running consumer.  Made on the loop of its engine, once that was started."""

    def __init__(
        self,
        engine: ClientEngine,
        machine: GroupConsumer,
        config: PushConfig,
        calls: PushCalls,
        listeners: Mapping[str, Listener],
        usual: Listener | None,
    ) -> None:
        super().__init__(engine, f"group {config.group}")
        self.machine = machine
        self.stats = ConsumerStats()
        self._failures = FailureLog(config.group)
        self._counts = None if config.metrics is None else config.metrics.consumer(config.group)
        self.delivery = Delivery(
            config,
            listeners,
            usual,
            engine.clock,
            start=machine.started_of,
            ended=self._listeners_ended,
        )
        self.missing = MissingTopics(engine)
        self._config = config
        self._push_calls = calls
        self._loop = asyncio.get_running_loop()
        self._sampler: asyncio.TimerHandle | None = None
        self._delivers: list[Deliver] = []
        self._commits: list[CommitOffset] = []
        self._lost_ms: dict[str, int] = {}
        self._progress = asyncio.Event()
        self._is_stopped = False
        self._add_handlers(machine, calls)
        self._popping = Popping(self, machine, engine, config, self.stats, self._count_retry)
        now_ms = self._clock()
        for each in machine.subscriptions:
            self.stats.add_topic(each.topic, now_ms)

    def _add_handlers(self, machine: GroupConsumer, calls: PushCalls) -> None:
        self.on_pull(self._pull_once)
        self.on(SendHeartbeat, self._heartbeat)
        self.on_call(
            AskMembers,
            lambda ask: calls.members(ask.topic),
            machine.members_known,
            machine.members_failed,
        )
        self.on_call(AskStartOffset, calls.locate, machine.start_known, machine.start_failed)
        self.on_call(ConfirmOffset, calls.confirm, machine.confirmed, machine.confirm_failed)
        self.on_call(LockQueues, calls.lock, machine.locked, machine.lock_failed)
        self.on_done(UnlockQueues, calls.unlock, lambda *_: (), lambda *_: ())
        self.on_done(SendBack, self._send_back, machine.sent_back, machine.send_back_failed)
        self.on_done(SendToRetry, self._send_copy, machine.copied, machine.copy_failed)
        self.on_call(
            DeadLetterRecord, calls.dead_letter, machine.record_answered, machine.record_failed
        )
        commit_now = self.on_done(
            CommitOffset, calls.commit, machine.committed, machine.commit_failed
        )
        self.on(
            CommitOffset,
            lambda commit: commit_now(commit) if commit.is_urgent else self._commits.append(commit),
        )
        self.on(Deliver, self._delivers.append)
        self.on(QueuesChanged, self._queues_changed)
        self.on(Unregister, self._unregister)

    # Life

    def start(self) -> None:
        """Begin.  The routes that are known already are told first."""
        if self._counts is not None:
            self._counts.client_id = self._engine.client_id
            self._counts.cached = self._cached
        self._engine.on_route_change(self._route_changed)
        self._engine.timing.on_move(self.machine.carry)
        for each in self.machine.subscriptions:
            route = self._engine.routes.find(each.topic)
            if route is not None:
                self._route_changed(each.topic, route)
        self.event(self.machine.start(self._clock()))
        topics = [each.topic for each in self.machine.subscriptions]
        self._engine.spawn(self.missing.seek(topics), "seeking routes")
        self._sample()

    async def stop(self, timeout_s: float) -> list[RunningJob[Work]]:
        """Let listeners end, commit, unlock.  What still runs when the time is up."""
        self.event(self.machine.stop(self._clock()))
        await self._wait_for_listeners(timeout_s)
        await self._popping.wait()
        left = self.delivery.running() if self._running() else []
        for each in left:
            text = f"a listener still runs, on {each.job.messages[0].message_id}\n{each.stack}"
            self._engine.events.add("stop", str(each.job.queue), text, logging.WARNING)
        self.event(self.machine.abandon(self._clock()))
        if self._calls:
            await asyncio.wait(self._calls, timeout=LAST_CALLS_S)
        self.close()
        if self._counts is not None:
            self._counts.cached = None
        if self._sampler is not None:
            self._sampler.cancel()
        self.delivery.close()
        if not left:
            await self.delivery.wait_closed()
        return left

    async def _wait_for_listeners(self, timeout_s: float) -> None:
        """Until all is committed; a message that only an ``async for`` has is not waited for."""
        iterated = self.delivery.inbox.current
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._is_stopped and (not iterated or self._running()):
                    self._progress.clear()
                    await self._progress.wait()

    def _running(self) -> list[Deliver]:
        iterated = self.delivery.inbox.current
        return [batch for batch in self.machine.still_running() if batch not in iterated]

    # Events and actions

    def tick(self, now_ms: int) -> Actions:
        return self.machine.tick(now_ms)

    def next_due_ms(self) -> int:
        return self.machine.next_due_ms()

    def flush(self) -> None:
        """Hand on the commits and deliveries of one event."""
        if self._commits:
            commits = self._commits.copy()
            self._commits.clear()
            self.begin(commits[0], self._commit_soon(commits))
        if self._delivers:
            delivers = self._delivers.copy()
            self._delivers.clear()
            self.delivery.deliver(delivers)

    def _sample(self) -> None:
        self.stats.sample(self._clock())
        self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)

    # Brokers

    async def _pull_once(self, pull: Pull) -> Actions:
        machine, queue, asked_ms = self.machine, pull.queue, self._clock()
        try:
            answer = await self._push_calls.pull(pull)
        except Exception as error:
            known = known_error(error)
            self.event(machine.pull_failed(pull, known, self._clock()))
            if isinstance(known, Unreachable):
                self._broker_lost(queue.broker)
                self._engine.doubt_route(queue.topic)
            return ()
        now_ms = self._clock()
        if isinstance(answer, MessagesFound):
            self.stats.pulled(queue.topic, len(answer.messages), now_ms - asked_ms)
            if self._config.filter_hooks:
                wanted = run_filters(self._config.filter_hooks, queue, answer.messages)
                answer = replace(answer, messages=wanted)
        return machine.pull_answered(pull, answer, now_ms)

    def _broker_lost(self, broker: str) -> None:
        now_ms = self._clock()
        if now_ms - self._lost_ms.get(broker, -LOST_APART_MS) >= LOST_APART_MS:
            self._lost_ms[broker] = now_ms
            self.event(self.machine.broker_lost(broker, now_ms))

    def _heartbeat(self, heartbeat: SendHeartbeat) -> None:
        async def beat() -> None:
            try:
                await self._engine.heartbeat()
            finally:
                self.event(self.machine.heartbeat_done(heartbeat, self._clock()))

        self.begin(heartbeat, beat())

    async def _commit_soon(self, commits: list[CommitOffset]) -> None:
        try:
            failed = await self._push_calls.commit_soon(commits)
        except Exception as error:
            failed = [(commit, known_error(error)) for commit in commits]
        for commit, reason in failed:
            self.event(self.machine.commit_failed(commit, str(reason), self._clock()))

    # Routes

    def _route_changed(self, topic: str, route: Route) -> None:
        if self.machine.subscriptions.find(topic) is not None:
            queues = route.subscribe_queues(topic)
            self.event(self.machine.route_known(topic, queues, self._clock()))

    # Listeners

    def _listeners_ended(self, ended: list[tuple[Work, int]]) -> None:
        """Most batches are simply consumed: those are counted and settled together."""
        machine, now_ms = self.machine, self._clock()
        whole = [(work.batch, ns) for work, ns in ended if work.result is None and work.batch]
        self.stats.consumed_whole(whole)
        if self._counts is not None:
            for batch, took_ns in whole:
                topic = batch.messages[0].topic
                self._counts.called(topic, len(batch.messages), 0, took_ns)
        follow = machine.consumed_whole([batch for batch, _ in whole], now_ms)
        if len(whole) < len(ended):
            for work, spent_ns in ended:
                if work.result is not None and work.batch:
                    self._count(work, work.batch, spent_ns)
                    follow += machine.consumed(work.batch, work.result, now_ms)
        self.event(follow)
        self._progress.set()

    def _count(self, work: Work, batch: Deliver, spent_ns: int) -> None:
        """Count what was not simply consumed; an exception is also logged."""
        home, result, count = batch.home, work.result, len(batch.messages)
        ok = outcomes_of(result, count).consumed_count
        ok = count if ok is None else ok
        self.stats.consumed(batch.queue.topic, ok, count - ok, spent_ns)
        if self._counts is not None:
            self._counts.called(batch.messages[0].topic, ok, count - ok, spent_ns)
        rules, now_ms = self.machine.rules_of(batch), self._clock()
        ordered = isinstance(home, AssignedQueue) and home.ordered
        self._failures.add(work.listener, batch, result, rules, now_ms, ordered=ordered)

    async def _send_back(self, ask: SendBack) -> None:
        await self._push_calls.send_back(ask)
        self._count_back(ask)

    async def _send_copy(self, copy: SendToRetry) -> None:
        await self._push_calls.send_copy(copy)
        self._count_back(copy.ask)

    def _count_back(self, ask: SendBack) -> None:
        if self._counts is not None:
            target = "dead_letter" if is_given_up(ask) else "retry"
            self._counts.sent_back(ask.message.topic, target)

    def _count_retry(self, topic: str) -> None:
        """A popped message is redelivered after a delay."""
        if self._counts is not None:
            self._counts.sent_back(topic, "retry")

    def _cached(self) -> list[CachedTopic]:
        """What is cached, for metrics, asked on any thread; nothing where the loop is blocked."""
        with suppress(RuntimeError):  # this thread runs no loop
            if asyncio.get_running_loop() is self._loop:
                return self._cached_now()
        found = Future[list[CachedTopic]]()
        with suppress(RuntimeError, TimeoutError):  # the loop is closed, or blocked
            self._loop.call_soon_threadsafe(lambda: found.set_result(self._cached_now()))
            return found.result(CACHED_WAIT_S)
        return []

    def _cached_now(self) -> list[CachedTopic]:
        assert self._counts is not None
        status = self.machine.status()
        self._counts.bad_count = status.bad_count
        totals: dict[str, list[int]] = {}
        for place in status.pops:
            sums = totals.setdefault(self._engine.user_name(place.source.topic), [0, 0, 0])
            sums[1] += place.unacked_count
        for each in status.queues:
            sums = totals.setdefault(self._engine.user_name(each.queue.topic), [0, 0, 0])
            for at, more in enumerate((1, each.cached_count, each.cached_bytes)):
                sums[at] += more
        return [(topic, queues, count, size) for topic, (queues, count, size) in totals.items()]

    # The rest

    def _queues_changed(self, change: QueuesChanged) -> None:
        if self._config.on_queues is not None:
            try:
                self._config.on_queues(change)
            except Exception:
                log.exception("on_queues failed for %s", change.topic)

    def _unregister(self, _unregister: Unregister) -> None:
        """The engine tells the brokers when it stops."""
        self._is_stopped = True
        self._progress.set()
