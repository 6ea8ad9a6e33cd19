"""Parts that several bodies share: queues, versions of tables, tables of text, consume modes.

A queue is written ``{"brokerName":"broker-a","queueId":0,"topic":"T"}``, also as the key of a map.
Bodies hold a `QueueRef` of the model; the wire spelling ends here.  Pop consumers alone name "any
queue of this broker", with the id -1, which is no queue: for them there is `PopQueue`.

`DataVersion` says which state of a table a broker has.  `KvTable` is a table of text in a body
(GET_BROKER_RUNTIME_INFO 28, REGISTER_BROKER 103, GET_KVLIST_BY_NAMESPACE 219), `KvConfig` the file
kvConfig.json.

Enums that say how a group consumes are read by name or by number: Java writes the name, the C++
client the ordinal, and fastjson reads either, whatever the case of the name.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.body import Body, RequestBody, custom
from flintmq.protocol.fields import Int32, Int64

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


class DataVersion(RequestBody, frozen=True, kw_only=True):
    """A counter and the time of the last change.  4.9 knows no ``state_version``."""

    counter: Int64 = 0
    state_version: Int64 | None = None
    timestamp: Int64 = 0

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(
            counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms
        )

    def is_older_than(self, other: DataVersion) -> bool:
        """Whether the other one was made later.  A missing ``state_version`` counts as 0."""
        mine = self.state_version or 0, self.timestamp, self.counter
        return mine < (other.state_version or 0, other.timestamp, other.counter)

    def matches(self, other: DataVersion) -> bool:
        """Whether both mean the same state.  A missing ``state_version`` counts as 0."""
        return (
            self.counter == other.counter
            and self.timestamp == other.timestamp
            and (self.state_version or 0) == (other.state_version or 0)
        )


ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Where a name server keeps the fixed queues of ordered topics."""


class KvTable(Body, frozen=True, kw_only=True):
    table: dict[str, str] = {}


class KvConfig(Body, frozen=True, kw_only=True):
    """The settings kept by a name server, by namespace and key."""

    config_table: dict[str, dict[str, str]] = {}


E = TypeVar("E", bound=StrEnum)


def _by_name_or_ordinal(kind: type[E]) -> Callable[[Any], E]:
    members = list(kind)

    def read(value: Any) -> E:
        if isinstance(value, str):
            return kind(value.upper())
        if isinstance(value, int) and 0 <= value < len(members):
            return members[value]
        raise ValueError(f"no {kind.__name__} is {value!r:.40}")

    return read


if TYPE_CHECKING:
    ConsumeTypeField: TypeAlias = ConsumeType
    MessageModelField: TypeAlias = MessageModel
    ConsumeFromWhereField: TypeAlias = ConsumeFromWhere
else:
    ConsumeTypeField = custom(_by_name_or_ordinal(ConsumeType))
    MessageModelField = custom(_by_name_or_ordinal(MessageModel))
    ConsumeFromWhereField = custom(_by_name_or_ordinal(ConsumeFromWhere))
