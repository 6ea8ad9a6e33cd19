"""GET_CONSUMER_RUNNING_INFO (307): a consumer tells how it is doing."""

from __future__ import annotations

import msgspec

from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.queue import PopQueueField, QueueField
from flintmq.protocol.bodies.subscription import Subscription
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
    """The same for pop consumers, who have less to tell."""

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
