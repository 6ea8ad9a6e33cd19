"""Pulling by a function that runs again and again for each queue that is ours.

    async def pull(queue, context):
        offset = await context.consumer.start_offset(queue, "first")
        result = await context.consumer.pull(queue, offset)
        ...
        context.consumer.update_offset(queue, result.next_offset)
        context.next_delay_ms = 0 if result.messages else 200

    schedule = ScheduledPull("audit", namesrv="127.0.0.1:9876")
    schedule.register("orders", pull)
    async with schedule: ...

`core.pull.scheduled_pull` says when.  An ``async def`` runs on the loop, and its context has the
consumer of asyncio; a plain function runs on one of ``threads`` threads, and its context has the
consumer for threads.  What a function raises is logged, and it runs again after a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, Unpack

from flintmq.client.engine.async_client import AsyncClient
from flintmq.client.engine.direct_line import Runner
from flintmq.client.pull.pull_consumer import PullConsumer
from flintmq.client.pull.pull_settings import ScheduledPullSettings
from flintmq.client.pull.threaded_pull import PullConsumer as ThreadedPullConsumer
from flintmq.client.push.listeners import is_async
from flintmq.client.push.push_status import PullingStatus, QueueStatus, idle_queue
from flintmq.core.group.consumer_settings import check_range
from flintmq.core.pull.scheduled_pull import NEXT_DELAY_MS, PullRun, PullSchedule, check_delay
from flintmq.errors import InvalidSetting, WrongState
from flintmq.logs import logger
from flintmq.model.queue import QueueRef

log = logger(__name__)

C = TypeVar("C", PullConsumer, ThreadedPullConsumer)
T = TypeVar("T")

THREADS: Final = 20
"""Plain functions that may run at once, as in RocketMQ."""

STOP_S: Final = 30.0
"""How long `stop` waits for functions that run."""


@dataclass(slots=True)
class PullContext(Generic[C]):
    """What a function may use and say."""

    consumer: C
    next_delay_ms: int = NEXT_DELAY_MS
    """How long until it runs again for this queue."""


AsyncPull: TypeAlias = Callable[[QueueRef, PullContext[PullConsumer]], Awaitable[object]]
PlainPull: TypeAlias = Callable[[QueueRef, PullContext[ThreadedPullConsumer]], object]


class ScheduledPull(AsyncClient):
    """Runs functions for queues.  Made on any thread, used on the loop it is started on."""

    def __init__(self, group: str, **settings: Unpack[ScheduledPullSettings]) -> None:
        self._threads = settings.pop("threads", THREADS)
        check_range("threads", self._threads, (1, 1_000))
        self._consumer = PullConsumer(group, **settings)  # type: ignore[misc]  # all but threads
        super().__init__(group, self._consumer.engine)
        self._schedule = PullSchedule()
        self._functions: dict[str, Callable[..., Any]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._on_threads: _OnLoop
        self._running: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()
        self._is_stopping = False

    # Life

    @property
    def queues(self) -> frozenset[QueueRef]:
        """The queues whose functions run."""
        return self._schedule.queues

    async def status(self) -> PullingStatus:
        """Which functions run, for how long, and when the others do."""
        status = await self._consumer.status()
        known = {each.queue: each for each in status.queues}
        queues = tuple(
            self._queue_status(run, known.get(run.queue)) for run in self._schedule.runs()
        )
        return replace(status, queues=queues)

    def _queue_status(self, run: PullRun, known: QueueStatus | None) -> QueueStatus:
        ago_ms = self._engine.clock() - run.changed_ms
        settled_to = None if known is None else known.settled_to
        if run.is_running:
            why = f"its function runs since {ago_ms} ms"
            if known is not None and known.waits_for == "pull":
                why += f" and {known.why}"
            return idle_queue(run.queue, "function", why, settled_to=settled_to)
        why = "the function chose to wait"
        if run.has_failed:
            why = "the function raised; see the events"
        wait_ms = max(0, -ago_ms)
        return idle_queue(run.queue, "delay", why, wait_ms=wait_ms, settled_to=settled_to)

    async def start(self) -> Self:
        await self._consumer.start()
        loop = asyncio.get_running_loop()
        self._on_threads = _OnLoop(self._consumer, loop)
        self._pool = ThreadPoolExecutor(self._threads, "flintmq-scheduled")
        self._engine.spawn(self._run(), "scheduled pull")
        return self

    async def stop(self, *, timeout_s: float = STOP_S) -> None:
        """Start nothing more, wait for what runs, store offsets, leave.

        Functions that do not end in time are named in the events; a thread cannot be ended.
        """
        self._is_stopping = True
        pool, self._pool = self._pool, None
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=timeout_s)
            late = [task.get_name() for task in self._running]
            for name in late:
                self._warn("stop", name, f"still runs after {timeout_s} s")
            if pool is not None:
                pool.shutdown(wait=not late, cancel_futures=True)
        finally:
            await self._consumer.stop()

    # Functions

    def register(self, topic: str, pull: AsyncPull | PlainPull) -> None:
        """Have a function run for every queue of a topic that is ours.  Before or after start."""
        if topic in self._functions:
            raise InvalidSetting("topic", topic, "has a function already")
        self._functions[topic] = pull
        self._consumer.on_queues_changed(topic, self._queues_changed)

    # Inside

    def _queues_changed(
        self, topic: str, queues: Sequence[QueueRef], own: Sequence[QueueRef]
    ) -> None:
        del queues
        self._schedule.queues_changed(topic, own, self._engine.clock())
        self._change.set()

    async def _run(self) -> None:
        while not self._is_stopping:
            self._change.clear()
            for run in self._schedule.due(self._engine.clock()):
                task = self._engine.spawn(self._call(run), f"pull function of {run.queue}")
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            due_ms = self._schedule.next_due_ms()
            wait_ms = None if due_ms is None else max(0, due_ms - self._engine.clock())
            with suppress(TimeoutError):
                async with self._engine.timing.limit(wait_ms):
                    await self._change.wait()

    async def _call(self, run: PullRun) -> None:
        start_ns = perf_counter_ns()
        try:
            delay_ms = check_delay(await self._delay_after(run.queue))
        except Exception as error:
            log.exception("the pull function of %s failed", run.queue)
            text = f"the pull function failed: {type(error).__name__}: {error}"
            self._warn("function", str(run.queue), text)
            self._schedule.failed(run, self._engine.clock())
            self._consumer.function_ended(run.queue, perf_counter_ns() - start_ns, is_well=False)
        else:
            self._consumer.function_ended(run.queue, perf_counter_ns() - start_ns, is_well=True)
            self._schedule.finished(run, delay_ms, self._engine.clock())
        self._change.set()

    async def _delay_after(self, queue: QueueRef) -> int:
        """Run the function; the delay it chose."""
        function = self._functions[queue.topic]
        if is_async(function):
            context = PullContext(self._consumer)
            await function(queue, context)
            return context.next_delay_ms
        plain = PullContext(self._on_threads.consumer)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool, function, queue, plain)
        return plain.next_delay_ms

    def _warn(self, kind: str, subject: str, text: str) -> None:
        self._engine.events.add(kind, subject, text, logging.WARNING)


class _OnLoop:
    """Lets functions on threads use a consumer that lives on a loop."""

    def __init__(self, consumer: PullConsumer, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.consumer = _Face(consumer, self)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            current: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            current = None
        if current is self._loop:
            work.close()
            raise WrongState("the consumer", "in use", "this thread serves it; await instead")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class _Face(ThreadedPullConsumer):
    """A threaded consumer whose life is somebody else's."""

    def __init__(self, inner: PullConsumer, runner: Runner) -> None:
        super(ThreadedPullConsumer, self).__init__(inner)
        self._elsewhere = runner

    def _runner(self) -> Runner:
        self._inner.require_running()
        return self._elsewhere

    def _do(self, act: Callable[[], T]) -> T:
        return self._call(act)

    def start(self) -> Self:
        raise WrongState(self._what, self.state, "it starts and stops with its schedule")

    def stop(self) -> None:
        raise WrongState(self._what, self.state, "it starts and stops with its schedule")
