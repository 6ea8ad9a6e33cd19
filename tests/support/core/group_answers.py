"""Answers of brokers about a group."""

from __future__ import annotations

from flintmq.model.group import MessageModel
from flintmq.protocol.bodies.client import (
    ClientConnection,
    ConsumerConnections,
    Subscription,
)
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from support.core.peers import Reply, no, ok

OFFLINE = no(206, "not online")


def table(*configs: GroupConfig) -> Reply:
    by_name = {config.group_name: config for config in configs}
    return ok(body=GroupTable(subscription_group_table=by_name).to_body())


def online(*client_ids: str, text: str = "*", topic: str = "orders") -> Reply:
    body = ConsumerConnections(
        connection_set=tuple(
            ClientConnection(client_id=name, client_addr=f"{name}:1", language="JAVA", version=479)
            for name in client_ids
        ),
        message_model=MessageModel.CLUSTERING,
        subscription_table={topic: Subscription(topic=topic, sub_string=text)},
    )
    return ok(body=body.to_body())
