"""`flintmq.App`: the declarations of `core.group.app`, and the ways to run them without Spark.

    app.run()               on threads, until a signal comes or `stop` is called
    app.run(processes=4)    the same in four processes, each a member of the group
    await app.run_async()   the same on the loop of the program
    async with app: ...     on the loop, for a program that knows when it ends

    SIGTERM, SIGINT or `stop` ──► no more pulls ──► listeners end ──► commit, unlock, leave ──► back
                                                      └─ time is up: they are returned by name

`run` and `run_async` handle the two signals while they run, in the main thread; a second signal
ends the process at once.  With ``signals=False`` they leave them alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, Unpack

from flintmq.client.engine.setting_names import in_own_names
from flintmq.client.member_processes import MemberProcesses, follow, tell_status
from flintmq.client.push import push_consumer as aio
from flintmq.client.push import threaded_push
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_settings import RENAMED, PushSettings, read_settings
from flintmq.client.push.push_status import ConsumerStatus, ListenerStatus
from flintmq.client.stop_signals import StopSignals
from flintmq.core.group import app as core
from flintmq.errors import FlintError, InvalidSetting, WrongState

C = TypeVar("C", aio.PushConsumer, threaded_push.PushConsumer)
OnReady: TypeAlias = Callable[[threaded_push.PushConsumer], object]
OnReadyAsync: TypeAlias = Callable[[aio.PushConsumer], object]


class App(core.App):
    """An application that runs by itself."""

    def __init__(self, group: str, **settings: Unpack[PushSettings]) -> None:
        super().__init__(group, **settings)
        self._told_to_stop = threading.Event()
        self._is_starting = False
        self._wake_loop: Callable[[], object] | None = None
        self._on_loop: aio.PushConsumer | None = None
        self._running: threaded_push.PushConsumer | MemberProcesses | None = None

    def use(  # type: ignore[override]  # narrower: the settings are typed here
        self, **settings: Unpack[PushSettings]
    ) -> None:
        """Set or change settings, as whoever runs the app knows better.

        They are checked at once: `InvalidSetting` names a wrong one and what was probably meant.
        """
        given = in_own_names(settings, RENAMED)
        read_settings(self.group, {**self._settings, **given})
        super().use(**given)

    def consumer(self) -> threaded_push.PushConsumer:
        """A consumer, not started, with the listeners of the app; for programs with threads."""
        return _subscribed(self, threaded_push.PushConsumer(self.group, **self._settings))

    def run(
        self,
        *,
        stop_timeout_s: float = STOP_S,
        on_ready: OnReady | None = None,
        signals: bool = True,
        processes: int = 1,
    ) -> list[ListenerStatus]:
        """Consume until a signal comes, `stop` is called or the thread is interrupted.

        ``signals``: handle SIGTERM and SIGINT while it runs; only the main thread can.  The stop
        waits ``stop_timeout_s`` for listeners, commits, unlocks and leaves the group.  Gives the
        listeners that still ran when that time was up; their messages are redelivered.

        ``processes``: so many members of the group, each in a process of its own, for listeners
        that compute.  They are spawned and import the program, so call it below
        ``if __name__ == "__main__":``.  One that ends by itself stops the others, and why it did
        is raised.
        """
        self._told_to_stop.clear()
        if processes != 1:
            return self._run_processes(processes, stop_timeout_s, on_ready, signals=signals)
        consumer = self.consumer()
        with StopSignals(self._signalled) if signals else nullcontext():
            try:
                self._is_starting = True
                consumer.start()
                self._is_starting = False
                self._running = consumer
                if on_ready is not None:
                    on_ready(consumer)
                self._told_to_stop.wait()
            except KeyboardInterrupt:
                pass
            finally:
                self._is_starting = False
                self._running = None
                left = consumer.stop(stop_timeout_s)
        return left

    def _run_processes(
        self, count: int, stop_timeout_s: float, on_ready: OnReady | None, *, signals: bool
    ) -> list[ListenerStatus]:
        if on_ready is not None:
            reason = "with processes there is no consumer here; status() asks theirs"
            raise InvalidSetting("on_ready", repr(on_ready), reason)
        _subscribed(self, threaded_push.PushConsumer(self.group, **self._settings))  # checks it
        told = {
            "group": self.group,
            "settings": self._settings,
            "listeners": self.listeners,
            "stop_timeout_s": stop_timeout_s,
        }
        self._running = members = MemberProcesses(_run_member, told, count)
        with StopSignals(self.stop) if signals else nullcontext():
            try:
                return members.run(self._told_to_stop, stop_timeout_s)
            except KeyboardInterrupt:
                return []
            finally:
                self._running = None

    def status(self) -> list[ConsumerStatus]:
        """What `run` does now: the status of its consumer, or of that of each process.

        Any thread may ask.  A process that does not answer within five seconds is left out.
        """
        running = self._running
        if running is None:
            return []
        return running.status() if isinstance(running, MemberProcesses) else [running.status()]

    async def run_async(
        self,
        *,
        stop_timeout_s: float = STOP_S,
        on_ready: OnReadyAsync | None = None,
        signals: bool = True,
    ) -> list[ListenerStatus]:
        """`run` on the loop that is running: ``asyncio.run(app.run_async())``.

        A task that is cancelled stops in the same way.
        """
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        consumer = _subscribed(self, aio.PushConsumer(self.group, **self._settings))
        self._wake_loop = lambda: loop.call_soon_threadsafe(told.set)
        with StopSignals(self.stop) if signals else nullcontext():
            try:
                if await _started(consumer, told):
                    if on_ready is not None:
                        on_ready(consumer)
                    await told.wait()
            finally:
                self._wake_loop = None
                left = await consumer.stop(stop_timeout_s)
        return left

    def stop(self) -> None:
        """Let `run` or `run_async` come to its end.  Any thread may call it, a listener's too."""
        self._told_to_stop.set()
        wake = self._wake_loop
        if wake is not None:
            wake()

    def _signalled(self) -> None:
        """A signal came: a start that still waits for something is given up."""
        self.stop()
        if self._is_starting:
            raise KeyboardInterrupt

    async def __aenter__(self) -> Self:
        if self._on_loop is not None:
            raise WrongState(repr(self), "running", "it is run here already")
        consumer = _subscribed(self, aio.PushConsumer(self.group, **self._settings))
        await consumer.start()
        self._on_loop = consumer
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        consumer, self._on_loop = self._on_loop, None
        if consumer is not None:
            await consumer.stop()


