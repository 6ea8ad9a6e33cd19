"""Carries out the actions of a machine, and calls the machine when it is due.

                      ┌───────────── the machine ◄────────────┐
                   actions                                 events
                      ▼                                       │
    handlers by type: calls to brokers, reports, the timer ───┘

Everything happens on the loop of the engine and nothing waits there.  A call runs as a task, and
its end is an event: ``good`` with the answer or ``bad`` with the reason.  An exception that is
not ours is logged and reported as a failure, so that a bug does not hold a queue for ever.

Invariant: every call is reported once, unless the driver is closed meanwhile; a closed driver
carries out nothing and has no timer.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.timing import Timer
from flintmq.core.group.actions import ReportEvent
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import FlintError, LocalProtocolError
from flintmq.logs import logger
from flintmq.model.queue import QueueRef

log = logger(__name__)

A = TypeVar("A")
T = TypeVar("T")
Actions: TypeAlias = Iterable[object]

AFTER_BUG_MS: Final = 1_000
"""How long the timer rests after a bug of ours, instead of failing again at once."""


class MachineDriver(ABC):
    """The driver of one machine.  ``name`` is for logs.

    It carries actions out while ``is_open`` is true, from the beginning unless a subclass waits.
    """

    def __init__(self, engine: ClientEngine, name: str) -> None:
        self.is_open = True
        self._engine = engine
        self._clock = engine.clock
        self._name = name
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_waking = False
        self._answered: QueueRef | None = None  # the queue whose pull was answered just now
        self._next_pull: Pull | None = None
        self._handlers: dict[type[object], Callable[[Any], object]] = {ReportEvent: self._report}

    @abstractmethod
    def tick(self, now_ms: int) -> Actions:
        """Have the machine do what is due."""

    @abstractmethod
    def next_due_ms(self) -> int | None:
        """When to call `tick`; None is never."""

    def flush(self) -> None:  # noqa: B027  # most drivers collect nothing
        """An event is carried out: do what its handlers only collected."""

    def begin(self, action: object, work: Coroutine[Any, Any, None]) -> None:
        """Run a call in a task.  A stop waits for it, unless it is a pull."""
        task = self._engine.spawn(work, type(action).__name__)
        if not isinstance(action, Pull):
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    # Handlers

    def on(self, kind: type[A], handler: Callable[[A], object]) -> None:
        """Have ``handler`` called for each action of a type."""
        self._handlers[kind] = handler

    def on_call(
        self,
        kind: type[A],
        call: Callable[[A], Awaitable[T]],
        good: Callable[[A, T, int], Actions],
        bad: Callable[[A, str, int], Actions],
    ) -> Callable[[A], None]:
        """Have a call made for each action of a type, and its end reported; the handler."""

        async def make(action: A) -> None:
            try:
                answer = await call(action)
            except Exception as error:  # a bug of ours must not hold a queue up for ever
                self.event(bad(action, str(known_error(error)), self._clock()))
            else:
                self.event(good(action, answer, self._clock()))

        def handler(action: A) -> None:
            self.begin(action, make(action))

        self._handlers[kind] = handler
        return handler

    def on_done(
        self,
        kind: type[A],
        call: Callable[[A], Awaitable[None]],
        good: Callable[[A, int], Actions],
        bad: Callable[[A, str, int], Actions],
    ) -> Callable[[A], None]:
        """`on_call` for a call without an answer."""
        return self.on_call(kind, call, lambda action, _, now_ms: good(action, now_ms), bad)

    def on_pull(self, pull_once: Callable[[Pull], Awaitable[Actions]]) -> None:
        """Have pulls made by ``pull_once``: a pull that follows from an answer in the same task."""

        async def pull_on(pull: Pull) -> None:
            following: Pull | None = pull
            while following is not None:
                actions = await pull_once(following)
                self._answered, self._next_pull = following.queue, None
                try:
                    self.event(actions)
                finally:
                    self._answered = None
                following = self._next_pull

        def start(pull: Pull) -> None:
            if pull.queue is self._answered:
                self._answered, self._next_pull = None, pull
            else:
                self.begin(pull, pull_on(pull))

        self._handlers[Pull] = start

    def _report(self, report: ReportEvent) -> None:
        self._engine.events.add(report.kind, report.subject, report.text, report.level)

    # Events

    def event(self, actions: Actions) -> None:
        """Something happened to the machine: carry out the actions that follow."""
        if not self.is_open:
            return
        handlers = self._handlers
        for action in actions:
            handlers[type(action)](action)
        self.flush()
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._arm)

    def calls_of(self, actions: Actions) -> set[asyncio.Task[None]]:
        """Carry out actions; the calls that began."""
        before = set(self._calls)
        self.event(actions)
        return self._calls - before

    def close(self) -> None:
        """Carry out nothing from now on."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # The timer

    def _arm(self) -> None:
        self._is_waking = False
        if not self.is_open:
            return
        due_ms = self.next_due_ms()
        if self._timer is not None:
            if self._timer_ms == due_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            self._timer_ms = due_ms
            wait_ms = max(0, due_ms - self._clock())
            self._timer = self._engine.timing.call_later(wait_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._engine.life.is_running:
            return
        try:
            self.event(self.tick(self._clock()))
        except Exception:  # a bug of ours must not stop the timer
            log.exception("the timer of %s", self._name)
            self._timer_ms = 0
            self._timer = self._engine.timing.call_later(AFTER_BUG_MS, self._on_timer)


def known_error(error: Exception) -> FlintError:
    """Any error as one of ours; a bug is logged as one."""
    if isinstance(error, FlintError):
        return error
    log.error("a call of the consumer failed", exc_info=error)
    return LocalProtocolError(f"{type(error).__name__}: {error}")
