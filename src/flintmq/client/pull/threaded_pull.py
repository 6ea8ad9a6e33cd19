"""Pulling consumers for programs without asyncio: `flintmq.PullConsumer`, `LitePullConsumer`.

    with LitePullConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", tags="paid")
        while messages := consumer.poll():
            ...

Every method may be called from any thread, and comes back when it is done.  Listeners on queues
run on threads of their own, one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, Unpack

from flintmq.client.engine.direct_line import DirectLine
from flintmq.client.engine.loop_thread import Lease
from flintmq.client.engine.setting_names import StartFrom, renamed
from flintmq.client.engine.threaded_face import ThreadedFace
from flintmq.client.pull import lite_pull_consumer as aio_lite
from flintmq.client.pull import pull_consumer as aio_pull
from flintmq.client.pull.lite_pull_consumer import POLL_MS
from flintmq.client.pull.pull_consumer import PULL_COUNT
from flintmq.client.pull.pull_settings import LitePullSettings, PullConsumerSettings
from flintmq.client.pull.queue_listeners import QueueListener
from flintmq.client.push.push_status import PullingStatus
from flintmq.core.pull.pull_result import PullResult
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef

if TYPE_CHECKING:
    import pyarrow as pa

PlainQueueListener: TypeAlias = Callable[[str, Sequence[QueueRef], Sequence[QueueRef]], object]


class PullConsumer(ThreadedFace[aio_pull.PullConsumer]):
    """Pulls when it is told to, from any thread."""

    _direct: DirectLine | None = None

    def __init__(self, group: str, **settings: Unpack[PullConsumerSettings]) -> None:
        super().__init__(aio_pull.PullConsumer(group, **settings))

    def _started(self, lease: Lease) -> None:
        self._direct = self._inner.direct_line(lease)

    def _stopping(self) -> None:
        if self._direct is not None:
            self._direct.close()

    def status(self) -> PullingStatus:
        """What each queue does and waits for."""
        return self._run(self._inner.status())

    @property
    def retry_topic(self) -> str:
        """The topic of messages that were sent back.  Nobody pulls it by itself."""
        return self._inner.retry_topic

    def queues(self, topic: str) -> list[QueueRef]:
        """All queues of a topic that may be read."""
        return self._run(self._inner.queues(topic))

    def share_topic(self, topic: str) -> None:
        """Share the queues of a topic with the group.  Before the start or after it."""
        self._do(lambda: self._inner.share_topic(topic))

    register = renamed("register", share_topic)

    def on_queues_changed(self, topic: str, listener: PlainQueueListener) -> None:
        """Share a topic; ``listener(topic, queues, own)`` is called when either changes."""
        self._do(lambda: self._inner.on_queues_changed(topic, _on_thread(listener)))

    listen = renamed("listen", on_queues_changed)

    def own_queues(self, topic: str) -> list[QueueRef]:
        """Our queues of a shared topic as far as they are known."""
        return self._do(lambda: self._inner.own_queues(topic))

    def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        tags: str | None = None,
        sql: str | None = None,
        count_max: int = PULL_COUNT,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """What the queue has from ``offset`` on; comes back at once when there is nothing.

        Brokers of RocketMQ give 32 messages at most; ours gives what is asked for.
        """
        runner, lease, direct = self._runner(), self._lease, self._direct
        if direct is not None and lease is not None:
            lease.require_other()
            result = self._inner.pull_past_loop(
                direct, queue, offset, tags, sql, count_max, timeout_ms
            )
            if result is not None:
                return result
        work = self._inner.pull(
            queue, offset, tags=tags, sql=sql, count_max=count_max, timeout_ms=timeout_ms
        )
        return runner.run(work) if direct is None else direct.by_loop(runner.run, work)

    def pull_blocking(
        self,
        queue: QueueRef,
        offset: int,
        *,
        tags: str | None = None,
        sql: str | None = None,
        count_max: int = PULL_COUNT,
    ) -> PullResult:
        """Pull, and let the broker hold the request up to ``hold_ms`` until a message comes."""
        return self._run(
            self._inner.pull_blocking(queue, offset, tags=tags, sql=sql, count_max=count_max)
        )

    def min_offset(self, queue: QueueRef) -> QueueOffset:
        """The oldest message that is kept."""
        return self._run(self._inner.min_offset(queue))

    def max_offset(self, queue: QueueRef) -> QueueOffset:
        """What the next message will get."""
        return self._run(self._inner.max_offset(queue))

    def offset_at(self, queue: QueueRef, time_ms: int) -> QueueOffset:
        """The first message stored at a time (ms since 1970) or after it."""
        return self._run(self._inner.offset_at(queue, time_ms))

    def committed(self, queue: QueueRef, *, from_store: bool = False) -> QueueOffset | None:
        """Where the group stands, None if nobody knows."""
        return self._run(self._inner.committed(queue, from_store=from_store))

    def start_offset(self, queue: QueueRef, start_from: StartFrom = "last") -> QueueOffset:
        """The group's offset, or where a group without one starts: as for push consumers."""
        return self._run(self._inner.start_offset(queue, start_from))

    def update_offset(self, queue: QueueRef, offset: int, *, increase_only: bool = False) -> None:
        """Remember how far the group is; it is stored within ``commit_interval_ms``."""
        self._call(lambda: self._inner.update_offset(queue, offset, increase_only=increase_only))

    update = renamed("update", update_offset)

    def commit(self, queue: QueueRef, offset: int) -> None:
        """Store how far the group is, and come back when it is stored."""
        self._run(self._inner.commit(queue, offset))

    def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have a message redelivered on the group's `retry_topic`."""
        self._run(self._inner.send_back(message, delay_level=delay_level))


