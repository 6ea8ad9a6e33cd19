"""The cluster as one account sees it, asked once for all viewers.

Pages and their streams ask for the same things at the same time.  An answer is therefore shared for
`FRESH_MS`, and whoever asks while the question is under way waits for the same answer.

Invariant: a page costs requests for the rows it shows, never for all rows there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, Final, TypeVar

from flintmq.client.admin_aio import Admin
from flintmq.core.admin.broker_status import BrokerStatus
from flintmq.core.admin.group_diagnosis import GroupDiagnosis
from flintmq.core.admin.groups import GroupSummary
from flintmq.core.admin.lag import GroupLag
from flintmq.core.admin.topics import QueueStats, TopicDetail, TopicName, TopicSize
from flintmq.errors import FlintError, NoRoute
from flintmq.net.clock import monotonic_ms

T = TypeVar("T")

FRESH_MS: Final = 2_000
"""How long an answer is shared: less than the interval of a live page."""

KEPT_MAX: Final = 512
"""Answers that are kept; the oldest make room."""

SIDE_BY_SIDE: Final = 16
"""Questions about rows of a page that are under way at once."""


class ClusterView:
    """Questions to a cluster, each answered for every viewer of the same account."""

    def __init__(self, admin: Admin, clock: Callable[[], int] = monotonic_ms) -> None:
        self.admin = admin
        self._clock = clock
        self._answers: dict[Hashable, tuple[int, asyncio.Task[Any]]] = {}

    async def close(self) -> None:
        under_way = [task for _, task in self._answers.values() if not task.done()]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self.admin.close()

    def forget(self) -> None:
        """After a change everything is asked again."""
        self._answers.clear()

    # Questions

    async def names(self) -> str:
        """What the cluster calls itself, for titles and confirmations."""
        cluster = await self._shared("cluster", self.admin.cluster)
        return ", ".join(cluster.clusters) or "no cluster"

    async def status(self) -> tuple[BrokerStatus, ...]:
        return await self._shared("status", self.admin.cluster_status)

    async def topics(self) -> tuple[TopicName, ...]:
        return await self._shared("topics", self.admin.topics)

    async def groups(self) -> tuple[GroupSummary, ...]:
        return await self._shared("groups", self.admin.groups)

    async def topic_detail(self, topic: str) -> TopicDetail:
        key = ("detail", topic)
        return await self._shared(key, lambda: self.admin.describe_topic(topic))

    async def topic_queues(self, topic: str) -> tuple[QueueStats, ...]:
        return await self._shared(("queues", topic), lambda: self.admin.topic_stats(topic))

    async def lag(self, group: str) -> GroupLag:
        return await self._shared(("lag", group), lambda: self.admin.lag(group))

    async def diagnosis(self, group: str) -> GroupDiagnosis:
        return await self._shared(("diagnosis", group), lambda: self.admin.diagnose(group))

    async def sizes(self, topics: Iterable[TopicName]) -> list[TopicSize | FlintError]:
        """The sizes of some topics, side by side; an error stands in the place of one."""
        return await side_by_side(
            self._shared(("size", topic), partial(self.admin.topic_size, topic)) for topic in topics
        )

    async def lags(self, groups: Iterable[str]) -> list[GroupLag | FlintError]:
        return await side_by_side(self.lag(group) for group in groups)

    async def queues_of(self, topics: Iterable[str]) -> list[tuple[QueueStats, ...] | FlintError]:
        """The queues of some topics; one that is deleted meanwhile has none."""
        return await side_by_side(self._queues_or_none(topic) for topic in topics)

    async def _queues_or_none(self, topic: str) -> tuple[QueueStats, ...]:
        try:
            return await self.topic_queues(topic)
        except NoRoute:
            return ()

    # Inside

    async def _shared(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        now_ms = self._clock()
        asked_ms, task = self._answers.get(key, (0, None))
        if task is None or now_ms - asked_ms >= FRESH_MS or _failed(task):
            task = asyncio.ensure_future(_answer(ask))
            self._answers.pop(key, None)
            self._answers[key] = (now_ms, task)
            while len(self._answers) > KEPT_MAX:
                del self._answers[next(iter(self._answers))]
        result: T = await asyncio.shield(task)  # a viewer who leaves takes nothing from the others
        return result


async def side_by_side(questions: Iterable[Awaitable[T]]) -> list[T | FlintError]:
    """Answers in the order of the questions, at most `SIDE_BY_SIDE` at once."""
    turn = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(question: Awaitable[T]) -> T | FlintError:
        async with turn:
            try:
                return await question
            except FlintError as error:
                return error

    waiting = list(questions)
    try:
        return list(await asyncio.gather(*map(one, waiting)))
    finally:
        for each in waiting:  # whoever is cancelled leaves some that were never asked
            if isinstance(each, Coroutine) and getcoroutinestate(each) == CORO_CREATED:
                each.close()


async def _answer(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
