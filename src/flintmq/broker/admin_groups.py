"""Consumer groups, as admins make, show and delete them."""

from __future__ import annotations

from msgspec.structs import replace

from flintmq.broker.admin_topics import QUEUES_MAX
from flintmq.broker.attributes import GROUP_ATTRIBUTES, altered
from flintmq.broker.dispatch import Processor
from flintmq.broker.names import group_fault
from flintmq.broker.outcome import Answer, Outcome, Refusal
from flintmq.broker.peer import Peer
from flintmq.broker.state import BrokerState
from flintmq.logs import logger
from flintmq.protocol.bodies.group import GroupConfig, GroupForbidden
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common import NoFields, OfGroup
from flintmq.protocol.headers.group import DeleteGroup, ForbidGroup
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)


def create_group(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """200: create or change one."""
    asked = GroupConfig.from_body(request.body)
    fault = group_fault(asked.group_name)
    if fault is not None:
        raise _invalid(fault)
    if not 0 <= asked.retry_queue_nums <= QUEUES_MAX:
        raise _invalid(f"a group has 0 to {QUEUES_MAX} retry queues, not {asked.retry_queue_nums}")
    found = state.groups.find(asked.group_name)
    attributes = asked.attributes
    if attributes or (found is not None and found.attributes):
        current = None if found is None else found.attributes or {}
        attributes = altered(current, attributes or {}, GROUP_ATTRIBUTES)
    log.info("%s: group %s is set", peer.address, asked.group_name)
    state.groups.put(replace(asked, attributes=attributes), now_ms)
    return Answer()


def _invalid(remark: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, remark)


def delete_group(
    request: TypedRequest[DeleteGroup], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """207: with its offsets if 4.9 or 5.x says so, each in its own field."""
    group = request.header.group_name
    log.info("%s: group %s is deleted", peer.address, group)
    state.groups.remove(group, now_ms)
    if request.header.remove_offset or request.header.clean_offset:
        state.offsets.remove_group(group)
    state.stats.forget_group(group)
    return Answer()


def all_groups(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """201."""
    return Answer(body=state.groups.table().to_body())


def one_group(
    request: TypedRequest[OfGroup], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """352: a group that is not there is made, where that is allowed."""
    found = state.groups.find_or_create(request.header.group, now_ms)
    if found is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return Answer(body=found.to_body())


def forbid_reading(
    request: TypedRequest[ForbidGroup], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """353: may a group read a topic?  With an answer to that in the request it is set first."""
    group, topic, readable = request.header.group, request.header.topic, request.header.readable
    if readable is not None and readable != state.groups.may_read(group, topic):
        log.info("%s: %s may read %s: %s", peer.address, group, topic, readable)
        state.groups.allow_reading(group, topic, now_ms, allowed=readable)
    may_read = state.groups.may_read(group, topic)
    body = GroupForbidden(group=group, readable=may_read, topic=topic)
    return Answer(body=body.to_body(), remark="")


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: create_group,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: delete_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: one_group,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: forbid_reading,
}
