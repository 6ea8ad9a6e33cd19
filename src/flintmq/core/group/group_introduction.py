"""Makes a group known to a broker without being a member of it.

Brokers learn of a group from heartbeats, and only then create its retry topic.  Tools that show
lag find the brokers of a group by that topic, and brokers of 5.x take no offsets of a group they
have not heard of.  So one heartbeat is sent, and the client unregisters at once.

A group that has its topic has had members, and is left alone: another one, even for a moment,
would make them share out their queues anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from flintmq.core.ask import ASK_MS, ask
from flintmq.core.conversation import Call, Conversation
from flintmq.core.group.requests import unregister_request
from flintmq.model.group import ConsumeType
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, ProducerGroup
from flintmq.protocol.codes import RequestCode


def introduce(address: str, group: str, client_id: str) -> Conversation[None]:
    """Send one heartbeat (HEART_BEAT, 34) for the group and unregister at once."""
    told = ConsumerGroup(group_name=group, consume_type=ConsumeType.PULL)
    body = heartbeat_body(client_id, (), (told,))
    yield from ask(address, RequestCode.HEART_BEAT, None, body)
    yield Call(address, unregister_request(client_id, group), ASK_MS)


def heartbeat_body(
    client_id: str, producers: Iterable[str], consumers: Iterable[ConsumerGroup]
) -> bytes:
    """The body of HEART_BEAT (34) of a client with these groups."""
    return Heartbeat(
        client_id=client_id,
        producer_data_set=tuple(ProducerGroup(group_name=group) for group in producers),
        consumer_data_set=tuple(consumers),
        heartbeat_fingerprint=0,
        without_sub=False,
    ).to_body()
