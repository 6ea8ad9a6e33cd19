"""A queue as bodies spell it: ``{"brokerName":"broker-a","queueId":0,"topic":"T"}``.

The same object also stands as the key of a map.  Bodies hold a `QueueRef` of the model; the
wire spelling ends here.  Pop consumers alone name "any queue of this broker", with the id -1,
which is no queue: for them there is `PopQueue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.body import Body, custom
from flintmq.protocol.fields import Int32

ANY_QUEUE_ID = -1
"""What pop consumers say instead of a queue id."""


class PopQueue(Body, frozen=True, kw_only=True):
    """A queue, or every queue of a topic on one broker."""

    broker_name: str
    queue_id: Int32
    topic: str


_queue_text = msgspec.json.Decoder(PopQueue, strict=False)


def _read_pop_queue(value: Any) -> PopQueue:
    if isinstance(value, str):
        return _queue_text.decode(value)
    return msgspec.convert(value, PopQueue, strict=False)


def read_queue(value: Any) -> QueueRef:
    """A queue from decoded JSON, or from the text of a key.  Raises `ValueError`."""
    queue = _read_pop_queue(value)
    return QueueRef(queue.topic, queue.broker_name, queue.queue_id)


if TYPE_CHECKING:
    QueueField: TypeAlias = QueueRef
    PopQueueField: TypeAlias = PopQueue
else:
    QueueField = custom(read_queue)
    PopQueueField = custom(_read_pop_queue)
