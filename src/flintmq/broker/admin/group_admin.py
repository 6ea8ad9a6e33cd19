"""Consumer groups, as admins create, show and delete them."""

from __future__ import annotations

from msgspec.structs import replace

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal, Work, answered
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.attributes import GROUP_ATTRIBUTES, altered
from flintmq.broker.tables.names import group_fault, require, used_group_fault, used_topic_fault
from flintmq.logs import logger
from flintmq.protocol.bodies.group import GroupConfig, GroupForbidden
from flintmq.protocol.bodies.in_parts import table_in_parts
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import GroupHeader, NoFields
from flintmq.protocol.headers.group import DeleteGroup, ForbidGroup
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)


GROUP_BYTES_MAX = 16_384
"""The settings of a group as they come and are kept, with what only newer releases know."""


def create_group(
    request: TypedRequest[NoFields], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): create or change a group."""
    if len(request.body) > GROUP_BYTES_MAX:
        raise _invalid(f"the settings of a group have {GROUP_BYTES_MAX} bytes at most")
    asked = GroupConfig.from_body(request.body)
    fault = group_fault(asked.group_name)
    if fault is not None:
        raise _invalid(fault)
    state.groups.require_room(asked.group_name)
    found = state.groups.find(asked.group_name)
    queues_max = max(state.config.topic_queues_max, found.retry_queue_nums if found else 0)
    if not 0 <= asked.retry_queue_nums <= queues_max:
        raise _invalid(f"a group has 0 to {queues_max} retry queues, not {asked.retry_queue_nums}")
    attributes = asked.attributes
    if attributes or (found is not None and found.attributes):
        current = None if found is None else found.attributes or {}
        attributes = altered(current, attributes or {}, GROUP_ATTRIBUTES)
    log.info("%s: group %s is set", peer.address, asked.group_name)
    state.groups.create_or_replace(replace(asked, attributes=attributes), now_ms)
    return Answer()


def _invalid(remark: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, remark)


def delete_group(
    request: TypedRequest[DeleteGroup], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """DELETE_SUBSCRIPTIONGROUP (207): delete a group.

    4.9 and 5.x use different fields to say whether its offsets are deleted too.
    """
    group = request.header.group_name
    log.info("%s: group %s is deleted", peer.address, group)
    state.groups.remove(group, now_ms)
    if request.header.remove_offset or request.header.clean_offset:
        state.offsets.remove_group(group)
    state.timers.finish_reading(state)
    state.journal.write_off(state, state.in_flight.of_group(group), now_ms)
    state.ordered.remove_group(group)
    state.stats.forget_group(group)
    return Answer()


def all_groups(
    _request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): every group of this broker."""
    table = state.groups.table()

    def work() -> Work:
        groups = table.subscription_group_table
        empty = replace(table, subscription_group_table={})
        written = table_in_parts(empty, "subscriptionGroupTable", groups.items())
        return Answer(body=(yield from written))

    return answered(work(), len(table.subscription_group_table))


def one_group(
    request: TypedRequest[GroupHeader], state: BrokerState, _peer: Peer, now_ms: int
) -> Outcome:
    """GET_SUBSCRIPTIONGROUP_CONFIG (352): the settings of a group, created if need be."""
    found = state.groups.find_or_create(request.header.group, now_ms)
    if found is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return Answer(body=found.to_body())


def forbid_reading(
    request: TypedRequest[ForbidGroup], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353): whether a group may read a topic.

    A value in the request is stored first.
    """
    group, topic, readable = request.header.group, request.header.topic, request.header.readable
    require(used_group_fault(group) or used_topic_fault(topic))
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
