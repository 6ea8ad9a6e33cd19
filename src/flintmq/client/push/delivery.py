"""From a batch to its listener: which one it is, and whether it runs in a thread or on the loop.

    Deliver ──► listener of its topic ──► Pool or Tasks ──► ended
           └──► none at all ──► Inbox, for whoever iterates

A topic without a listener of its own has the one for all topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from flintmq.client.push.listeners import Ended, Surroundings, Tasks, Work, call, is_async
from flintmq.client.push.message_iterator import MessageIterator
from flintmq.client.push.push_settings import PushConfig
from flintmq.client.push.thread_pool import Pool, RunningJob
from flintmq.core.group.actions import Deliver
from flintmq.core.group.listener_results import Listener, Retry
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef


class Delivery:
    """The listeners of one consumer at work.  It lives on the loop it was made on.

    ``listeners`` are by topic as the user knows it; ``usual`` is for all others.  Without any,
    messages are for those who iterate.
    """

    def __init__(
        self,
        config: PushConfig,
        listeners: Mapping[str, Listener],
        usual: Listener | None,
        clock: Callable[[], int],
        *,
        start: Callable[[Sequence[Deliver], int], list[Deliver]],
        ended: Ended,
    ) -> None:
        self._listeners = listeners
        self._usual = usual
        self._clock = clock
        self._start = start
        self._on_ended = ended
        self._asked_count = 0  # calls by hand that are under way
        self._is_async = {each: is_async(each) for each in (*listeners.values(), usual) if each}
        around = Surroundings(
            config.group, config.namespace, config.consume_hooks, config.consume_timeout_ms
        )
        self.pool: Pool[Work] = Pool(
            f"flintmq-{config.group}",
            config.threads_min,
            config.threads_max,
            run=around.run if around.hooks else call,
            admit=self._admit,
            done=self._ended,
        )
        self.tasks = Tasks(
            config.threads_max, run=around.run_async, admit=self._admit, done=self._ended
        )
        self.inbox = MessageIterator(
            lambda batch: bool(start((batch,), clock())),
            lambda batch, result, spent_ns: ended([(_settled(batch, result), spent_ns)]),
            around,
        )

    @property
    def is_iterated(self) -> bool:
        """Whether there is no listener at all."""
        return not self._is_async

    @property
    def waiting_count(self) -> int:
        """Batches that no listener has yet."""
        return self.pool.waiting_count + self.tasks.waiting_count + len(self.inbox)

    def deliver(self, batches: Sequence[Deliver]) -> None:
        if self.is_iterated:
            self.inbox.add(batches)
            return
        for topic, some in groupby(batches, _topic_of):
            listener = self._listeners.get(topic, self._usual) or _nobody
            works = [Work(listener, each.queue, each.messages, each) for each in some]
            (self.tasks if self._is_async.get(listener) else self.pool).submit(works)

    async def direct(self, message: ReceivedMessage, queue: QueueRef) -> tuple[object, int]:
        """Give one message to its listener, whatever the queues do: its result, and ns."""
        listener = self._listeners.get(message.topic, self._usual) or _nobody
        asked: asyncio.Future[tuple[object, int]] = asyncio.get_running_loop().create_future()
        work = Work(listener, queue, (message,), asked=asked)
        self._asked_count += 1
        if self._is_async.get(listener):
            self.tasks.submit((work,))
        else:
            self.pool.submit((work,))
        return await asked

    def running(self, *, with_stacks: bool = True) -> list[RunningJob[Work]]:
        """The listeners that run now."""
        return [
            *self.pool.running(with_stacks=with_stacks),
            *self.tasks.running(with_stacks=with_stacks),
        ]

    def resize(self, threads_min: int, threads_max: int) -> None:
        self.pool.resize(threads_min, threads_max)
        self.tasks.resize(threads_max)

    def close(self) -> None:
        self.inbox.close()
        for work in (*self.pool.close(), *self.tasks.close()):
            if work.asked is not None:
                work.asked.cancel()

    async def wait_closed(self) -> None:
        await self.tasks.wait_closed()
        await self.pool.wait_closed()

    def _admit(self, some: list[Work]) -> list[Work]:
        batches = [work.batch for work in some if work.batch is not None]
        ours = self._start(batches, self._clock())
        if len(ours) == len(batches):
            return some
        wanted = set(ours)
        return [work for work in some if work.batch is None or work.batch in wanted]

    def _ended(self, ended: list[tuple[Work, int]]) -> None:
        if self._asked_count:
            for work, spent_ns in ended:
                if work.asked is not None:
                    self._asked_count -= 1
                    if not work.asked.done():
                        work.asked.set_result((work.result, spent_ns))
            ended = [each for each in ended if each[0].asked is None]
        self._on_ended(ended)


def _topic_of(batch: Deliver) -> str:
    """The topic of a batch as the user knows it.  All messages of a batch have one topic."""
    return batch.messages[0].topic


def _settled(batch: Deliver, result: object) -> Work:
    return Work(_nobody, batch.queue, batch.messages, batch, result)


def _nobody(messages: tuple[ReceivedMessage, ...]) -> Retry:
    """Stands in for a listener that is not there: another member may have it."""
    return Retry(reason=f"no listener for topic {messages[0].topic!r}")
