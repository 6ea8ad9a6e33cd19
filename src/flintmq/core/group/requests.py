"""The requests of a consumer group, made from its actions, and what their answers say.

Only headers and bodies are made here: where a request goes is for whoever knows the routes.
Pulls are made in `core.reading.pull_request`, requests for offsets in
`core.reading.broker_offsets`, heartbeats in `core.group.group_introduction` and by the client's
engine.
"""

from __future__ import annotations

from flintmq.core.ask import refusal
from flintmq.core.group.actions import DeadLetterRecord, LockQueues, SendBack, UnlockQueues
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import ConsumerIds
from flintmq.protocol.bodies.group import LockAnswer, LockRequest
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from flintmq.protocol.headers.group import SendBackHeader, UnregisterClient


def members_request(group: str) -> Command:
    """GET_CONSUMER_LIST_BY_GROUP (38)."""
    header = OfConsumerGroup(consumer_group=group)
    return request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)


def read_members(reply: Command, address: str) -> tuple[str, ...]:
    """The client ids of the group's members."""
    _require_success(reply, address)
    return ConsumerIds.from_body(reply.body).consumer_id_list


def lock_request(ask: LockQueues, group: str, client_id: str) -> Command:
    """LOCK_BATCH_MQ (41)."""
    body = LockRequest(client_id=client_id, consumer_group=group, mq_set=ask.queues)
    return request(RequestCode.LOCK_BATCH_MQ, None, body.to_body())


def read_locked(reply: Command, address: str) -> tuple[QueueRef, ...]:
    """The queues that are locked for us now."""
    _require_success(reply, address)
    return LockAnswer.from_body(reply.body).lock_ok_mq_set


def unlock_request(unlock: UnlockQueues, group: str, client_id: str) -> Command:
    """UNLOCK_BATCH_MQ (42), oneway."""
    body = LockRequest(client_id=client_id, consumer_group=group, mq_set=unlock.queues)
    return request(RequestCode.UNLOCK_BATCH_MQ, None, body.to_body(), oneway=True)


def send_back_request(ask: SendBack, group: str, *, unit_mode: bool = False) -> Command:
    """CONSUMER_SEND_MSG_BACK (36).  The broker finds the message by its log offset."""
    message = ask.message
    header = SendBackHeader(
        offset=message.log_offset,
        group=group,
        delay_level=ask.delay_level,
        origin_msg_id=message.message_id,
        origin_topic=message.topic,
        unit_mode=unit_mode,
        max_reconsume_times=ask.tries_max,
        broker_name=ask.queue.broker,
    )
    return request(RequestCode.CONSUMER_SEND_MSG_BACK, header)


def dead_letter_request(
    ask: DeadLetterRecord, group: str, tries_max: int, *, unit_mode: bool = False
) -> Command:
    """CONSUMER_SEND_MSG_BACK (36) with level -1, for a record that cannot be decoded."""
    bad = ask.bad
    header = SendBackHeader(
        offset=bad.log_offset,
        group=group,
        delay_level=DEAD_LETTER_LEVEL,
        origin_msg_id=bad.offset_message_id,
        origin_topic=bad.topic or ask.queue.topic,
        unit_mode=unit_mode,
        max_reconsume_times=tries_max,
        broker_name=ask.queue.broker,
    )
    return request(RequestCode.CONSUMER_SEND_MSG_BACK, header)


def unregister_request(client_id: str, group: str) -> Command:
    """UNREGISTER_CLIENT (35)."""
    header = UnregisterClient(client_id=client_id, consumer_group=group)
    return request(RequestCode.UNREGISTER_CLIENT, header)


def _require_success(reply: Command, address: str) -> None:
    if reply.code != ResponseCode.SUCCESS:
        raise refusal(reply, address)
