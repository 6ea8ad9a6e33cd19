"""`flintmq.App`: the declarations of `core.group.app`, and two ways to run them without Spark.

    app.run()               on threads, until the program is interrupted or `stop` is called
    async with app: ...     on the loop of the program

The library installs no signal handlers: `run` ends by Ctrl-C, as any blocking call does;
`flintmq run` is the program that listens to signals.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from flintmq.client.push import push_consumer as aio
from flintmq.client.push import threaded_push
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_status import ListenerStatus
from flintmq.core.group import app as core
from flintmq.errors import InvalidSetting, WrongState

C = TypeVar("C", aio.PushConsumer, threaded_push.PushConsumer)
OnReady: TypeAlias = Callable[[threaded_push.PushConsumer], object]


class App(core.App):
    """An application that runs by itself."""

    def __init__(self, group: str, *, namesrv: str | None = None, **settings: Any) -> None:
        super().__init__(group, namesrv=namesrv, **settings)
        self._told_to_stop = threading.Event()
        self._on_loop: aio.PushConsumer | None = None

    def consumer(self) -> threaded_push.PushConsumer:
        """A consumer, not started, with the listeners of the app; for programs with threads."""
        return _subscribed(self, threaded_push.PushConsumer(self.group, **self._settings))

    def run(
        self, *, stop_timeout_s: float = STOP_S, on_ready: OnReady | None = None
    ) -> list[ListenerStatus]:
        """Consume until `stop` is called or the thread is interrupted.

        Gives the listeners that still ran when the time for stopping was up.
        """
        self._told_to_stop.clear()
        consumer = self.consumer().start()
        try:
            if on_ready is not None:
                on_ready(consumer)
            self._told_to_stop.wait()
        except KeyboardInterrupt:
            pass
        finally:
            left = consumer.stop(stop_timeout_s)
        return left

    def stop(self) -> None:
        """Let `run` come to its end.  Any thread may call it, a listener's included."""
        self._told_to_stop.set()

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
