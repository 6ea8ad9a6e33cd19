"""QUERY_CONSUMER_OFFSET (14) and UPDATE_CONSUMER_OFFSET (15): the committed offsets of groups.

A group without an offset starts at 0 in a young queue, one whose first message is still in
memory or that has none yet; so a new consumer misses nothing of a new topic, whatever it says
about where to start.  In an old queue the client decides.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.model.light_queue import is_light
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from flintmq.protocol.typed_request import TypedRequest

FIRST = QueueOffset(0)


def query_offset(
    request: TypedRequest[QueryConsumerOffset], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_CONSUMER_OFFSET (14): the stored offset, or where a group without one starts."""
    header = request.header
    topic, queue_id = header.topic, header.queue_id
    offset = state.offsets.query(header.consumer_group, topic, queue_id)
    if offset is not None:
        return Answer(header=OffsetAnswer(offset=offset))
    if header.set_zero_if_not_found is False:
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, do not set to zero, maybe this group boot first",
        )
    if state.log.min_offset(topic, queue_id) > 0 or state.log.lookup.is_old(topic, queue_id, FIRST):
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
        )
    return Answer(header=OffsetAnswer(offset=FIRST))


def update_offset(
    request: TypedRequest[UpdateConsumerOffset], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """UPDATE_CONSUMER_OFFSET (15): store an offset; queue id and offset are not checked."""
    header = request.header
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    has_light = state.log.raw.light.is_on
    if group not in state.groups and not (has_light and is_light(group)):
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    if topic not in state.topics and not (has_light and is_light(topic)):
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    if state.offsets.has_reset(group, topic, queue_id):
        return Answer(remark="Offset has been previously reset")
    state.offsets.commit(group, topic, queue_id, header.commit_offset, peer.address)
    return Answer()


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.QUERY_CONSUMER_OFFSET: query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: update_offset,
}