class LitePullConsumer(ThreadedFace[aio_lite.LitePullConsumer]):
    """Hands out messages when asked, on any thread."""

    def __init__(self, group: str, **settings: Unpack[LitePullSettings]) -> None:
        super().__init__(aio_lite.LitePullConsumer(group, **settings))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(lambda: self._inner.__aexit__(kind, error, traceback))

    def status(self) -> PullingStatus:
        """What each queue does and waits for."""
        return self._run(self._inner.status())

    @property
    def retry_topic(self) -> str:
        """The topic of messages that were sent back; subscribe to it to get them."""
        return self._inner.retry_topic

    @property
    def assignment(self) -> frozenset[QueueRef]:
        """The queues it consumes now."""
        return self._do(lambda: self._inner.assignment)

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Take part in consuming a topic.  Again with another filter: the new one counts."""
        self._do(lambda: self._inner.subscribe(topic, tags=tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Give a topic up; what is cached of it is forgotten."""
        self._do(lambda: self._inner.unsubscribe(topic))

    def assign(
        self, queues: Iterable[QueueRef], *, tags: str | None = None, sql: str | None = None
    ) -> None:
        """Consume exactly these queues from now on; queues that stay go on where they are."""
        chosen = list(queues)
        self._do(lambda: self._inner.assign(chosen, tags=tags, sql=sql))

    def queues(self, topic: str) -> list[QueueRef]:
        """All queues of a topic that may be read."""
        return self._run(self._inner.queues(topic))

    def on_queues_changed(self, topic: str, listener: PlainQueueListener) -> None:
        """Have ``listener(topic, queues, own)`` called when either changes."""
        self._do(lambda: self._inner.on_queues_changed(topic, _on_thread(listener)))

    listen = renamed("listen", on_queues_changed)

    def poll(self, timeout_ms: int = POLL_MS) -> list[ReceivedMessage]:
        """The next messages of one queue, none when nothing comes in time."""
        runner, lease = self._runner(), self._lease
        if lease is not None:
            lease.require_other()
            found = self._inner.poll_past_loop(timeout_ms)
            if found is not None:
                return found
        return runner.run(self._inner.poll(timeout_ms))

    def poll_table(self, timeout_ms: int = POLL_MS) -> pa.Table:
        """The next messages of one queue as an Arrow table, without rows when nothing comes.

        It is one `poll`, with the same rules of commit.  It needs ``flintmq[arrow]``.
        """
        from flintmq.arrow import message_table

        return message_table(self.poll(timeout_ms))

    def pause(self, *queues: QueueRef) -> None:
        """Hand out and pull nothing of these queues, or of all, until they are resumed."""
        self._call(lambda: self._inner.pause(*queues))

    def resume(self, *queues: QueueRef) -> None:
        self._call(lambda: self._inner.resume(*queues))

    def seek(self, queue: QueueRef, offset: int) -> None:
        """Go on from ``offset``, which the queue must have or get next."""
        self._run(self._inner.seek(queue, offset))

    def seek_to_start(self, queue: QueueRef) -> None:
        """Go on from the oldest message that is kept."""
        self._run(self._inner.seek_to_start(queue))

    def seek_to_end(self, queue: QueueRef) -> None:
        """Go on from the next message that comes."""
        self._run(self._inner.seek_to_end(queue))

    def seek_to_time(self, queue: QueueRef, time_ms: int) -> None:
        """Go on from the first message stored at a time (ms since 1970) or after it."""
        self._run(self._inner.seek_to_time(queue, time_ms))

    def offset_at(self, queue: QueueRef, time_ms: int) -> QueueOffset:
        """The first message stored at a time or after it."""
        return self._run(self._inner.offset_at(queue, time_ms))

    def position(self, queue: QueueRef) -> QueueOffset | None:
        """Up to where messages were handed out; None while the start is not known."""
        return self._call(lambda: self._inner.position(queue))

    def committed(self, queue: QueueRef) -> QueueOffset | None:
        """Where the group stands, None if nobody knows."""
        return self._run(self._inner.committed(queue))

    def commit(
        self, offsets: Mapping[QueueRef, int] | None = None, *, persist: bool = True
    ) -> None:
        """Store these offsets, or that all that was handed out is done."""
        self._run(self._inner.commit(offsets, persist=persist))

    def send_back(self, message: ReceivedMessage, *, delay_level: int = 0) -> None:
        """Have a message redelivered on the group's `retry_topic`."""
        self._run(self._inner.send_back(message, delay_level=delay_level))


def _on_thread(listener: PlainQueueListener) -> QueueListener:
    """A listener that may take its time, and may call the consumer it listens to."""

    async def call(topic: str, queues: Sequence[QueueRef], own: Sequence[QueueRef]) -> None:
        await asyncio.to_thread(listener, topic, queues, own)

    return call
