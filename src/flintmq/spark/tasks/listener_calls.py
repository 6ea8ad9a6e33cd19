"""Calls listeners in a task: one after the other, on threads, or on an event loop.

    plain function                in the task itself
    plain function, threads=n     n at once, on threads of the task
    async def                     up to threads=n at once on a loop of the task; 20 by default

Results are in the order of the batches, whichever call ended first.

Invariant: when `close` is done, no thread and no loop of a listener is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

from flintmq.arrow.message_tables import message_table
from flintmq.client.push.listeners import Surroundings, Work, is_async
from flintmq.core.group.actions import Deliver
from flintmq.core.group.app import AppListener
from flintmq.core.group.listener_results import Listener, Retry
from flintmq.model.message import ReceivedMessage
from flintmq.net.clock import wall_ms

ASYNC_AT_ONCE: Final = 20
"""Coroutines of one task that run at once, for a listener without ``threads``."""


class Called(NamedTuple):
    """A finished call of a listener."""

    batch: Deliver
    result: object
    started_us: int
    spent_ms: float


class ListenerCalls:
    """The listeners of an app inside one task, by topic without namespace."""

    def __init__(self, listeners: Sequence[AppListener], around: Surroundings) -> None:
        self._listeners = {each.subscription.topic: each for each in listeners}
        self._functions = {
            topic: _on_tables(each.function) if each.as_table else each.function
            for topic, each in self._listeners.items()
        }
        self._around = around
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._runner: asyncio.Runner | None = None

    def call_all(self, batches: Sequence[Deliver]) -> Iterator[Called]:
        """Give each batch to the listener of its topic; all batches are of one topic."""
        if not batches:
            return iter(())
        topic = batches[0].messages[0].topic
        function: Listener = self._functions.get(topic, _nobody)
        found = self._listeners.get(topic)
        works = [Work(function, each.queue, each.messages, each) for each in batches]
        if found is not None and is_async(found.function):
            return iter(self._on_loop(works, found.threads or ASYNC_AT_ONCE))
        if found is None or found.threads is None or found.threads == 1:
            return map(self._call, works)
        if topic not in self._pools:
            name = f"flintmq-{topic}"
            self._pools[topic] = ThreadPoolExecutor(found.threads, thread_name_prefix=name)
        return self._pools[topic].map(self._call, works)

    def listener_of(self, topic: str) -> object:
        """The user's own function for a topic; None where it has none."""
        found = self._listeners.get(topic)
        return None if found is None else found.function

    def close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=True, cancel_futures=True)
        if self._runner is not None:
            self._runner.close()

    def _call(self, work: Work) -> Called:
        assert work.batch is not None
        started_us, start_ns = wall_ms() * 1_000, perf_counter_ns()
        self._around.run(work)
        return Called(work.batch, work.result, started_us, (perf_counter_ns() - start_ns) / 1e6)

    def _on_loop(self, works: Sequence[Work], at_once: int) -> list[Called]:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._call_some(works, at_once))

    async def _call_some(self, works: Sequence[Work], at_once: int) -> list[Called]:
        room = asyncio.Semaphore(at_once)

        async def call(work: Work) -> Called:
            assert work.batch is not None
            async with room:
                started_us, start_ns = wall_ms() * 1_000, perf_counter_ns()
                await self._around.run_async(work)
                spent_ms = (perf_counter_ns() - start_ns) / 1e6
                return Called(work.batch, work.result, started_us, spent_ms)

        return list(await asyncio.gather(*map(call, works)))


def _on_tables(function: Callable[[Any], Any]) -> Listener:
    """A listener that gets a table in place of messages."""
    if is_async(function):

        async def call_async(messages: tuple[ReceivedMessage, ...]) -> Any:
            return await function(message_table(messages))

        return call_async
    return partial(_call_with_table, function)


def _call_with_table(function: Callable[[Any], Any], messages: tuple[ReceivedMessage, ...]) -> Any:
    return function(message_table(messages))


def _nobody(messages: tuple[ReceivedMessage, ...]) -> Retry:
    """In place of a missing listener: another member of the group may have it."""
    return Retry(reason=f"no listener for topic {messages[0].topic!r}")
