"""Messages for whoever iterates over a consumer: ``async for message in consumer``, or ``for``.

    Deliver ──► waiting ──asked for──► current ──next one asked for──► consumed
                   ▲                      │
                   └── iterated anew ◄── left ── an exception leaves the ``with`` ──► sent back
                                          └── closed ──► given up, unsettled

A message is current from when the loop gets it until it asks for the next.  A loop that was left,
by ``break`` or an exception, finds the message again when it is begun anew.  Consume hooks run
when a message becomes current and when it is current no more; to them, one that is given up
comes again.

Several loops may run at once, each with messages of its own: tasks over one consumer on asyncio,
threads over one in threads.

Invariant: a batch here has one message, and each is in one place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import perf_counter_ns
from typing import Final, Self

from flintmq.client.engine.lifecycle import State
from flintmq.client.engine.loop_thread import Lease
from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.client.push.listeners import Surroundings
from flintmq.core.group.actions import Deliver
from flintmq.core.group.listener_results import Retry
from flintmq.errors import WrongState
from flintmq.model.message import ReceivedMessage

GIVEN_UP: Final = Retry(reason="the consumer stopped while a loop had it")


class MessageIterator:
    """The messages of one consumer that no listener takes.

    ``start`` says whether a batch is still wanted; ``settle`` reports what became of it, and
    after how many nanoseconds; ``around`` has the hooks.
    """

    def __init__(
        self,
        start: Callable[[Deliver], bool],
        settle: Callable[[Deliver, object, int], None],
        around: Surroundings,
    ) -> None:
        self._start = start
        self._settle = settle
        self._around = around
        self._waiting: deque[Deliver] = deque()
        self._left: deque[Deliver] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self.current: dict[Deliver, tuple[int, ConsumeContext | None]] = {}
        """What loops have now, or left by a break; since when, and what hooks know of it."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, batches: Iterable[Deliver]) -> None:
        self._waiting.extend(batches)
        self._wake()

    async def next_batch(self) -> Deliver | None:
        """The next one, or None when there will be none any more."""
        while not self._is_closed:
            if self._left:
                return self._left.popleft()
            while self._waiting:
                batch = self._waiting.popleft()
                if self._start(batch):
                    self.current[batch] = (perf_counter_ns(), self._before(batch))
                    return batch
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        return None

    def settle(self, batch: Deliver, result: object) -> None:
        """``result`` is None, or the exception that left the loop."""
        if batch in self.current:
            self._settle(batch, result, self._after(batch, result))

    def leave(self, batch: Deliver) -> None:
        """A loop was left while it had this one."""
        if batch in self.current:
            self._left.append(batch)
            self._wake()

    def send_back(self, error: BaseException) -> None:
        """An exception ended the iteration: its messages are redelivered."""
        for batch in list(self.current):
            self.settle(batch, error)

    def close(self) -> None:
        """No more messages; every loop ends."""
        self._is_closed = True
        self._waiting.clear()
        for batch in list(self.current):
            self._after(batch, GIVEN_UP)
        self._wake()

    def _before(self, batch: Deliver) -> ConsumeContext | None:
        around = self._around
        return around.before(batch.queue, batch.messages) if around.hooks else None

    def _after(self, batch: Deliver, result: object) -> int:
        """Take a batch off the current ones; how long it was one, in ns."""
        since_ns, context = self.current.pop(batch)
        spent_ns = perf_counter_ns() - since_ns
        if context is not None:
            self._around.after(context, result, spent_ns)
        return spent_ns

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)


class Iteration:
    """One ``async for``."""

    def __init__(self, inbox: MessageIterator) -> None:
        self._inbox = inbox
        self._current: Deliver | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        done, self._current = self._current, None
        if done is not None:
            self._inbox.settle(done, None)
        batch = self._current = await self._inbox.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch.messages[0]

    def __del__(self) -> None:
        if self._current is not None:  # left by a break or an exception: which, nobody can tell
            self._inbox.leave(self._current)


class ThreadedIteration:
    """One ``for`` on a thread that is not the loop's.  It ends when the consumer is stopped."""

    def __init__(self, inbox: MessageIterator, lease: Lease) -> None:
        self._inbox = inbox
        self._lease = lease
        self._current: Deliver | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        done, self._current = self._current, None
        try:
            batch = self._current = self._lease.run(self._step(done))
        except asyncio.CancelledError:  # the loop ended while this thread waited
            raise StopIteration from None
        except WrongState as error:
            if error.state == State.STOPPED:
                raise StopIteration from None
            raise
        if batch is None:
            raise StopIteration
        return batch.messages[0]

    async def _step(self, done: Deliver | None) -> Deliver | None:
        if done is not None:
            self._inbox.settle(done, None)
        return await self._inbox.next_batch()

    def __del__(self) -> None:
        if self._current is not None:
            with suppress(WrongState, RuntimeError):  # the consumer, or the loop, has ended
                self._lease.call_soon(partial(self._inbox.leave, self._current))
