"""What a listener is, how it is called, and where: in a thread of the pool, or on the loop.

    Work ──► pool: a plain function, on a thread          ┐
         └─► tasks: an ``async def``, on the loop         ┴─► ended ──► driver

A listener gets a tuple of frozen messages.  What it returns or raises is kept in the `Work` as it
is; `core.group.listener_results` reads it.

Invariant: at most ``limit`` coroutines of one consumer run at once.
"""

from __future__ import annotations

import asyncio
import io
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from inspect import iscoroutinefunction
from time import perf_counter_ns
from typing import Any, TypeAlias

import msgspec

from flintmq.client.hooks.consume_hooks import (
    RETURN_KIND,
    ConsumeContext,
    ConsumeHook,
    run_after,
    run_before,
)
from flintmq.client.push.thread_pool import RunningJob
from flintmq.core.group.actions import Deliver
from flintmq.core.group.listener_results import Listener, ReturnKind, outcomes_of
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.clock import wall_ms


def is_async(listener: Callable[..., object]) -> bool:
    """Whether calling it gives a coroutine."""
    bare: object = listener
    while isinstance(bare, partial):
        bare = bare.func
    return iscoroutinefunction(bare) or iscoroutinefunction(getattr(bare, "__call__", None))  # noqa: B004


class Work(msgspec.Struct, eq=False):
    """One call of a listener.  ``batch`` is None where a broker asked for it by hand."""

    listener: Listener
    queue: QueueRef
    messages: tuple[ReceivedMessage, ...]
    batch: Deliver | None = None
    result: object = None
    asked: asyncio.Future[tuple[object, int]] | None = None


def call(work: Work) -> None:
    """Call a plain listener.  Whatever it does ends up in ``work.result``."""
    try:
        work.result = work.listener(work.messages)
    except BaseException as error:
        work.result = error


Ended: TypeAlias = Callable[[list[tuple[Work, int]]], None]


class Surroundings(msgspec.Struct, frozen=True):
    """What is done around each call of a listener."""

    group: str
    namespace: str
    hooks: Sequence[ConsumeHook]
    timeout_ms: int

    def run(self, work: Work) -> None:
        """`call` with the hooks around it."""
        if self.hooks:
            context = self.before(work.queue, work.messages)
            start_ns = perf_counter_ns()
        call(work)
        if self.hooks:
            self.after(context, work.result, perf_counter_ns() - start_ns)

    async def run_async(self, work: Work) -> None:
        """Await a coroutine function with the hooks around it.  Only a stop cancels it."""
        context = self.before(work.queue, work.messages) if self.hooks else None
        start_ns = perf_counter_ns()
        try:
            returned: Any = work.listener(work.messages)
            work.result = await returned
        except asyncio.CancelledError as error:
            work.result = error
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except BaseException as error:
            work.result = error
        if context is not None:
            self.after(context, work.result, perf_counter_ns() - start_ns)

    def before(self, queue: QueueRef, messages: tuple[ReceivedMessage, ...]) -> ConsumeContext:
        """Run the hooks that come before a call."""
        context = ConsumeContext(self.group, self.namespace, queue, messages, started_ms=wall_ms())
        run_before(self.hooks, context)
        return context

    def after(self, context: ConsumeContext, result: object, spent_ns: int) -> None:
        """Run those that come after it."""
        verdict = outcomes_of(result, len(context.messages))
        context.spent_ms = spent_ns // 1_000_000
        context.kind = verdict.kind
        if verdict.kind is ReturnKind.SUCCESS and context.spent_ms >= self.timeout_ms:
            context.kind = ReturnKind.TIME_OUT
        context.status = "consumed" if verdict.outcomes is None else "again"
        context.error = result if isinstance(result, BaseException) else None
        context.properties[RETURN_KIND] = context.kind.value
        run_after(self.hooks, context)


class Tasks:
    """Coroutines of listeners on the loop, so many at once."""

    def __init__(
        self,
        limit: int,
        *,
        run: Callable[[Work], Awaitable[None]],
        admit: Callable[[list[Work]], list[Work]],
        done: Ended,
    ) -> None:
        self.limit = limit
        self._run = run
        self._admit = admit
        self._on_done = done
        self._waiting: deque[Work] = deque()
        self._running: dict[asyncio.Task[None], tuple[Work, int]] = {}
        self._is_closed = False

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def submit(self, jobs: Iterable[Work]) -> None:
        self._waiting.extend(jobs)
        self._feed()

    def resize(self, limit: int) -> None:
        self.limit = limit
        self._feed()

    def running(self, *, with_stacks: bool = True) -> list[RunningJob[Work]]:
        now_ns = perf_counter_ns()
        return [
            RunningJob(
                work,
                task.get_name(),
                (now_ns - since_ns) // 1_000_000,
                _stack_of(task) if with_stacks else "",
            )
            for task, (work, since_ns) in self._running.items()
        ]

    def close(self) -> list[Work]:
        """Begin nothing more and cancel what runs; what was not begun comes back."""
        self._is_closed = True
        left = list(self._waiting)
        self._waiting.clear()
        for task in self._running:
            task.cancel()
        return left

    async def wait_closed(self) -> None:
        if self._running:
            await asyncio.wait(list(self._running))

    def _feed(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self.limit and not self._is_closed:
            for work in self._admit([self._waiting.popleft()]):
                task = loop.create_task(self._live(work), name=f"flintmq listener {work.queue}")
                self._running[task] = (work, perf_counter_ns())
                task.add_done_callback(self._ended)

    async def _live(self, work: Work) -> None:
        await self._run(work)

    def _ended(self, task: asyncio.Task[None]) -> None:
        work, since_ns = self._running.pop(task)
        if not task.cancelled():
            task.exception()
        self._on_done([(work, perf_counter_ns() - since_ns)])
        self._feed()


def _stack_of(task: asyncio.Task[None]) -> str:
    text = io.StringIO()
    task.print_stack(file=text)
    return text.getvalue()