def _run_member(words: Connection, figures: Connection, told: Mapping[str, Any]) -> None:
    """In a process of its own: one member of the group, until the parent says stop."""
    app = App(told["group"], **told["settings"])
    for each in told["listeners"]:
        wanted = each.subscription
        app.listener(
            wanted.topic,
            tags=wanted.tags,
            sql=wanted.sql,
            batch_max=wanted.batch_max,
            ordered=wanted.ordered,
        )(each.function)
    follow(words, app.stop)
    tell_status(figures, lambda: next(iter(app.status()), None))
    try:
        words.send(app.run(stop_timeout_s=told["stop_timeout_s"]))
    except FlintError as error:
        words.send(error)


async def _started(consumer: aio.PushConsumer, told: asyncio.Event) -> bool:
    """Start a consumer; False if `stop` was called before it was started."""
    start = asyncio.ensure_future(consumer.start())
    stop = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait([start, stop], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        if not start.done():
            start.cancel()
            await asyncio.wait([start])
    if start.cancelled():
        return False
    start.result()
    return True


def _subscribed(app: core.App, consumer: C) -> C:
    if not app.listeners:
        raise InvalidSetting("app", repr(app), "it has no listeners")
    for each in app.listeners:
        wanted = each.subscription
        if each.as_table:
            reason = "a listener that takes tables runs on Spark; here it gets messages"
            raise InvalidSetting("as_table", wanted.topic, reason)
        consumer.subscribe(
            wanted.topic,
            tags=wanted.tags,
            sql=wanted.sql,
            listener=each.function,
            batch_max=wanted.batch_max,
            ordered=wanted.ordered,
        )
    return consumer
