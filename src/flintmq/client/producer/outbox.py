"""Messages on their way from any thread to the loop that sends them.

    send_async ─► room? ─► queue ─► loop: sends ─► future, callback, room given back

Waking the loop costs more than queueing, so it is woken once for all that was queued meanwhile.

Messages that began and that ended are counted apart, the ended ones by the loop alone, so that an
end takes no lock.  Who waits says so before it looks, and who ends one looks for waiting threads
afterwards: one of both sees the other.

Invariant: at most ``in_flight_max`` messages are between `submit` and their end.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from flintmq.client.engine.loop_thread import Lease
from flintmq.client.producer.producer import Producer
from flintmq.client.producer.send_future import SendFuture
from flintmq.core.producer.queue_choice import Selector
from flintmq.core.producer.receipt import SendReceipt
from flintmq.errors import WrongState
from flintmq.logs import logger
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef

log = logger(__name__)

Callback: TypeAlias = Callable[[SendReceipt | BaseException], object]
"""Called with the receipt, or with what went wrong."""


class Place(NamedTuple):
    """Where a message has to go: one of these is given."""

    queue: QueueRef | None
    selector: Selector | None
    sharding_key: str | None


class Job(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One message to send, and the future and callback of its result."""

    message: Message
    timeout_ms: int
    callback: Callback | None
    future: SendFuture
    place: Place | None
    """None where it may go to any queue."""


class Outbox:
    """The queue of one producer."""

    def __init__(self, producer: Producer, lease: Lease) -> None:
        self._producer = producer
        self._lease = lease
        self._limit = producer.config.in_flight_max
        self._begun = 0
        self._ended_count = 0
        self._entry = threading.Lock()
        self._change = threading.Condition()
        self._waiting_count = 0
        self._is_notifying = False
        self._jobs: deque[Job] = deque()
        self._is_woken = False
        self._tasks: set[asyncio.Task[SendReceipt]] = set()

    @property
    def is_empty(self) -> bool:
        """Whether no message is in flight."""
        return self._begun == self._ended_count

    def submit(self, job: Job) -> Future[SendReceipt]:
        """Queue a message; wait while too many are in flight."""
        while not self._enter():
            if self._lease.is_current:
                raise WrongState("send_async", "full", "a callback must not wait for room")
            self._wait_until(self._has_room)
        self._jobs.append(job)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._lease.call_soon(self._drain)
            except BaseException:  # it was stopped meanwhile
                self._jobs.remove(job)
                self._withdraw()
                raise
        return job.future

    def wait(self) -> None:
        """Wait until no message is in flight."""
        self._wait_until(lambda: self.is_empty)

    def _enter(self) -> bool:
        with self._entry:
            if self._begun - self._ended_count >= self._limit:
                return False
            self._begun += 1
            return True

    def _withdraw(self) -> None:
        with self._entry:
            self._begun -= 1
        self._notify()

    def _has_room(self) -> bool:
        return self._begun - self._ended_count < self._limit

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        with self._change:
            self._waiting_count += 1
            try:
                while not is_so():
                    self._change.wait()
            finally:
                self._waiting_count -= 1

    def _drain(self) -> None:
        self._is_woken = False
        loop, gather = asyncio.get_running_loop(), self._producer.gather
        while self._jobs:
            job = self._jobs.popleft()
            message, timeout_ms = job.message, job.timeout_ms
            if job.place is None:
                if gather is None or not gather.add(message, timeout_ms, self._end, job):
                    self._producer.starter.begin(message, timeout_ms, partial(self._end, job))
                continue
            work = self._producer.send(
                message,
                timeout_ms=timeout_ms,
                queue=job.place.queue,
                selector=job.place.selector,
                sharding_key=job.place.sharding_key,
            )
            task = loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(partial(self._landed, job))

    def _landed(self, job: Job, task: asyncio.Task[SendReceipt]) -> None:
        self._tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._end(job, task.result() if error is None else error)

    def _end(self, job: Job, outcome: SendReceipt | BaseException) -> None:
        job.future.settle(outcome)
        self._ended()
        if job.callback is not None:
            try:
                job.callback(outcome)
            except Exception:
                log.exception("the callback of a message to %s failed", job.message.topic)

    def _ended(self) -> None:
        """On the loop.  Waiting threads are woken once for all sends that end in this turn."""
        self._ended_count += 1
        if self._waiting_count and not self._is_notifying:
            self._is_notifying = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        with self._change:
            self._is_notifying = False
            self._change.notify_all()
