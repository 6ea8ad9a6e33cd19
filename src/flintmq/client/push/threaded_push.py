"""The push consumer for programs without asyncio: `flintmq.PushConsumer`.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")

    @consumer.listener("orders", tags="paid || refunded", batch_max=32)
    def bill(messages): ...

    with consumer:
        wait_until_told()

Every method may be called from any thread, a listener's included; only `stop` must not be called
by a listener, which it would wait for.  A plain listener runs in a thread of the pool; an
``async def`` one runs on the thread that serves all clients of the process and must not block it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self, TypeVar, Unpack, overload

from flintmq.client.engine.setting_names import renamed
from flintmq.client.engine.threaded_face import ThreadedFace
from flintmq.client.push import push_consumer as aio
from flintmq.client.push.listeners import Listener
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_settings import PushConfig, PushSettings
from flintmq.client.push.push_status import ConsumerStatus, ListenerStatus
from flintmq.errors import InvalidSetting
from flintmq.filter.tags import ALL
from flintmq.model.queue import QueueRef

L = TypeVar("L", bound=Listener)


class PushConsumer(ThreadedFace[aio.PushConsumer]):
    """Consumes topics as a member of a group, in threads."""

    def __init__(
        self, group: str, listener: Listener | None = None, **settings: Unpack[PushSettings]
    ) -> None:
        super().__init__(aio.PushConsumer(group, listener, **settings))

    # Before the start

    def subscribe(
        self,
        topic: str,
        *,
        tags: str = ALL,
        sql: str | None = None,
        listener: Listener | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
    ) -> Self:
        """Consume a topic, by tags as ``a || b`` or by an SQL92 expression."""
        self._inner.subscribe(
            topic, tags=tags, sql=sql, listener=listener, batch_max=batch_max, ordered=ordered
        )
        return self

    @overload
    def listener(self, topic: L, /) -> L: ...

    @overload
    def listener(
        self,
        topic: str,
        /,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
    ) -> Callable[[L], L]: ...

    def listener(
        self,
        topic: str | L,
        /,
        *,
        tags: str = ALL,
        sql: str | None = None,
        batch_max: int | None = None,
        ordered: bool | None = None,
    ) -> L | Callable[[L], L]:
        """A decorator.  With a topic it subscribes to it; bare it is for all topics without one."""
        if not isinstance(topic, str):
            return self._inner.listener(topic)
        return self._inner.listener(topic, tags=tags, sql=sql, batch_max=batch_max, ordered=ordered)

    # Life

    @property
    def config(self) -> PushConfig:
        return self._inner.config

    def start(self) -> Self:
        """Join the group.  A start that fails leaves nothing behind and may be tried again."""
        if not self._inner.has_listeners:
            raise InvalidSetting("listener", "", "a consumer in threads needs one")
        return super().start()

    def stop(self, timeout_s: float = STOP_S) -> list[ListenerStatus]:
        """Leave the group; what still runs when the time is up comes back, and is left alone."""
        return self._end(lambda: self._inner.stop(timeout_s))

    # While it runs

    def pause(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Pull no more, all queues or these; what was pulled is still consumed."""
        self._run(self._inner.pause(queues))

    def resume(self, queues: Iterable[QueueRef] | None = None) -> None:
        """Pull again, all queues or these."""
        self._run(self._inner.resume(queues))

    def status(self) -> ConsumerStatus:
        """What each queue does and waits for, and what listeners are at."""
        return self._run(self._inner.status())

    def queues(self) -> list[QueueRef]:
        """The queues this member has now, by the names the program knows."""
        return self._run(self._inner.queues())

    def resize_pool(self, threads_max: int, threads_min: int | None = None) -> None:
        """Change how many listeners run at once, from now on."""
        self._run(self._inner.resize_pool(threads_max, threads_min))

    resize = renamed("resize", resize_pool)
