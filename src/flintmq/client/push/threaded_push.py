"""The push consumer for programs without asyncio: `flintmq.PushConsumer`.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")

    @consumer.listener("orders", tags="paid || refunded", batch_max=32)
    def bill(messages): ...

    with consumer:
        wait_until_told()

Without any listener the messages are for ``for message in consumer``.  Each is consumed when the
loop asks for the next.  An exception that leaves the ``with`` block sends the current one back: it
is redelivered later.  ``break`` leaves it as it is: a loop that is begun anew gets it again, and so
does another member of the group once this one has stopped.  `stop` ends every loop.  Messages wait
in the consumer as for a listener, limited by ``queue_count_max`` and ``queue_mib_max``.

    with PushConsumer("billing", namesrv="127.0.0.1:9876").subscribe("orders") as consumer:
        for message in consumer:
            bill(message)

Every method may be called from any thread, a listener's included; only `stop` must not be called
by a listener, which it would wait for.  A plain listener runs in a thread of the pool; an
``async def`` one runs on the thread that serves all clients of the process and must not block it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack, overload

from flintmq.client.engine.lifecycle import State
from flintmq.client.engine.loop_thread import Lease
from flintmq.client.engine.setting_names import renamed
from flintmq.client.engine.threaded_face import ThreadedFace
from flintmq.client.push import push_consumer as aio
from flintmq.client.push.message_iterator import ThreadedIteration
from flintmq.client.push.push_consumer import STOP_S
from flintmq.client.push.push_settings import PushConfig, PushSettings
from flintmq.client.push.push_status import ConsumerStatus, ListenerStatus
from flintmq.core.group.listener_results import Listener
from flintmq.filter.tags import ALL
from flintmq.logs import logger
from flintmq.model.queue import QueueRef

log = logger(__name__)

L = TypeVar("L", bound=Listener)

UNHEARD_S: Final = 30.0
"""A consumer without listeners that no loop asks for messages so long has been forgotten."""


class PushConsumer(ThreadedFace[aio.PushConsumer]):
    """Consumes topics as a member of a group, in threads."""

    _is_iterated = False

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

    def __iter__(self) -> ThreadedIteration:
        """The messages, one by one, for a consumer without listeners; several threads may."""
        lease = self._require()
        self._is_iterated = True
        return ThreadedIteration(self._inner.inbox, lease)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(lambda: self._inner.__aexit__(kind, error, traceback))

    def _started(self, lease: Lease) -> None:
        if not self._inner.has_listeners:
            loop = lease.loop
            lease.call_soon(lambda: loop.call_later(UNHEARD_S, self._warn_if_unheard))

    def _warn_if_unheard(self) -> None:
        if not self._is_iterated and self.state is State.RUNNING:
            log.warning("%s has no listener, and no loop asks for its messages", self._what)

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
