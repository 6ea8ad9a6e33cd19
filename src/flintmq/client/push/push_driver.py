"""Drives the machine of one consuming group: events in, actions carried out, the clock.

                        ┌────────────── GroupConsumer ◄──────────────┐
                     actions                                      events
                        ▼                                            │
    calls to brokers, listeners, the offset store, the clock ────────┘

Everything happens on one loop and nothing waits there: each call is a task whose end, good or
bad, is an event.

    running ──stop──► stopping ──Unregister, or time is up──► closed

Invariant: every action with an answer is reported once, unless the driver is closed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.timing import Timer
from flintmq.client.hooks.consume_hooks import run_filters
from flintmq.client.push.consume_stats import SAMPLE_MS, ConsumerStats
from flintmq.client.push.delivery import Delivery
from flintmq.client.push.listeners import Listener, Work
from flintmq.client.push.push_calls import PushCalls
from flintmq.client.push.push_settings import PushConfig
from flintmq.client.push.push_start import seek_routes
from flintmq.client.push.thread_pool import RunningJob
from flintmq.core.consumer.group_consumer import GroupConsumer
from flintmq.core.group.actions import (
    Action,
    AskMembers,
    AskStartOffset,
    CommitOffset,
    ConfirmOffset,
    DeadLetterRecord,
    Deliver,
    LockQueues,
    QueuesChanged,
    ReportEvent,
    SendBack,
    SendHeartbeat,
    SendToRetry,
    UnlockQueues,
    Unregister,
)
from flintmq.core.group.listener_results import DeadLetter, Retry, outcomes_of
from flintmq.core.group.pull_answers import MessagesFound
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import FlintError, LocalProtocolError, Unreachable
from flintmq.logs import logger
from flintmq.model.queue import QueueRef
from flintmq.model.route import Route

log = logger(__name__)

A = TypeVar("A")
T = TypeVar("T")
Actions = Iterable[Action]

LAST_CALLS_S: Final = 5.0
"""How long a stop waits for its last commits and unlocks."""

AFTER_BUG_S: Final = 1.0

LOST_APART_MS: Final = 100
"""A connection that breaks takes many calls with it; they are one loss."""


class Driver:
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
        self.machine = machine
        self.stats = ConsumerStats()
        self.delivery = Delivery(
            config,
            listeners,
            usual,
            engine.clock,
            start=machine.started_of,
            ended=self._listeners_ended,
        )
        self._engine = engine
        self._config = config
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._clock = engine.clock
        self._is_timer_old = False
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._sampler: asyncio.TimerHandle | None = None
        self._last_calls: set[asyncio.Task[None]] = set()
        self._lost_ms: dict[str, int] = {}
        self._answering: QueueRef | None = None  # whose pull was answered just now
        self._next_pull: Pull | None = None
        self._progress = asyncio.Event()
        self._is_stopped = False
        self._is_closed = False
        self._handlers: dict[type[Any], Callable[[Any], object]] = {
            Pull: self._pull,
            SendHeartbeat: self._heartbeat,
            AskMembers: self._asking(
                lambda ask: calls.members(ask.topic), machine.members_known, machine.members_failed
            ),
            AskStartOffset: self._asking(
                calls.start_offset, machine.start_known, machine.start_failed
            ),
            ConfirmOffset: self._asking(calls.confirm, machine.confirmed, machine.confirm_failed),
            LockQueues: self._asking(calls.lock, machine.locked, machine.lock_failed),
            SendBack: self._doing(calls.send_back, machine.sent_back, machine.send_back_failed),
            SendToRetry: self._doing(calls.send_copy, machine.copied, machine.copy_failed),
            DeadLetterRecord: self._asking(
                calls.dead_letter, machine.record_answered, machine.record_failed
            ),
            UnlockQueues: self._doing(calls.unlock, lambda _, __: (), lambda _, __, ___: ()),
            QueuesChanged: self._queues_changed,
            ReportEvent: self._report,
            Unregister: self._unregister,
        }
        self._commit = self._doing(calls.commit, machine.committed, machine.commit_failed)
        now_ms = self._clock()
        for each in machine.subscriptions:
            self.stats.add_topic(each.topic, now_ms)

    # Life

    def start(self) -> None:
        """Begin.  The routes that are known already are told first."""
        self._engine.on_route_change(self._route_changed)
        self._engine.timing.on_move(self.machine.carry)
        for each in self.machine.subscriptions:
            route = self._engine.routes.find(each.topic)
            if route is not None:
                self._route_changed(each.topic, route)
        self.event(self.machine.start(self._clock()))
        topics = [each.topic for each in self.machine.subscriptions]
        self._engine.spawn(seek_routes(self._engine, topics), "seeking routes")
        self._sample()

    async def stop(self, timeout_s: float) -> list[RunningJob[Work]]:
        """Let listeners end, commit, unlock.  What still runs when the time is up."""
        self.event(self.machine.stop(self._clock()))
        await self._wait_for_listeners(timeout_s)
        left = self.delivery.running() if self._running() else []
        for each in left:
            text = f"a listener still runs, on {each.job.messages[0].message_id}\n{each.stack}"
            self._engine.events.add("stop", str(each.job.queue), text, logging.WARNING)
        self.event(self.machine.abandon(self._clock()))
        if self._last_calls:
            await asyncio.wait(self._last_calls, timeout=LAST_CALLS_S)
        self._is_closed = True
        timers: tuple[Timer | None, ...] = (self._timer, self._sampler)
        for timer in timers:
            if timer is not None:
                timer.cancel()
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

    def event(self, actions: Actions) -> None:
        """Something happened, and this is what follows."""
        if self._is_closed:
            return
        delivers: list[Deliver] = []
        commits: list[CommitOffset] = []
        for action in actions:
            if isinstance(action, Deliver):
                delivers.append(action)
            elif isinstance(action, CommitOffset):
                if action.is_urgent:
                    self._commit(action)
                else:
                    commits.append(action)
            else:
                self._handlers[type(action)](action)
        if commits:
            self._finally(self._commit_soon(commits), "commits")
        if delivers:
            self.delivery.deliver(delivers)
        if not self._is_timer_old:
            self._is_timer_old = True
            self._loop.call_soon(self._wind_timer)

    def _wind_timer(self) -> None:
        self._is_timer_old = False
        if self._is_closed:
            return
        due_ms = self.machine.next_due_ms()
        if self._timer is not None:
            if self._timer_ms == due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        wait_ms = max(0, due_ms - self._clock())
        self._timer = self._engine.timing.call_later(wait_ms, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.event(self.machine.tick(self._clock()))
        except Exception:  # a bug of ours must not stop the clock
            log.exception("the clock of group %s", self._config.group)
            self._timer_ms = 0
            self._timer = self._loop.call_later(AFTER_BUG_S, self._tick)

    def _sample(self) -> None:
        self.stats.sample(self._clock())
        self._sampler = self._loop.call_later(SAMPLE_MS / 1000, self._sample)

    def _finally(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a call that a stop waits for."""
        task = self._engine.spawn(work, name)
        self._last_calls.add(task)
        task.add_done_callback(self._last_calls.discard)

    def _asking(
        self,
        call: Callable[[A], Awaitable[T]],
        good: Callable[[A, T, int], Actions],
        bad: Callable[[A, str, int], Actions],
    ) -> Callable[[A], None]:
        """How to carry out an action with an answer; its end is an event."""

        async def ask(action: A) -> None:
            try:
                answer = await call(action)
            except Exception as error:  # a bug of ours must not hold a queue up for ever
                self.event(bad(action, str(_known(error)), self._clock()))
            else:
                self.event(good(action, answer, self._clock()))

        return lambda action: self._finally(ask(action), type(action).__name__)

    def _doing(
        self,
        call: Callable[[A], Awaitable[None]],
        good: Callable[[A, int], Actions],
        bad: Callable[[A, str, int], Actions],
    ) -> Callable[[A], None]:
        """A handler of an action whose call has no answer."""
        return self._asking(call, lambda action, _, now_ms: good(action, now_ms), bad)

    # Brokers

    def _pull(self, pull: Pull) -> None:
        """In the task of the pull before it, where that was just answered, else in a new one."""
        if pull.queue is self._answering:
            self._answering, self._next_pull = None, pull
        else:
            self._engine.spawn(self._pulling(pull), "pull")

    async def _pulling(self, pull: Pull) -> None:
        """Pull a queue, and go on as long as one pull follows from the answer to another."""
        following: Pull | None = pull
        while following is not None:
            actions = await self._pull_once(following)
            self._answering, self._next_pull = following.queue, None
            try:
                self.event(actions)
            finally:
                self._answering = None
            following = self._next_pull

    async def _pull_once(self, pull: Pull) -> Actions:
        machine, queue, asked_ms = self.machine, pull.queue, self._clock()
        try:
            answer = await self._calls.pull(pull)
        except Exception as error:
            known = _known(error)
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

        self._finally(beat(), "heartbeat")

    async def _commit_soon(self, commits: list[CommitOffset]) -> None:
        try:
            failed = await self._calls.commit_soon(commits)
        except Exception as error:
            failed = [(commit, _known(error)) for commit in commits]
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
        follow = machine.consumed_whole([batch for batch, _ in whole], now_ms)
        if len(whole) < len(ended):
            for work, spent_ns in ended:
                if work.result is not None and work.batch:
                    self._count(work.batch, work.result, spent_ns)
                    follow += machine.consumed(work.batch, work.result, now_ms)
        self.event(follow)
        self._progress.set()

    def _count(self, batch: Deliver, result: object, spent_ns: int) -> None:
        """Count what was not simply consumed; an exception is also logged."""
        count = len(batch.messages)
        ok = outcomes_of(result, count).consumed_count
        ok = count if ok is None else ok
        self.stats.consumed(batch.queue.topic, ok, count - ok, spent_ns)
        if isinstance(result, BaseException) and not isinstance(result, Retry | DeadLetter):
            log.warning("the listener of %s failed", batch.queue, exc_info=result)

    # The rest

    def _queues_changed(self, change: QueuesChanged) -> None:
        if self._config.on_queues is not None:
            try:
                self._config.on_queues(change)
            except Exception:
                log.exception("on_queues failed for %s", change.topic)

    def _report(self, report: ReportEvent) -> None:
        self._engine.events.add(report.kind, report.subject, report.text, report.level)

    def _unregister(self, _unregister: Unregister) -> None:
        """The engine tells the brokers when it stops."""
        self._is_stopped = True
        self._progress.set()


def _known(error: Exception) -> FlintError:
    """Any error as one of ours; a bug is logged as one."""
    if isinstance(error, FlintError):
        return error
    log.error("a call of the consumer failed", exc_info=error)
    return LocalProtocolError(f"{type(error).__name__}: {error}")
