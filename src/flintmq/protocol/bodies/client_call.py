"""Bodies of calls that a broker or an admin makes to a client.

GET_CONSUMER_RUNNING_INFO (307) asks a consumer for its state.  CONSUME_MESSAGE_DIRECTLY (309) has
one message consumed and says what the listener returned.  RESET_CONSUMER_CLIENT_OFFSET (220) and
INVOKE_BROKER_TO_RESET_OFFSET (222) move offsets from outside; GET_CONSUMER_STATUS_FROM_CLIENT (221)
and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) ask for them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from flintmq.model.queue import QueueRef
from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import Body, custom, wire_fields
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.common_bodies import PopQueueField, QueueField, read_queue
from flintmq.protocol.fields import Int32, Int64

NAME_SERVERS = "PROP_NAMESERVER_ADDR"
THREADS = "PROP_THREADPOOL_CORE_SIZE"
CONSUME_ORDERLY = "PROP_CONSUMEORDERLY"
START_TIMESTAMP = "PROP_CONSUMER_START_TIMESTAMP"
CONSUME_TYPE = "PROP_CONSUME_TYPE"
CLIENT_VERSION = "PROP_CLIENT_VERSION"
"""The properties that admin tools look for; all others are settings of the consumer."""


def queue_note(queue: QueueRef) -> str:
    """The key under which a member of ours tells what a queue of it waits for."""
    return f"queue {queue}"


class QueueState(Body, frozen=True, kw_only=True):
    """What was delivered from one queue and is not settled."""

    cached_msg_count: Int32 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_size_in_mib: Int32 = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    commit_offset: Int64 = 0
    dropped: bool = msgspec.field(name="droped", default=False)
    last_consume_timestamp: Int64 = 0
    last_lock_timestamp: Int64 = 0
    last_pull_timestamp: Int64 = 0
    locked: bool = False
    transaction_msg_count: Int32 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_min_offset: Int64 = 0
    try_unlock_times: Int64 = 0


class PopQueueState(Body, frozen=True, kw_only=True):
    """The state of one queue of a pop consumer."""

    dropped: bool = msgspec.field(name="droped", default=False)
    last_pop_timestamp: Int64 = 0
    wait_ack_count: Int32 = 0


class ConsumeRates(Body, frozen=True, kw_only=True):
    """How fast one topic is pulled and consumed."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)


class RunningConsumer(Body, frozen=True, kw_only=True):
    """Settings, queues and rates of one member.  ``mq_pop_table`` is of 5.x."""

    jstack: str | None = None
    mq_pop_table: dict[PopQueueField, PopQueueState] | None = None
    mq_table: dict[QueueField, QueueState] = {}
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeRates] = {}
    subscription_set: tuple[Subscription, ...] = ()
    user_consumer_info: dict[str, str] | None = None


class DirectOutcome(StrEnum):
    """How the listener ended."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THREW = "CR_THROW_EXCEPTION"
    RETURNED_NULL = "CR_RETURN_NULL"


class DirectResult(Body, frozen=True, kw_only=True):
    """``remark`` holds the exception, if there was one."""

    auto_commit: bool = True
    consume_result: DirectOutcome | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Int64 = 0


class _ListedOffset(Body, frozen=True, kw_only=True):
    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class _OffsetList(Body, frozen=True, kw_only=True):
    offset_table: tuple[_ListedOffset, ...]


def _read_offsets(value: Any) -> dict[QueueRef, int]:
    if isinstance(value, list):
        listed = msgspec.convert(value, list[_ListedOffset], strict=False)
        return {QueueRef(at.topic, at.broker_name, at.queue_id): at.offset for at in listed}
    table = msgspec.convert(value, dict[str, Int64], strict=False)
    return {read_queue(key): offset for key, offset in table.items()}


if TYPE_CHECKING:
    OffsetsField: TypeAlias = dict[QueueRef, int]
else:
    OffsetsField = custom(_read_offsets)


class ResetOffsets(Body, frozen=True, kw_only=True):
    """New offsets by queue.  C++ clients cannot read objects as keys: they get a list."""

    offset_table: OffsetsField = {}

    def to_list_body(self) -> bytes:
        """The list form for C++.  `from_body` reads either."""
        listed = tuple(
            _ListedOffset(
                broker_name=queue.broker, offset=offset, queue_id=queue.queue_id, topic=queue.topic
            )
            for queue, offset in self.offset_table.items()
        )
        return fastjson.write(_OffsetList(offset_table=listed), wire_fields)


class ConsumerStatusTable(Body, frozen=True, kw_only=True):
    """Answer to 221 (``message_queue_table`` alone) and to 223 (a table for each client)."""

    consumer_table: dict[str, dict[QueueField, Int64]] | None = None
    message_queue_table: dict[QueueField, Int64] = {}
