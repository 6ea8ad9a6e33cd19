"""The thread that clients of programs without asyncio live on: one for each process.

    first client starts ─► thread and loop ─► last client stopped ─► both end
    any thread ─► run(coroutine) ─► loop ─► result or error, back on the calling thread

A thread that waits may be interrupted (Ctrl-C): a coroutine it waited for is cancelled, not leaked.
What was begun with a callback (`ask`) ends by itself, at the latest by its timeout.
The thread is a daemon: a program that forgets to stop its clients still ends.

Invariant: the loop runs exactly while somebody holds a `Lease`.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from flintmq.client.engine.lifecycle import check_generation, generation, in_every_child
from flintmq.errors import WrongState
from flintmq.net.loop import new_event_loop

T = TypeVar("T")


class _Awaited(ABC, Generic[T]):
    """What a thread waits for: a bare lock is the quickest way to be woken."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.result: T
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    @abstractmethod
    def begin(self) -> None:
        """Start it, unless it was given up before.  Called on the loop."""

    def give_up(self) -> None:
        """Its caller waits no longer.  Called on the loop."""
        if self.error is None:
            self.error = asyncio.CancelledError()

    def _end(self, outcome: T | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self.error = outcome
        else:
            self.result = outcome
        self.done.release()


class _Errand(_Awaited[T]):
    """A coroutine.  One that is given up is cancelled."""

    __slots__ = ("_task", "_work")

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        if self.error is None:
            self._task = asyncio.get_running_loop().create_task(self._work)
            self._task.add_done_callback(self._landed)
        else:
            self._work.close()

    def give_up(self) -> None:
        if self._task is None:
            super().give_up()
        else:
            self._task.cancel()

    def _landed(self, task: asyncio.Task[T]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._end(task.result() if error is None else error)


class _Question(_Awaited[T]):
    """Something that tells a callback how it ended.  One that is given up ends by itself."""

    __slots__ = ("_begin",)

    def __init__(self, begin: Callable[[Callable[[T | BaseException], object]], object]) -> None:
        super().__init__()
        self._begin = begin

    def begin(self) -> None:
        if self.error is None:
            self._begin(self._end)


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, name: str = "flintmq-client") -> None:
        self._loop = new_event_loop()
        self._errands: deque[_Awaited[Any]] = deque()
        self._is_woken = False
        self._ident: int | None = None
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this very thread, where waiting would never end."""
        return threading.get_ident() == self._ident

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it on the calling thread."""
        return self._wait(_Errand(work))

    def ask(self, begin: Callable[[Callable[[T | BaseException], object]], object]) -> T:
        """Have something begun on the loop, and wait here for what it gives to its callback."""
        return self._wait(_Question(begin))

    def _wait(self, errand: _Awaited[T]) -> T:
        self._errands.append(errand)
        try:
            if not self._is_woken:  # else it is about to look anyway
                self._is_woken = True
                self._loop.call_soon_threadsafe(self._begin)
            errand.done.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(errand.give_up)
            raise
        error = errand.error
        if error is not None:
            raise error
        return errand.result

    def end(self) -> None:
        """Stop the loop, wait for the thread, close what it had open."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        if not self.is_current:
            self._thread.join()

    def _begin(self) -> None:
        self._is_woken = False
        while self._errands:
            self._errands.popleft().begin()

    def _live(self) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_cancel_others())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()
            self._ident = None  # another thread may get the number


async def _cancel_others() -> None:
    """End what nobody waits for any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Lease:
    """The right to use the loop of the process, until `give_back`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._born = generation()
        self._thread: LoopThread | None = _share_thread()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._require().loop

    @property
    def is_current(self) -> bool:
        """Whether the caller is on the thread of the loop."""
        return self._thread is not None and self._thread.is_current

    def require_other(self) -> None:
        """Raise `WrongState` on the thread of the loop, where nobody may wait."""
        self._require_other()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it on this thread."""
        try:
            thread = self._require_other()
        except BaseException:
            work.close()
            raise
        return thread.run(work)

    def ask(self, begin: Callable[[Callable[[T | BaseException], object]], object]) -> T:
        """Have something begun on the loop, and wait on this thread for what its callback gets."""
        return self._require_other().ask(begin)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and wait on this thread for what it returns or raises."""
        loop, done = self._require_other().loop, Future[T]()

        def call_there() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)

        loop.call_soon_threadsafe(call_there)
        return done.result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop; its future may be waited for on any thread but that."""
        try:
            thread = self._require_other()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, thread.loop)

    def call_soon(self, act: Callable[[], object]) -> None:
        """Have something done on the loop."""
        self._require().loop.call_soon_threadsafe(act)

    def give_back(self) -> None:
        """The loop is not needed here any more.  Giving it back twice is no error."""
        thread, self._thread = self._thread, None
        if thread is not None and self._born == generation():
            _leave(thread)

    def _require_other(self) -> LoopThread:
        thread = self._require()
        if thread.is_current:
            raise WrongState(
                self._what, "in use", "this thread serves it; use flintmq.aio or another thread"
            )
        return thread

    def _require(self) -> LoopThread:
        check_generation(self._born, self._what)
        if self._thread is None:
            raise WrongState(self._what, "stopped", "make a new one")
        return self._thread


_lock = threading.Lock()
_thread: LoopThread | None = None
_users = 0


def _share_thread() -> LoopThread:
    global _thread, _users  # noqa: PLW0603  # one for each process, and this is where it is kept
    with _lock:
        if _thread is None:
            _thread = LoopThread()
        _users += 1
        return _thread


def _leave(thread: LoopThread) -> None:
    global _thread, _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users:
            return
        _thread = None
    thread.end()


def _forget() -> None:
    """In a child: the thread is not there, and its lock may be held for ever."""
    global _lock, _thread, _users  # noqa: PLW0603
    _lock = threading.Lock()
    _thread = None
    _users = 0


in_every_child(_forget)
