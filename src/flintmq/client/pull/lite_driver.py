"""The driver of `core.pull.lite_pull`: carries its pulls out and reports how they ended.

    machine ──Pull──► task ──answer──► machine ──ready──► poll

Every queue has at most one task.  A seek cancels the pull of its queue, since a broker may keep
it for 20 seconds.

Everything happens on the loop but `poll_here`, which takes messages on the thread that wants
them: going to the loop and back wakes two threads for a handful of messages.  Where more is
behind what came, it is woken for several answers at once.

Invariant: whoever calls the machine has the guard.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from flintmq.client.engine.machine_driver import Actions, MachineDriver, known_error
from flintmq.client.pull.pull_client import StreamClient
from flintmq.client.pull.pull_settings import LiteConfig
from flintmq.client.push.push_status import QueueStatus, queue_statuses
from flintmq.core.consumer.assigned_queue import as_listeners_see
from flintmq.core.group.actions import AskStartOffset
from flintmq.core.group.pull_answers import MessagesFound, OffsetMoved
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pull.lite_pull import Batch, LiteAction, LitePull, Release
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import FlintError, UndecodableRecord, Unreachable
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

if TYPE_CHECKING:
    from asyncio import Task

Settled: TypeAlias = tuple[QueueRef, QueueOffset]


GATHER_S: Final = 0.004
"""How long answers are gathered for a thread that waits, where more is sure to come."""

GATHERED_MAX: Final = 16
"""Answers that are worth to wake it at once."""


class LiteDriver(MachineDriver):
    """The queues of one lite pull consumer.  Names are those of the wire."""

    def __init__(self, client: StreamClient, settings: LiteConfig) -> None:
        super().__init__(client.engine, f"group {client.group}")
        self.is_open = False
        self._client = client
        self._settings = settings
        self._machine = LitePull(settings, client.group, self._clock())
        self._tasks: dict[QueueRef, Task[None]] = {}
        self._ready: asyncio.Future[None] | None = None
        self._polling = asyncio.Lock()
        self._guard = threading.RLock()
        self._polling_here = threading.Lock()
        self._waiter: threading.Lock | None = None  # of the thread that polls, while it waits
        self._waker: asyncio.TimerHandle | None = None
        self._is_behind = False  # whether the queue that was answered last has more
        self.on_pull(self._pull_once)
        self.on_call(AskStartOffset, self._start_offset, self._start_known, self._start_failed)
        self.on(Release, self._release)

    # Life

    def start(self) -> None:
        self.is_open = True

    async def stop(self, *, settle: bool) -> None:
        """Pull no more, and commit what is done if the consumer commits by itself."""
        with self._guard:  # nobody begins to wait from here on
            self.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        self._wake()
        if self._settings.auto_commit:
            with self._guard:
                if settle:
                    self._machine.settle()
                settled = self._machine.settled()
            self._remember(settled)

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
        if self.is_open:
            with self._guard:
                actions = self._machine.apply(wanted, self._clock(), topic=topic)
            self.event(actions)

    def pause(self, queues: Iterable[QueueRef]) -> None:
        with self._guard:
            self._machine.pause(queues)

    def resume(self, queues: Iterable[QueueRef]) -> None:
        with self._guard:
            actions = self._machine.resume(queues, self._clock())
        self.event(actions)

    def seek(self, queue: QueueRef, offset: QueueOffset) -> None:
        with self._guard:
            actions = self._machine.seek(queue, offset, self._clock())
        if queue in self._tasks:
            self._tasks.pop(queue).cancel()
        self.event(actions)

    def status(self) -> tuple[QueueStatus, ...]:
        with self._guard:
            return queue_statuses(self._machine.status(), self._clock())

    def cached(self) -> list[tuple[str, int, int, int]]:
        """For metrics: each topic, our queues of it, and the messages and bytes they hold."""
        totals: dict[str, list[int]] = {}
        for each in self.status():
            sums = totals.setdefault(self._engine.user_name(each.queue.topic), [0, 0, 0])
            for at, more in enumerate((1, each.cached_count, each.cached_bytes)):
                sums[at] += more
        return [(topic, queues, count, size) for topic, (queues, count, size) in totals.items()]

    # Messages

    async def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        """The next batch of messages; polls of several tasks wait for each other."""
        deadline_ms = self._clock() + timeout_ms
        async with self._polling:
            while True:
                now_ms = self._clock()
                batch, actions, settled = self._next_batch(now_ms)
                self._remember(settled)
                self.event(actions)
                if batch is not None:
                    return self._seen(batch)
                if now_ms >= deadline_ms or not self.is_open:
                    return []
                await self._wait(deadline_ms - now_ms)

    def poll_here(self, timeout_ms: int) -> list[ReceivedMessage] | None:
        """`poll` on a thread that is not the loop's; None while another thread polls so."""
        if not self._polling_here.acquire(blocking=False):
            return None
        try:
            deadline_ms = self._clock() + timeout_ms
            while self.is_open:
                now_ms = self._clock()
                with self._guard:
                    batch, actions, settled = self._next_batch(now_ms)
                    waits = batch is None and now_ms < deadline_ms and self.is_open
                    waiter = threading.Lock()
                    if waits:
                        waiter.acquire()
                        self._waiter = waiter
                if actions or settled:
                    self._engine.loop.call_soon_threadsafe(self._follow, actions, settled)
                if batch is not None:
                    return self._seen(batch)
                if not waits:
                    break
                waiter.acquire(timeout=(deadline_ms - now_ms) / 1000)
            return []
        finally:
            self._waiter = None
            self._polling_here.release()

    def _next_batch(self, now_ms: int) -> tuple[Batch | None, list[LiteAction], list[Settled]]:
        with self._guard:
            try:
                batch, actions = self._machine.next_batch(now_ms)
            except UndecodableRecord as stop:
                topic, *place = stop.args
                raise UndecodableRecord(self._engine.user_name(topic), *place) from None
            return batch, actions, self._machine.auto_commit(now_ms)

    def _follow(self, actions: list[LiteAction], settled: list[Settled]) -> None:
        """Carry out the actions that follow from a batch that a thread took."""
        if self.is_open:
            self._remember(settled)
            self.event(actions)

    def _wake(self) -> None:
        """Have the thread that waits look again."""
        if self._waker is not None:
            self._waker.cancel()
            self._waker = None
        waiter, self._waiter = self._waiter, None
        if waiter is not None and waiter.locked():
            waiter.release()

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
        """Settle all messages that were handed out; the offsets to commit."""
        with self._guard:
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
                with self._guard:
                    self._machine.commit_failed(queue)
                failure = error
        if failure is not None:
            raise failure

    def _remember(self, offsets: Iterable[tuple[QueueRef, QueueOffset]]) -> None:
        changed = list(offsets)
        for queue, offset in changed:
            self._client.keeper.update(queue, offset)
        if changed and self.is_open:
            queues = [queue for queue, _ in changed]
            self._engine.spawn(self._client.keeper.persist(queues), "auto commit")

    # Actions

    def begin(self, action: object, work: Coroutine[Any, Any, None]) -> None:
        """Run the call of a queue; a seek or the loss of the queue cancels it."""
        assert isinstance(action, Pull | AskStartOffset)
        kind = type(action).__name__
        self._tasks[action.queue] = self._engine.spawn(work, f"{kind} of {action.queue}")

    def flush(self) -> None:
        """Wake whoever polls, if a batch is ready."""
        with self._guard:
            ready_count = self._machine.ready_count
        if not ready_count:
            return
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        if self._waiter is None:
            return
        if not self._is_behind or ready_count >= GATHERED_MAX:
            self._wake()
        elif self._waker is None:
            self._waker = self._engine.loop.call_later(GATHER_S, self._wake)

    def tick(self, now_ms: int) -> Actions:
        with self._guard:
            return self._machine.due(now_ms)

    def next_due_ms(self) -> int | None:
        with self._guard:
            return self._machine.next_due_ms()

    async def _pull_once(self, pull: Pull) -> list[LiteAction]:
        settings, machine = self._settings, self._machine
        wanted = replace(
            pull,
            is_lite=True,
            suspend_ms=settings.hold_ms,
            timeout_ms=settings.hold_timeout_ms,
        )
        start_ns = perf_counter_ns()
        try:
            answer = await self._client.pulling.pull(wanted)
        except Exception as error:
            self._count(pull, start_ns, is_well=False)
            known = known_error(error)
            if isinstance(known, Unreachable):
                self._engine.doubt_route(pull.queue.topic)
            with self._guard:
                return machine.pull_failed(pull, known, self._clock())
        self._count(pull, start_ns, is_well=True)
        if isinstance(answer, OffsetMoved) and answer.next_offset < pull.offset:
            self._client.keeper.update(pull.queue, answer.next_offset)  # the group was moved
        if isinstance(answer, MessagesFound) and answer.bad and self._client.counts is not None:
            self._client.counts.bad_count += len(answer.bad)
        self._is_behind = isinstance(answer, MessagesFound) and answer.is_part
        with self._guard:
            return machine.pulled(pull, answer, self._clock())

    def _count(self, pull: Pull, start_ns: int, *, is_well: bool) -> None:
        if (counts := self._client.counts) is not None:
            topic = self._engine.user_name(pull.queue.topic)
            counts.pulls.pulled(topic, perf_counter_ns() - start_ns, is_well=is_well)

    def _start_known(self, ask: AskStartOffset, start: StartOffset, now_ms: int) -> Actions:
        with self._guard:
            return self._machine.start_known(ask, start, now_ms)

    def _start_failed(self, ask: AskStartOffset, reason: str, now_ms: int) -> Actions:
        with self._guard:
            return self._machine.start_failed(ask, reason, now_ms)

    async def _start_offset(self, ask: AskStartOffset) -> StartOffset:
        queue = ask.queue
        keeper = self._client.keeper
        await keeper.persist([queue])  # what we know better comes first
        stored = await keeper.read(queue, from_store=True)
        settings = self._settings
        return await self._client.pulling.start_offset(
            queue,
            stored,
            settings.start,
            settings.starts_at_ms(self._engine.wall()),
            is_broker_s=settings.is_clustering and settings.offset_store is None,
        )

    def _release(self, release: Release) -> None:
        task = self._tasks.pop(release.queue, None)
        if task is not None:
            task.cancel()
        if release.offset is not None:
            self._client.keeper.update(release.queue, release.offset)
        self._engine.spawn(self._client.keeper.release(release.queue), "offset of a lost queue")
