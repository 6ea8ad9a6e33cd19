"""Notices new messages in queues by long polling.

Each queue has one pull that its broker holds until a message arrives.  The message in its response
is not used: it only shows that there is a micro-batch to plan.

    wait(positions) ──► a pull for each queue ──held up to 15 s──► no message: pull again
                                                  ├──► message: `wait` returns
                                                  └──► offset moved: the group was reset
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.group.actions import PULL_SUSPEND_MS, PULL_TIMEOUT_MS
from flintmq.core.group.pull_answers import NoNewMessage, OffsetMoved
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import FlintError
from flintmq.model.queue import QueueOffset, QueueRef

AFTER_ERROR_S: Final = 1.0


class NewMessages:
    """The held pulls of one query.  Used on the loop of its engine."""

    def __init__(
        self,
        engine: ClientEngine,
        pulling: BrokerCalls,
        on_moved: Callable[[QueueRef, QueueOffset], None],
    ) -> None:
        self._engine = engine
        self._pulling = pulling
        self._on_moved = on_moved
        self._watches: dict[QueueRef, tuple[QueueOffset, asyncio.Task[None]]] = {}
        self._change = asyncio.Event()

    def wake(self) -> None:
        """End the current `wait`."""
        self._change.set()

    async def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait until a queue has a message at its position, or for `wake`; False on timeout."""
        self._watch(positions)
        try:
            async with asyncio.timeout(timeout_s):
                await self._change.wait()
        except TimeoutError:
            return False
        self._change.clear()
        return True

    def _watch(self, positions: Mapping[QueueRef, QueueOffset]) -> None:
        for queue, (offset, task) in list(self._watches.items()):
            if positions.get(queue) != offset or task.done():
                task.cancel()
                del self._watches[queue]
        for queue, offset in positions.items():
            if queue not in self._watches:
                task = self._engine.spawn(
                    self._await_message(queue, offset), f"new messages in {queue}"
                )
                self._watches[queue] = offset, task

    async def _await_message(self, queue: QueueRef, offset: QueueOffset) -> None:
        pull = Pull(
            queue,
            offset,
            TopicSubscription(queue.topic),
            count_max=1,
            bytes_max=1,
            suspend_ms=PULL_SUSPEND_MS,
            timeout_ms=PULL_TIMEOUT_MS,
        )
        while True:
            try:
                answer = await self._pulling.pull(pull)
            except FlintError:
                await asyncio.sleep(AFTER_ERROR_S)
                break  # the next survey of the brokers shows what is wrong
            if isinstance(answer, OffsetMoved) and answer.next_offset != offset:
                self._on_moved(queue, answer.next_offset)
            if not isinstance(answer, NoNewMessage):
                break
        self._change.set()
