"""LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): which member has a queue to itself."""

from __future__ import annotations

import msgspec

from flintmq.protocol.bodies.body import Body, RequestBody
from flintmq.protocol.bodies.queue import QueueField


class LockRequest(RequestBody, frozen=True, kw_only=True):
    """The queues to lock, to renew, or to unlock.  The last field is of 5.x."""

    client_id: str
    consumer_group: str
    mq_set: tuple[QueueField, ...] = ()
    only_this_broker: bool | None = None


class LockAnswer(Body, frozen=True, kw_only=True):
    """The queues that are now locked for whoever asked."""

    lock_ok_mq_set: tuple[QueueField, ...] = msgspec.field(name="lockOKMQSet", default=())
