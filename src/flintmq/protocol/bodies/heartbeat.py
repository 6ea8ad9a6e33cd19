"""HEART_BEAT (34): which groups live behind a connection, and what they subscribe to.

Every client leaves out something else (the tests show each of them), so only the names are
required.
"""

from __future__ import annotations

import msgspec

from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.body import Body, RequestBody
from flintmq.protocol.bodies.consuming import (
    ConsumeFromWhereField,
    ConsumeTypeField,
    MessageModelField,
)
from flintmq.protocol.bodies.subscription import Subscription
from flintmq.protocol.fields import Int32


class ProducerGroup(Body, frozen=True, kw_only=True):
    group_name: str


class ConsumerGroup(Body, frozen=True, kw_only=True):
    """One consumer group of a client, with its wishes."""

    consume_from_where: ConsumeFromWhereField = ConsumeFromWhere.LAST_OFFSET
    consume_type: ConsumeTypeField = ConsumeType.PUSH
    group_name: str
    message_model: MessageModelField = MessageModel.CLUSTERING
    subscription_data_set: tuple[Subscription, ...] = ()
    unit_mode: bool = False


class Heartbeat(RequestBody, frozen=True, kw_only=True):
    """``heartbeat_fingerprint`` and ``without_sub`` are of 5.x; 0 and false mean the old kind."""

    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: tuple[ConsumerGroup, ...] = ()
    heartbeat_fingerprint: Int32 | None = None
    producer_data_set: tuple[ProducerGroup, ...] = ()
    without_sub: bool | None = None
