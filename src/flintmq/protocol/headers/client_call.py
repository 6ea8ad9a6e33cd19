"""What a broker asks of its clients, and what an admin asks a broker to ask them."""

from __future__ import annotations

from flintmq.protocol.fields import Header, Int32, Int64
from flintmq.protocol.headers.common_headers import OfGroupAndTopic


class ResetOffset(Header, frozen=True, kw_only=True):
    """220 RESET_CONSUMER_CLIENT_OFFSET and 222 INVOKE_BROKER_TO_RESET_OFFSET.

    5.x: one queue, where -1 is all of them, to one offset, where -1 is by time.
    """

    group: str
    topic: str
    queue_id: Int32 | None = None
    offset: Int64 | None = None
    timestamp: Int64
    is_force: bool


class ConsumerStatusRequest(OfGroupAndTopic, frozen=True, kw_only=True):
    """221 GET_CONSUMER_STATUS_FROM_CLIENT and 223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    client_addr: str | None = None


class DescribeConsumer(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO (307)."""

    consumer_group: str
    client_id: str
    jstack_enable: bool


class ConsumeDirectly(Header, frozen=True, kw_only=True):
    """309 CONSUME_MESSAGE_DIRECTLY; any client of the group unless one is named."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
