"""Clients and their subscriptions: heartbeats, and lists of connected clients.

`Heartbeat` is the body of HEART_BEAT (34): the groups behind a connection and what they subscribe
to.  Every client leaves out something else (the tests show each of them), so only the names are
required.  Answers list the clients that are connected: GET_CONSUMER_CONNECTION_LIST (203),
GET_PRODUCER_CONNECTION_LIST (204) and GET_ALL_PRODUCER_INFO (328).
"""

from __future__ import annotations

import msgspec

from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.body import Body, RequestBody
from flintmq.protocol.bodies.common_bodies import (
    ConsumeFromWhereField,
    ConsumeTypeField,
    MessageModelField,
)
from flintmq.protocol.fields import Int32, Int64

TAG = "TAG"
SQL92 = "SQL92"


class Subscription(Body, frozen=True, kw_only=True):
    """One subscription.

    ``sub_version`` tells newer from older: milliseconds from most clients, nanoseconds from
    Go, a decimal text from C++.  ``code_set`` holds the Java hash of every tag; C++ fills it
    with zeros and Node may leave it out, so a broker does better to work it out itself.
    """

    class_filter_mode: bool = False
    code_set: tuple[Int32, ...] = ()
    expression_type: str = TAG
    sub_string: str = "*"
    sub_version: Int64 = 0
    tags_set: tuple[str, ...] = ()
    topic: str

    @property
    def is_tag(self) -> bool:
        """Whether ``sub_string`` is a list of tags and not SQL.  Old clients name no type."""
        return self.expression_type in (TAG, "")


class CheckClientConfig(RequestBody, frozen=True, kw_only=True):
    """Request CHECK_CLIENT_CONFIG (46): would the broker take this subscription?"""

    client_id: str
    group: str
    namespace: str | None = None
    subscription_data: Subscription


class GroupSubscription(Body, frozen=True, kw_only=True):
    """Answer to QUERY_SUBSCRIPTION_BY_CONSUMER (345): what a group wants of a topic."""

    group: str
    subscription_data: Subscription | None = None
    topic: str


class ConsumerIds(Body, frozen=True, kw_only=True):
    """Answer to GET_CONSUMER_LIST_BY_GROUP (38): the members of a group."""

    consumer_id_list: tuple[str, ...] = ()


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


class ClientConnection(Body, frozen=True, kw_only=True):
    """One connected client.  No language means one the broker does not know."""

    client_addr: str = ""
    client_id: str
    language: str | None = None
    version: Int32 = 0


class ConsumerConnections(Body, frozen=True, kw_only=True):
    """Answer to GET_CONSUMER_CONNECTION_LIST (203): members and their subscriptions."""

    connection_set: tuple[ClientConnection, ...] = ()
    consume_from_where: ConsumeFromWhereField = ConsumeFromWhere.LAST_OFFSET
    consume_type: ConsumeTypeField = ConsumeType.PUSH
    message_model: MessageModelField = MessageModel.CLUSTERING
    subscription_table: dict[str, Subscription] = {}


class ProducerConnections(Body, frozen=True, kw_only=True):
    """Answer to GET_PRODUCER_CONNECTION_LIST (204)."""

    connection_set: tuple[ClientConnection, ...] = ()


class ConnectedProducer(Body, frozen=True, kw_only=True):
    """One producer.  Java writes its address with a slash in front."""

    client_id: str
    language: str | None = None
    last_update_timestamp: Int64 = 0
    remote_ip: str = msgspec.field(name="remoteIP", default="")
    version: Int32 = 0


class ProducerTable(Body, frozen=True, kw_only=True):
    """Answer to GET_ALL_PRODUCER_INFO (328): producers by group."""

    data: dict[str, tuple[ConnectedProducer, ...]] = {}
