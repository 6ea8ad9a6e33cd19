"""QUERY_CONSUME_QUEUE (321): a look into the index of one queue."""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.subscription import Subscription
from flintmq.protocol.fields import Int32, Int64


class QueueUnit(Body, frozen=True, kw_only=True):
    """One entry: where the record lies, its tag code, and whether the group's filter takes it."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0


class QueuePage(Body, frozen=True, kw_only=True):
    """Some entries, and where the queue begins and ends."""

    filter_data: str | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: tuple[QueueUnit, ...] | None = None
    subscription_data: Subscription | None = None
