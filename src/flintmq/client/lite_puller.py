"""The driver of `core.lite_pull`: carries its pulls out, tells it how they ended, waits for it.

    machine ──Pull──► task ──answer──► machine ──ready──► poll

Every queue has at most one task.  A pull that a seek has made needless is cancelled, since a
broker may keep it for 20 seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flintmq.client.pull_settings import LiteConfig
from flintmq.client.status import QueueStatus, queue_statuses
from flintmq.client.stream_client import StreamClient
from flintmq.client.timing import Timer
from flintmq.core.actions import AskStartOffset, Pull, Report
from flintmq.core.assigned_queue import as_listeners_see
from flintmq.core.lite_pull import Batch, LiteAction, LitePull, Release
from flintmq.core.pull_answers import OffsetMoved
from flintmq.core.start_offset import StartOffset, choose_start_offset
from flintmq.core.stream_requests import StreamPull
from flintmq.core.subscriptions import TopicSubscription
from flintmq.errors import FlintError, Unreachable
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

if TYPE_CHECKING:
    from asyncio import Task


class LitePuller:
    """The queues of one lite pull consumer.  Names are those of the wire."""

    def __init__(self, client: StreamClient, settings: LiteConfig) -> None:
        self._client = client
        self._engine = client.engine
        self._settings = settings
        self._machine = LitePull(settings, client.group, self._engine.clock())
        self._tasks: dict[QueueRef, Task[None]] = {}
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._ready: asyncio.Future[None] | None = None
        self._polling = asyncio.Lock()
        self._is_running = False

    # Life

    def start(self) -> None:
        self._is_running = True

    async def stop(self, *, settle: bool) -> None:
        """Pull no more, and commit what is done if the consumer commits by itself."""
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        if self._settings.auto_commit:
            if settle:
                self._machine.settle()
            self._remember(self._machine.settled())

    # Queues

    @property
    def queues(self) -> frozenset[QueueRef]:
        return self._machine.queues

    def require(self, queue: QueueRef) -> None:
        self._machine.consumed(queue)

    def apply(
        self, wanted: Mapping[QueueRef, TopicSubscription], *, topic: str | None = None
    ) -> None:
        """These queues are ours now, once the consumer runs."""
        if self._is_running:
            self._carry_out(self._machine.apply(wanted, self._engine.clock(), topic=topic))

    def pause(self, queues: Iterable[QueueRef]) -> None:
        self._machine.pause(queues)

    def resume(self, queues: Iterable[QueueRef]) -> None:
        self._carry_out(self._machine.resume(queues, self._engine.clock()))

    def seek(self, queue: QueueRef, offset: QueueOffset) -> None:
        actions = self._machine.seek(queue, offset, self._engine.clock())
        if queue in self._tasks:
            self._tasks.pop(queue).cancel()
        self._carry_out(actions)

    def status(self) -> tuple[QueueStatus, ...]:
        return queue_statuses(self._machine.status(), self._engine.clock())

    # Messages

    async def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        """One batch; polls of several tasks wait for each other."""
        deadline_ms = self._engine.clock() + timeout_ms
        async with self._polling:
            machine = self._machine
            while True:
                now_ms = self._engine.clock()
                batch, actions = machine.take(now_ms)
                self._remember(machine.auto_commit(now_ms))
                self._carry_out(actions)
                if batch is not None:
                    return self._seen(batch)
                if now_ms >= deadline_ms or not self._is_running:
                    return []
                await self._wait(deadline_ms - now_ms)

    async def _wait(self, timeout_ms: int) -> None:
        self._ready = asyncio.get_running_loop().create_future()
        try:
            with suppress(TimeoutError):
                async with self._engine.timing.limit(timeout_ms):
                    await self._ready
        finally:
            self._ready = None

    def _seen(self, batch: Batch) -> list[ReceivedMessage]:
        client = self._client
        messages = as_listeners_see(
            batch.messages,
            batch.queue,
            is_retry=batch.queue.topic == client.retry_topic,
            namespace=client.namespace,
        )
        return messages if isinstance(messages, list) else list(messages)

    # Offsets

    def position(self, queue: QueueRef) -> QueueOffset | None:
        return self._machine.consumed(queue)

    def offsets(self, topic: str | None) -> Mapping[QueueRef, int]:
        """How far each queue is handed out."""
        return {
            queue: offset
            for queue in self._machine.queues
            if topic is None or queue.topic == topic
            if (offset := self._machine.consumed(queue)) is not None
        }

    def done(self) -> dict[QueueRef, QueueOffset]:
        """All that was handed out counts as done."""
        self._machine.settle()
        return dict(self._machine.settled())

    async def commit(self, offsets: Mapping[QueueRef, QueueOffset], *, persist: bool) -> None:
        keeper = self._client.keeper
        for queue, offset in offsets.items():
            keeper.update(queue, offset)
        if not persist:
            return
        failure: FlintError | None = None
        for queue, offset in offsets.items():
            try:
                await keeper.commit(queue, offset)
            except FlintError as error:
                self._machine.commit_failed(queue)
                failure = error
        if failure is not None:
            raise failure

    def _remember(self, offsets: Iterable[tuple[QueueRef, QueueOffset]]) -> None:
        changed = list(offsets)
        for queue, offset in changed:
            self._client.keeper.update(queue, offset)
        if changed and self._is_running:
            queues = [queue for queue, _ in changed]
            self._engine.spawn(self._client.keeper.persist(queues), "auto commit")

    # Actions

    def _carry_out(self, actions: Iterable[LiteAction]) -> None:
        for action in actions:
            if isinstance(action, Pull):
                self._run(action.queue, self._pull(action), "pull")
            elif isinstance(action, AskStartOffset):
                self._run(action.queue, self._locate(action), "start offset")
            elif isinstance(action, Report):
                self._engine.events.add(action.kind, action.subject, action.text, action.level)
            else:
                self._release(action)
        self._arm()
        if self._ready is not None and not self._ready.done() and self._machine.has_ready:
            self._ready.set_result(None)

    def _run(self, queue: QueueRef, work: Coroutine[Any, Any, None], what: str) -> None:
        self._tasks[queue] = self._engine.spawn(work, f"{what} of {queue}")

    async def _pull(self, pull: Pull) -> None:
        """Pull a queue, and go on as long as one pull follows from the answer to another."""
        following: Pull | None = pull
        while following is not None:
            actions = await self._pull_once(following)
            queue, following = following.queue, None
            if self._is_running:
                pulls = (each for each in actions if isinstance(each, Pull))
                following = next((each for each in pulls if each.queue is queue), None)
                self._carry_out(each for each in actions if each is not following)

    async def _pull_once(self, pull: Pull) -> list[LiteAction]:
        settings, machine = self._settings, self._machine
        wanted = StreamPull(
            pull.queue,
            pull.offset,
            pull.subscription,
            pull.count_max,
            settings.suspend_ms,
            bytes_max=pull.bytes_max,
        )
        try:
            answer = await self._client.pulling.pull(
                wanted, settings.suspend_timeout_ms, is_lite=True, broker_id=pull.broker_id
            )
        except FlintError as error:
            if isinstance(error, Unreachable):
                self._engine.doubt_route(pull.queue.topic)
            return machine.pull_failed(pull, error, self._engine.clock())
        if isinstance(answer, OffsetMoved) and answer.next_offset < pull.offset:
            self._client.keeper.update(pull.queue, answer.next_offset)  # the group was moved
        return machine.pulled(pull, answer, self._engine.clock())

    async def _locate(self, ask: AskStartOffset) -> None:
        try:
            start = await self._start_offset(ask.queue)
        except FlintError as error:
            actions = self._machine.start_failed(ask, str(error), self._engine.clock())
        else:
            actions = self._machine.start_known(ask, start, self._engine.clock())
        if self._is_running:
            self._carry_out(actions)

    async def _start_offset(self, queue: QueueRef) -> StartOffset:
        keeper = self._client.keeper
        await keeper.persist([queue])  # what we know better comes first
        stored = await keeper.read(queue, from_store=True)
        if stored is not None:
            return StartOffset(stored, is_stored=True)
        settings = self._settings
        start_at_ms = settings.starts_at_ms(self._engine.wall())
        address = await self._client.pulling.master(queue)
        conversation = choose_start_offset(address, queue, settings.start_from, start_at_ms)
        return StartOffset(await self._engine.hold(conversation), is_stored=False)

    def _release(self, release: Release) -> None:
        task = self._tasks.pop(release.queue, None)
        if task is not None:
            task.cancel()
        if release.offset is not None:
            self._client.keeper.update(release.queue, release.offset)
        self._engine.spawn(self._client.keeper.release(release.queue), "offset of a lost queue")

    def _arm(self) -> None:
        """Come back when the machine wants to look at a queue again."""
        due_ms = self._machine.next_due_ms()
        if self._timer is not None:
            if due_ms == self._timer_ms and self._is_running:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms is not None and self._is_running:
            wait_ms = max(0, due_ms - self._engine.clock())
            self._timer_ms = due_ms
            self._timer = self._engine.timing.call_later(wait_ms, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_running and self._engine.life.is_running:
            self._carry_out(self._machine.due(self._engine.clock()))
