"""`flintmq.App`: the declarations of `core.group.app`, and the ways to run them without Spark.

    app.run()               on threads, until a signal comes or `stop` is called
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
from collections.abc import Callable
from contextlib import nullcontext
from types import TracebackType
from typing import Self, TypeAlias, TypeVar, Unpack

from flintmq.client.engine.setting_names import in_own_names
from flintmq.client.push import push_consumer as aio
from flintmq.client.push import threaded_push
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_settings import RENAMED, PushSettings, read_settings
from flintmq.client.push.push_status import ListenerStatus
from flintmq.client.stop_signals import StopSignals
from flintmq.core.group import app as core
from flintmq.errors import InvalidSetting, WrongState

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
    ) -> list[ListenerStatus]:
        """Consume until a signal comes, `stop` is called or the thread is interrupted.

        ``signals``: handle SIGTERM and SIGINT while it runs; only the main thread can.  The stop
        waits ``stop_timeout_s`` for listeners, commits, unlocks and leaves the group.  Gives the
        listeners that still ran when that time was up; their messages are redelivered.
        """
        self._told_to_stop.clear()
        consumer = self.consumer()
        with StopSignals(self._signalled) if signals else nullcontext():
            try:
                self._is_starting = True
                consumer.start()
                self._is_starting = False
                if on_ready is not None:
                    on_ready(consumer)
                self._told_to_stop.wait()
            except KeyboardInterrupt:
                pass
            finally:
                self._is_starting = False
                left = consumer.stop(stop_timeout_s)
        return left

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
