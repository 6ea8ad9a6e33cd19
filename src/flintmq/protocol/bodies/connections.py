"""Which clients are connected: consumers (203), producers (204), all producers (328)."""

from __future__ import annotations

import msgspec

from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.consuming import (
    ConsumeFromWhereField,
    ConsumeTypeField,
    MessageModelField,
)
from flintmq.protocol.bodies.subscription import Subscription
from flintmq.protocol.fields import Int32, Int64


class ClientConnection(Body, frozen=True, kw_only=True):
    """One connected client.  No language means one the broker does not know."""

    client_addr: str = ""
    client_id: str
    language: str | None = None
    version: Int32 = 0


class ConsumerConnections(Body, frozen=True, kw_only=True):
    """Answer to 203: the members of a group and what they subscribe to."""

    connection_set: tuple[ClientConnection, ...] = ()
    consume_from_where: ConsumeFromWhereField = ConsumeFromWhere.LAST_OFFSET
    consume_type: ConsumeTypeField = ConsumeType.PUSH
    message_model: MessageModelField = MessageModel.CLUSTERING
    subscription_table: dict[str, Subscription] = {}


class ProducerConnections(Body, frozen=True, kw_only=True):
    """Answer to 204."""

    connection_set: tuple[ClientConnection, ...] = ()


class ConnectedProducer(Body, frozen=True, kw_only=True):
    """One producer.  Java writes its address with a slash in front."""

    client_id: str
    language: str | None = None
    last_update_timestamp: Int64 = 0
    remote_ip: str = msgspec.field(name="remoteIP", default="")
    version: Int32 = 0


class ProducerTable(Body, frozen=True, kw_only=True):
    """Answer to 328: producers by group."""

    data: dict[str, tuple[ConnectedProducer, ...]] = {}
