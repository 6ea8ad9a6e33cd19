"""A producer that also sends batches that are laid out already: for the Spark sink.

The sink makes the entries of a batch column by column, without a `Message` for each row.  It needs
two things for that: message ids, and one entry as this producer writes it, to make the others like
it.  What is sent so is seen by no hook.

Invariant: `entry_of` is what `send_batch` would send for the same message.
"""

from __future__ import annotations

from flintmq.client.producer import producer as aio
from flintmq.client.producer.producer_settings import SEND_MS, ProducerSettings
from flintmq.client.producer.threaded_producer import Producer
from flintmq.core.producer.send_draft import draft_entries
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef


class _Packing(aio.Producer):
    """The part on asyncio."""

    def ids(self, count: int) -> list[str]:
        return self._ids.make_many(self._engine.wall(), count)

    def entry_of(self, message: Message) -> tuple[bytes, str]:
        (draft,) = self._draft_all([message])
        return draft.body, draft.message_id

    async def send_entries(
        self, topic: str, entries: bytes, count: int, timeout_ms: int, queue: QueueRef | None
    ) -> None:
        self._engine.life.require_running()
        wire_topic = self._engine.wire_name(topic)
        draft = draft_entries(wire_topic, entries, count, now_ms=self._engine.wall())
        await self._route_wait(timeout_ms).publish_queues(wire_topic)
        await self._engine.hold(self._send_all((), [draft], timeout_ms, queue))


class PackingProducer(Producer):
    """Sends batches from any thread, also those that are laid out already."""

    _inner: _Packing

    def _make(self, group: str, settings: ProducerSettings) -> aio.Producer:
        return _Packing(group, **settings)

    def ids(self, count: int) -> list[str]:
        """New message ids."""
        return self._inner.ids(count)

    def entry_of(self, message: Message) -> tuple[bytes, str]:
        """A message as an entry of a batch, and the message id in it."""
        return self._inner.entry_of(message)

    def send_entries(
        self,
        topic: str,
        entries: bytes,
        count: int,
        *,
        timeout_ms: int = SEND_MS,
        queue: QueueRef | None = None,
    ) -> None:
        """Send one batch of ``count`` entries, and wait until it is stored."""
        self._require().run(self._inner.send_entries(topic, entries, count, timeout_ms, queue))
